"""How a vocabulary is measured: its sources, its namespaces, its settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from samara_devtools.bench.secrets import Source

if TYPE_CHECKING:
    from samara_devtools.bench.lab import Lab
    from samara_devtools.bench.options import Options
    from samara_devtools.bench.table import Row


@dataclass(frozen=True)
class Workload:
    """Secrets whose annotations ask for copies in every namespace, unless a subclass says otherwise."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    """Make a Secret a source for every namespace. Empty if the sources are custom resources."""
    settings: Mapping[str, object] | None = None
    """The vocabulary's own settings. None: as they are without any."""
    least_rate: int = 90
    """The limit for the controller's rate, in percent of the bare client's."""

    def labels_of(self, namespace: str, options: Options) -> dict[str, str]:
        """The labels of a namespace."""
        return {}

    def source(self, options: Options, name: str) -> Source:
        return Source(options, name)


class Measured(Protocol):
    """What a workload measured in its own way."""

    def rows(self) -> Iterator[Row]: ...


@dataclass(frozen=True)
class OwnMeasurement(Workload, ABC):
    """A workload that is measured in its own way, and not by the phases."""

    namespaces: int = 1000

    @abstractmethod
    def heading(self, options: Options) -> str:
        """What is measured, for the line above the table."""

    @abstractmethod
    async def measure(self, lab: Lab) -> Measured: ...
