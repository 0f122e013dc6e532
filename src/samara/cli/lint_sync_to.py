"""What a manifest cannot mean in the words of sync-to."""

from __future__ import annotations

from collections.abc import Iterator

from samara.cli.lint_nodes import Finding, Manifest, Word
from samara.cli.lint_part import Part, bad_names, bad_type, wrong_kind
from samara.core.match import any_glob, shown
from samara.dialects.sync_to import ASK, CLUSTER, LIST, LISTED, listed_names
from samara.settings import KindName

PROPOSED = "openkruise.io/sync-to/namespaces"
"""The proposal's own spelling of the list, which no API server stores."""
ACCEPTED = f'"{CLUSTER}" for every namespace, or "{LISTED[0]}" for those that {LIST} lists'
A_LIST = 'names of namespaces, as in "ns-1;ns-2"'


def part(kinds: tuple[KindName, ...], protected: tuple[str, ...]) -> Part:
    served = {(_api_version(kind), kind.kind) for kind in kinds}

    def is_served(manifest: Manifest) -> bool:
        return (manifest.api_version, manifest.kind) in served

    def is_source(manifest: Manifest) -> bool:
        return manifest.annotation(ASK) is not None and is_served(manifest)

    def findings(manifest: Manifest) -> Iterator[Finding]:
        asked, listed = manifest.annotation(ASK), manifest.annotation(LIST)
        word = asked or listed
        if word is None:
            return
        if not is_served(manifest):
            known = ", ".join(sorted(kind for _, kind in served))
            yield wrong_kind(
                manifest, word, f"one of {known}: no other kind is served (setting dialects.sync-to.kinds)"
            )
            return
        yield from _asked(manifest, asked, listed)
        if listed is not None:
            yield from _list(manifest, listed, protected)
        if asked is not None:
            yield from bad_type(manifest)

    return Part(frozenset({ASK, LIST}), is_source, findings)


def _api_version(kind: KindName) -> str:
    return f"{kind.group}/{kind.version}" if kind.group else kind.version


def _asked(manifest: Manifest, asked: Word | None, listed: Word | None) -> Iterator[Finding]:
    """Whether the two keys fit together."""
    if asked is None:
        assert listed is not None
        expected = f"{ASK}: {LISTED[0]} beside it: the list alone does nothing"
        yield manifest.finding(listed.line, LIST, f"no {ASK}", expected)
        return
    value = (asked.value or "").strip()
    if value == CLUSTER and listed is not None:
        expected = f'no list, or {ASK}: {LISTED[0]}: "{CLUSTER}" means every namespace'
        yield manifest.finding(listed.line, LIST, f"a list beside {ASK}: {CLUSTER}", expected)
    elif value in LISTED and listed is None and manifest.annotation(PROPOSED) is None:
        yield manifest.finding(asked.line, ASK, f"no {LIST}", f"that key beside it, with {A_LIST}")
    elif value not in (CLUSTER, *LISTED) and (asked.value is not None or asked.found == "null"):
        yield manifest.finding(asked.line, ASK, asked.found, ACCEPTED)


def _list(manifest: Manifest, word: Word, protected: tuple[str, ...]) -> Iterator[Finding]:
    if word.value is None and word.found != "null":
        return  # that it is no text has been said
    names = listed_names(word.value or "")
    yield from bad_names(manifest, word, names, f"{ASK}: {CLUSTER}")
    if not names.legal and not names.illegal:
        yield manifest.finding(word.line, word.key, f"{word.found}, which names nothing", A_LIST)
    for name in names.legal:
        if any_glob(protected, name):
            expected = "a namespace that is not protected: copies to this one are refused (setting protectedNamespaces)"
            yield manifest.finding(word.line, word.key, shown(name), expected)
