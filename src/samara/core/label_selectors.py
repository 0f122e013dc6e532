"""Label selectors, as Kubernetes evaluates them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

GREATER, LESS = "Gt", "Lt"
"""Only in a selector that is a text: `matchExpressions` does not have them."""
INTEGER = re.compile("[0-9]{1,18}")


class Requirement(NamedTuple):
    """One condition on the labels of an object."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """`NotIn` also holds if the key is absent, and a label that is not an integer is neither greater nor less."""
        match self.operator:
            case "In":
                return labels.get(self.key) in self.values
            case "NotIn":
                return labels.get(self.key) not in self.values
            case "Exists":
                return self.key in labels
            case "Gt" | "Lt":
                value, (bound,) = labels.get(self.key, ""), self.values
                if not INTEGER.fullmatch(value):
                    return False
                return int(value) > int(bound) if self.operator == GREATER else int(value) < int(bound)
            case _:
                return self.key not in labels


class Selector(NamedTuple):
    """Matches if all requirements hold. A selector without requirements matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(requirement.key for requirement in self.requirements)
