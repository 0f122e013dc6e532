"""The reasons of faults that only a FishySecret has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from samara.core.vocabulary import DeclaredReason

PATH_NOT_ALLOWED: Final = "PathNotAllowed"
NO_NAMESPACE: Final = "NoNamespace"

REASONS: Mapping[str, DeclaredReason] = {
    NO_NAMESPACE: DeclaredReason("the target namespace of a FishySecret does not exist or is being deleted"),
    PATH_NOT_ALLOWED: DeclaredReason(
        "the settings do not let the namespace of a FishySecret read a path",
        "an administrator can allow the path in the settings (vocabularies.fishysecret.paths)",
    ),
    "TokenError": DeclaredReason(
        "the configuration of the secret manager is missing or incomplete",
        "complete the Secret that configures the secret manager",
        is_of_secret_manager=True,
    ),
    "ConnectionError": DeclaredReason(
        "the configuration names a secret manager that cannot be used",
        "correct the url in the Secret that configures the secret manager",
        is_of_secret_manager=True,
    ),
    "FetchError": DeclaredReason(
        "a path could not be read; the Secret stays as it is",
        "correct the path, or put the value into the secret manager; the Secret stays as it is",
        is_of_secret_manager=True,
    ),
}
