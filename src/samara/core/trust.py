"""Trust in a name: the settings, consents and sources that give something to a namespace because of its name.

In a namespace tree, tenants choose the names of namespaces, so a name does not prove whose namespace it is. A source
type that creates namespaces for tenants asks `View.trust_in` before it creates one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from samara.core.model import Object, Ref

TREE_PREFIX = "tree:"
"""In consents and settings, `tree:<name>` means a namespace and all that are below it in a tree.

Unlike a name, the place in a tree cannot be chosen: it follows from labels of Namespaces, which administrators write.
"""


def root_in(item: str) -> str:
    """The namespace in `tree:<name>`. Empty for any other item, such as `tree:Secret/db`, an object of the namespace
    `tree`."""
    return item.removeprefix(TREE_PREFIX) if item.startswith(TREE_PREFIX) and "/" not in item else ""


class ChosenLabel(NamedTuple):
    """A label of a Namespace that a tenant chose."""

    setting: str
    """The setting whose pattern let the tenant."""
    trusted: str | None
    """The value that the label would have if no tenant had chosen one. None if the Namespace would not have it."""


@dataclass(frozen=True, slots=True)
class Trust:
    """One setting, consent or source that gives something to a namespace of a certain name."""

    by: str | Ref
    """The path of a setting, or the object that names the namespace."""
    verb: str
    """What it does with the name, such as `lists it`."""
    hint: str = ""
    """A part of the setting, for readers who may see it."""
    holds: Callable[[Object | None], bool] = lambda obj: True
    """False if the object, in this state, does not name the namespace. A cache may be behind."""

    def shown(self, namespace: str, is_discreet: bool) -> str:
        """The trust, for readers with rights in one namespace. If `is_discreet`, it names nothing outside of it."""
        if isinstance(self.by, str):
            hint = f" ({self.hint})" if self.hint and not is_discreet else ""
            return f"the setting {self.by} {self.verb}{hint}"
        if not is_discreet or self.by.namespace_or_name == namespace:
            return f"{self.by} {self.verb}"
        kind = self.by.kind.name
        return f"{'an' if kind[0] in 'AEIOU' else 'a'} {kind} elsewhere {self.verb}"
