"""The vocabularies of the program. A new one is a module here and a line in VOCABULARIES."""

from typing import Any

from samara.core.vocabulary import Vocabulary
from samara.vocabularies import (
    accurate,
    config_syncer,
    fishysecret,
    reflector,
    replicator,
    resource_distribution,
    secret_copy,
    sync_to,
)

# In order of rank: if two vocabularies want one address, the first gets it. The order is a promise to users.
VOCABULARIES: tuple[Vocabulary[Any], ...] = (
    secret_copy.VOCABULARY,
    resource_distribution.VOCABULARY,
    accurate.VOCABULARY,
    fishysecret.VOCABULARY,
    sync_to.VOCABULARY,
    replicator.VOCABULARY,
    reflector.VOCABULARY,
    config_syncer.VOCABULARY,
)
