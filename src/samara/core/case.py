"""What every decision about one source looks at."""

from __future__ import annotations

from dataclasses import dataclass

from samara.core.allow import Rules, standstill
from samara.core.model import Key, Object, Ref, namespace_ref
from samara.core.table import Table
from samara.core.view import View
from samara.core.want import Dialect


@dataclass(frozen=True, slots=True)
class Case:
    """One source, its dialect and the world around it."""

    key: Key
    dialect: Dialect
    source: Object | None
    view: View
    """What is in sight: all, or one namespace."""
    whole: View
    table: Table
    rules: Rules

    @property
    def standstill(self) -> str:
        """Why nothing is written for the source, where that is so."""
        return "" if self.source is None else standstill(self.source, self.dialect, self.whole)

    def home(self, ref: Ref) -> Object | None:
        """The Namespace that an object is in; what has none has no home."""
        return self.view.get(namespace_ref(ref.namespace)) if ref.kind.namespaced else None
