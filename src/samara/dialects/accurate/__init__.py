"""Accurate: trees of namespaces, templates, and what flows along them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from samara.core.admit import Request
from samara.core.model import NAMESPACE, Kind
from samara.core.view import OwnerOf, View
from samara.core.want import Adopt, Bare, Dialect
from samara.dialects.accurate import propagate, sub, tree
from samara.dialects.accurate.admit import AdmitRules, add_finalizer, admit_namespace, admit_sub_namespace
from samara.dialects.accurate.config import Config
from samara.dialects.accurate.convert import convert as convert
from samara.dialects.accurate.words import APPLIER as APPLIER
from samara.dialects.accurate.words import NAME as NAME
from samara.dialects.accurate.words import ROLES, SUB_NAMESPACE


@dataclass(frozen=True, slots=True)
class Terms:
    """What the settings say beside the original's own configuration."""

    adopt: Adopt = Adopt.IDENTICAL
    cascading: bool = False
    is_reserved: Callable[[str], bool] = lambda name: False
    managers: frozenset[str] = frozenset({APPLIER})
    generated: bool = False
    """True where what a controller made counts as its owner says."""


def dialects(
    config: Config,
    kinds: tuple[Kind, ...],
    bare: Bare,
    owner: OwnerOf,
    terms: Terms,
) -> tuple[Dialect, ...]:
    """The vocabulary's three: SubNamespaces make namespaces, namespaces inherit words, and objects are propagated."""
    rules = AdmitRules(terms.cascading, config.naming.refusal, terms.is_reserved)
    applying = terms.managers | {APPLIER}  # whatever the settings name: words of Namespaces we apply under this one

    def of_namespaces(request: Request, view: View) -> tuple[str, ...]:
        return admit_namespace(request, view, rules)

    def of_subs(request: Request, view: View) -> tuple[str, ...]:
        return admit_sub_namespace(request, view, rules)

    subs = replace(
        sub.SubNamespaces(terms.cascading, terms.is_reserved).dialect(applying),
        admit=of_subs,
        mutate=add_finalizer,
        guarded=(SUB_NAMESPACE,),
        judged=("CREATE", "UPDATE", "DELETE"),
    )
    trees = replace(
        tree.dialect(config, applying),
        admit=of_namespaces,
        guarded=(NAMESPACE,),
        judged=("CREATE", "UPDATE", "DELETE"),
        scope=frozenset(ROLES),
        fails_closed=True,
    )
    objects = propagate.Propagation(config, kinds, bare, owner, terms.adopt, terms.managers, terms.generated)
    return subs, trees, objects.dialect
