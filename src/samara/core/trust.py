"""Trust in a name: the settings, consents and sources that give something to a namespace because of its name.

In a namespace tree, tenants choose the names of namespaces, so a name does not prove whose namespace it is. A source
type that creates namespaces for tenants asks `View.trust_in` before it creates one. Labels that tenants choose prove no
more: `ChosenLabels` says which these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from samara.core.model import Object, Ref
from samara.core.names import matches_any_glob

if TYPE_CHECKING:
    from samara.core.view import View

TREE = "tree:"
"""In consents and settings, `tree:<name>` means a namespace and all that are below it in a tree.

Unlike a name, the place in a tree cannot be chosen: it follows from labels of Namespaces, which administrators write.
"""


def root_in(item: str) -> str:
    """The namespace in `tree:<name>`. Empty for any other item, such as `tree:Secret/db`, an object of the namespace
    `tree`."""
    return item.removeprefix(TREE) if item.startswith(TREE) and "/" not in item else ""


class TrustedNamespaces(NamedTuple):
    """The namespaces to which a setting gives something."""

    setting: str
    """The path of the setting."""
    items: tuple[str, ...] = ()
    """Names, globs and trees."""

    @property
    def trees(self) -> frozenset[str]:
        return frozenset(filter(None, map(root_in, self.items)))

    def includes(self, namespace: str, view: View) -> bool:
        if matches_any_glob(self.items, namespace):  # a tree is a glob that matches no name
            return True
        trees = self.trees
        return bool(trees) and not trees.isdisjoint(view.trees_of(namespace))

    def naming(self, name: str) -> str:
        """The first item that means a namespace because of this name, or an empty text.

        A glob without a letter, such as `*`, means every namespace, so no tenant gains by a choice of the name.
        """
        return next(
            (item for item in self.items if item.strip("*?") and matches_any_glob((item, root_in(item)), name)), ""
        )


class ChosenLabel(NamedTuple):
    """A label of a Namespace that a tenant chose."""

    setting: str
    """The setting whose pattern let the tenant."""
    trusted: str | None
    """The value that the label would have if no tenant had chosen one. None if the Namespace would not have it."""


@dataclass(frozen=True, slots=True)
class ChosenLabels:
    """The labels of Namespaces that tenants choose without the word of an administrator, who allowed a pattern only."""

    setting: str
    """The path of the setting that has the patterns."""
    patterns: tuple[str, ...]
    admits: Callable[[str], bool]
    """True for a key that only a pattern lets tenants set."""
    on: Callable[[Object, Iterable[str], View], Mapping[str, str | None]]
    """Which of these keys are such labels on a Namespace, each with its `ChosenLabel.trusted`."""


@dataclass(frozen=True, slots=True)
class Trust:
    """One setting, consent or source that gives something to a namespace of a certain name."""

    by: str | Ref
    """The path of a setting, or the object that names the namespace."""
    verb: str
    """What it does with the name, such as `lists it`."""
    hint: str = ""
    """A part of the setting, for readers who may know it."""
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
