"""Flags by which the commands that list something leave out what a user does not ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import click

from samara.cli.options import Cluster
from samara.core.label_selectors import Selector
from samara.core.model import NAMESPACE, NO_METADATA, Ref
from samara.core.selectors import parse_selector
from samara.vocabularies import VOCABULARIES

F = TypeVar("F", bound=Callable[..., object])

EVERYTHING = Selector()


@dataclass(frozen=True, slots=True)
class Filter:
    """What to show. Without values, everything."""

    namespace: str | None = None
    vocabularies: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    selector: Selector = EVERYTHING
    operator_namespace: str | None = None
    """The namespace that has the operator's settings and what it holds. Beside -A, -n can mean nothing else."""

    def admits(
        self, vocabulary: str, namespace: str, reasons: Iterable[str], labels: Mapping[str, str] = NO_METADATA
    ) -> bool:
        """True if the vocabulary, the namespace and the labels are asked for, and one of the reasons is."""
        return (
            self.namespace in (None, namespace)
            and (not self.vocabularies or vocabulary in self.vocabularies)
            and (not self.reasons or not set(self.reasons).isdisjoint(reasons))
            and self.selector.matches(labels)
        )

    @property
    def where(self) -> str:
        """The end of a sentence that says that nothing was found."""
        return f" in namespace {self.namespace}" if self.namespace else ""


def filter_of(
    cluster: Cluster,
    all_namespaces: bool,
    selector: Selector,
    vocabularies: tuple[str, ...] = (),
    reasons: tuple[str, ...] = (),
) -> Filter:
    """The filter of the flags below and of -n, which -A outdoes as in kubectl."""
    named = cluster.namespace or None
    if all_namespaces:
        return Filter(None, vocabularies, reasons, selector, operator_namespace=named)
    return Filter(named, vocabularies, reasons, selector)


def operators_cluster(cluster: Cluster, chosen: Filter) -> Cluster:
    """The cluster with the operator's namespace in place of the one whose objects are shown."""
    return replace(cluster, namespace=chosen.operator_namespace)


def namespace_of(ref: Ref) -> str:
    """The namespace of an object. A Namespace is in itself."""
    return ref.name if ref.kind == NAMESPACE else ref.namespace


def _parse_labels(value: str) -> Selector:
    parsed = parse_selector(value)
    if parsed.faults:
        raise click.BadParameter("; ".join(fault.message for fault in parsed.faults))
    return parsed.selector


def selection_flags(labels_of: str) -> Callable[[F], F]:
    """Adds -A and -l. `labels_of` says whose labels are compared."""

    def add(command: F) -> F:
        by_labels = click.option(
            "-l",
            "--selector",
            type=_parse_labels,
            default="",
            metavar="SELECTOR",
            help=f"Only {labels_of} with these labels: a=b,c!=d,e in (f,g),h,!i.",
        )
        everywhere = click.option("-A", "--all-namespaces", is_flag=True, help="In every namespace, whatever -n says.")
        return everywhere(by_labels(command))

    return add


def filter_flags(reasons: Sequence[str], labels_of: str) -> Callable[[F], F]:
    """Adds -A, -l, --vocabulary and --reason. The last two are repeatable."""
    names = [vocabulary.name for vocabulary in VOCABULARIES]

    def add(command: F) -> F:
        by_reason = click.option(
            "--reason", "reasons", multiple=True, type=click.Choice(reasons), help="Only with this reason; repeatable."
        )
        by_vocabulary = click.option(
            "--vocabulary",
            "vocabularies",
            multiple=True,
            type=click.Choice(names),
            help="Only of this vocabulary; repeatable.",
        )
        return selection_flags(labels_of)(by_vocabulary(by_reason(command)))

    return add
