"""What a manifest cannot mean in the words of sync-to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from samara.cli.lint_nodes import Finding, Manifest, Word
from samara.cli.lint_part import Part, bad_names, bad_type, kind_named, wrong_kind
from samara.core.desired import Fault
from samara.core.kinds import is_kept_by_cluster
from samara.core.model import Kind, KindName, Ref
from samara.core.names import matches_any_glob, quoted
from samara.core.policy import kept_by_cluster
from samara.core.selectors import NO_NAMESPACES
from samara.vocabularies.sync_to import CLUSTER, LISTED, SYNC_TO, SYNC_TO_NAMESPACES, listed_names, parse

PROPOSED = "openkruise.io/sync-to/namespaces"
"""The proposal's own spelling of the list, which no API server stores."""
ACCEPTED = f'"{CLUSTER}" for every namespace, or "{LISTED[0]}" for those that {SYNC_TO_NAMESPACES} lists'
A_LIST = 'names of namespaces, as in "ns-1;ns-2"'


def part(kinds: tuple[KindName, ...], protected: tuple[str, ...], carries_labels: bool) -> Part:
    served = {(kind.api_version, kind.name): kind for kind in map(kind_named, kinds)}

    def is_served(manifest: Manifest) -> bool:
        return (manifest.api_version, manifest.kind) in served

    def is_source(manifest: Manifest) -> bool:
        return manifest.annotation(SYNC_TO) is not None and is_served(manifest)

    def findings(manifest: Manifest) -> Iterator[Finding]:
        asked, listed = manifest.annotation(SYNC_TO), manifest.annotation(SYNC_TO_NAMESPACES)
        word = asked or listed
        if word is None:
            return
        if not is_served(manifest):
            known = ", ".join(sorted(kind for _, kind in served))
            yield wrong_kind(
                manifest, word, f"one of {known}: no other kind is served (setting vocabularies.sync-to.kinds)"
            )
            return
        told = list(_asked(manifest, asked, listed))
        is_text = asked is not None and asked.value is not None  # that it is none has been said
        kind = served[manifest.api_version, manifest.kind]
        refused = list(_refused(manifest, kind)) if is_text and not told else []
        yield from (*told, *refused)
        if listed is not None and not refused:
            yield from _list(manifest, listed, protected)
        if asked is not None:
            yield from bad_type(manifest)

    return Part(frozenset({SYNC_TO, SYNC_TO_NAMESPACES}), is_source, findings, carries_labels=carries_labels)


def _refused(manifest: Manifest, kind: Kind) -> Iterator[Finding]:
    """What the vocabulary itself refuses as a whole, in its words."""
    words = {word.key: word for word in manifest.words if word.where == "annotation"}
    for fault in _refusals(manifest, kind, {key: word.value or "" for key, word in words.items()}):
        found, _, expected = fault.message.partition("; ")
        word = words[SYNC_TO_NAMESPACES] if found.startswith(SYNC_TO_NAMESPACES) else words[SYNC_TO]
        yield manifest.finding(
            word.line, word.key, found.removeprefix(f"{word.key} "), expected or f"no {SYNC_TO} on it"
        )


def _refusals(manifest: Manifest, kind: Kind, annotations: Mapping[str, str]) -> tuple[Fault, ...]:
    name = manifest.name.value if manifest.name is not None else None
    ref = Ref(kind, manifest.namespace, name or "")
    if is_kept_by_cluster(ref.kind, ref.name):
        return (Fault("Refused", kept_by_cluster(ref)),)
    request = parse(annotations[SYNC_TO], annotations.get(SYNC_TO_NAMESPACES, ""))
    return request.faults if request.targets is NO_NAMESPACES else ()


def _asked(manifest: Manifest, asked: Word | None, listed: Word | None) -> Iterator[Finding]:
    """Whether the two keys fit together."""
    if asked is None:
        assert listed is not None
        expected = f"{SYNC_TO}: {LISTED[0]} beside it: the list alone does nothing"
        yield manifest.finding(listed.line, SYNC_TO_NAMESPACES, f"no {SYNC_TO}", expected)
        return
    value = (asked.value or "").strip()
    if value == CLUSTER and listed is not None:
        expected = f'no list, or {SYNC_TO}: {LISTED[0]}: "{CLUSTER}" means every namespace'
        yield manifest.finding(listed.line, SYNC_TO_NAMESPACES, f"a list beside {SYNC_TO}: {CLUSTER}", expected)
    elif value in LISTED and listed is None and manifest.annotation(PROPOSED) is None:
        yield manifest.finding(asked.line, SYNC_TO, f"no {SYNC_TO_NAMESPACES}", f"that key beside it, with {A_LIST}")
    elif value not in (CLUSTER, *LISTED) and (asked.value is not None or asked.found == "null"):
        yield manifest.finding(asked.line, SYNC_TO, asked.found, ACCEPTED)


def _list(manifest: Manifest, word: Word, protected: tuple[str, ...]) -> Iterator[Finding]:
    if word.value is None and word.found != "null":
        return  # that it is no text has been said
    names = listed_names(word.value or "")
    yield from bad_names(manifest, word, names, f"{SYNC_TO}: {CLUSTER}")
    if not names.legal and not names.illegal:
        yield manifest.finding(word.line, word.key, f"{word.found}, which names nothing", A_LIST)
    for name in names.legal:
        if matches_any_glob(protected, name):
            expected = "a namespace that is not protected: copies to this one are refused (setting protectedNamespaces)"
            yield manifest.finding(word.line, word.key, quoted(name), expected)
