"""Namespaces by the labels that name other Namespaces, and sources by the namespace they are in."""

from __future__ import annotations

from collections.abc import Iterable

from samara.core.model import NAMESPACE, Object, Ref
from samara.core.table import Table


class Relations:
    """Two indexes for the dialects that follow labels from namespace to namespace."""

    def __init__(self, table: Table) -> None:
        self._labels = frozenset().union(*(dialect.relations for dialect in table.dialects))
        self._local = frozenset(dialect.name for dialect in table.dialects if dialect.relations)
        self._labelled: dict[tuple[str, str], dict[Ref, None]] = {}
        self._sources: dict[tuple[str, str], dict[Ref, None]] = {}

    def labelled(self, label: str, value: str) -> Iterable[Ref]:
        return tuple(self._labelled.get((label, value), ()))

    def hangs_on(self, name: str) -> bool:
        """True where a label of some Namespace names this one."""
        return any((label, name) in self._labelled for label in self._labels)

    def sources(self, dialect: str, namespace: str) -> Iterable[Ref]:
        return tuple(self._sources.get((dialect, namespace), ()))

    def add(self, obj: Object, dialects: Iterable[str]) -> None:
        for label in self._labels if obj.ref.kind == NAMESPACE else ():
            if label in obj.labels:
                self._labelled.setdefault((label, obj.labels[label]), {})[obj.ref] = None
        for dialect in self._local.intersection(dialects):
            self._sources.setdefault((dialect, obj.ref.namespace), {})[obj.ref] = None

    def discard(self, obj: Object, dialects: Iterable[str]) -> None:
        for label in self._labels if obj.ref.kind == NAMESPACE else ():
            if label in obj.labels:
                _drop(self._labelled, (label, obj.labels[label]), obj.ref)
        for dialect in self._local.intersection(dialects):
            _drop(self._sources, (dialect, obj.ref.namespace), obj.ref)


def _drop(index: dict[tuple[str, str], dict[Ref, None]], key: tuple[str, str], ref: Ref) -> None:
    refs = index.get(key, {})
    refs.pop(ref, None)
    if not refs:
        index.pop(key, None)
