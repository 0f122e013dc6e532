"""Faulty settings, and the messages with which the start fails.

`python -m tests.settings.faulty` rewrites the file after a change that users should see: read its diff.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from samara.settings import STRUCTS, SettingsError, parse

EVERY = ", ".join(STRUCTS)
"""The vocabularies as messages list them. The file has `{vocabularies}` instead, so a new one changes nothing."""
FILE = Path(__file__).with_name("faulty.json")

WRONG = {
    "text": "x y",
    "an empty text": "''",
    "a number": "5",
    "a negative number": "-1",
    "a fraction": "1.5",
    "a boolean": "true",
    "null": "null",
    "a list": "[x, 5]",
    "an empty list": "[]",
    "a mapping": "{x: 5}",
}
"""Values that most keys refuse. For a key that accepts one, the file has an empty message."""
KEYS = {
    "": (
        "vocabularies tenancy conflicts recreate protectedNamespaces neverCopied copiedMetadata sourceGoneAfter resync "
        "writes massDelete limits timers"
    ),
    "neverCopied": "labels annotations objects",
    "copiedMetadata": "labels annotations",
    "writes": "inFlight perSecond",
    "massDelete": "most percent hold namespaces",
    "limits": "listedNames listedNamesPerNamespace sourceBytesPerNamespace",
    "timers": "lease renew silence backoffMost",
    "vocabularies": "secret-copy resource-distribution accurate fishysecret sync-to",
    "vocabularies.secret-copy": "home onSourceGone conflicts takeover managers",
    "vocabularies.resource-distribution": "kinds takeover managers",
    "vocabularies.accurate": (
        "configFile labelKeys watches namingPolicies allowCascadingDeletion propagateGenerated conflicts takeover "
        "managers"
    ),
    "vocabularies.fishysecret": (
        "namespace tokenAudience crossNamespace paths refreshInterval minRefreshInterval pathsPerNamespace lastSynced "
        "takeover managers"
    ),
    "vocabularies.sync-to": "kinds crossNamespace conflicts takeover managers",
}
MISSPELT = {
    "": "tenency writes.inFlight dialects 5 true 'a b' massdelete",
    "writes": "inflight in_flight PerSecond x",
    "vocabularies": "secretcopy synctwo Accurate null",
    "vocabularies.secret-copy": "hom kinds onsourcegone",
    "vocabularies.accurate": "labelkeys watch configfile",
    "vocabularies.fishysecret": "path namespaces refresh",
    "vocabularies.sync-to": "home kind crossnamespace",
}
BY_HAND = (
    "- a",
    "tenancy",
    "5",
    "{tenancy: shut, writes: {inFlight: x, perSecond: y}, vocabularies: {secret-copy: {hom: a}}, foo: 1}",
    "{foo: 1, tenancy: shut, timers: {lease: 0, x: 1}, massDelete: {percent: 101}}",
    "protectedNamespaces: [a, Kube_System, 5, 'kube-[a-z]', null]",
    "neverCopied: {labels: ['a b', 5], annotations: [a/b/c, ok]}",
    "resync: 1d",
    "resync: forever",
    "resync: '0'",
    "sourceGoneAfter: -1s",
    "massDelete: {hold: 0s}",
    "massDelete: {hold: ever}",
    "massDelete: {percent: 30%}",
    "limits: {listedNames: 0}",
    "limits: {sourceBytesPerNamespace: 16M}",
    "limits: {sourceBytesPerNamespace: 0Ki}",
    "limits: {sourceBytesPerNamespace: 1.5Mi}",
    "massDelete: {percent: 101, most: 1e9}",
    "timers: {renew: 15s}",
    "timers: {lease: 5s}",
    "timers: {silence: 0s, backoffMost: ''}",
    "writes: {inFlight: 257, perSecond: .nan}",
    "writes: {inFlight: 0xffffffffffffffffffff, perSecond: 1e6}",
    "writes: {on: 1, ? [a] : 2}",
    "vocabularies: {secret-copy: {home: Admin_1}, sync-to: {kinds: [Secret, v1/secret, a/b/v1/Secret]}}",
    "vocabularies: {sync-to: {kinds: [v1/ServiceAccount, rbac.authorization.k8s.io/v1/Role]}}",
    "vocabularies: {sync-to: {kinds: [fishykeys.2v.pm/v1alpha1/FishySecret]}}",
    "vocabularies: {sync-to: {kinds: [v1/Secret, apps.kruise.io/v1alpha1/ResourceDistribution]}}",
    "vocabularies: {resource-distribution: {kinds: [accurate.cybozu.com/v1/SubNamespace, v1/Secret]}}",
    "vocabularies: {fishysecret: {paths: [{namespaces: [a]}, {allow: [b]}, {}, x]}}",
    "vocabularies: {fishysecret: {paths: [{namespaces: ['A'], allow: ['a b', 'a']}]}}",
    "vocabularies: {fishysecret: {refreshInterval: 0s, lastSynced: never, namespace: My_NS}}",
    "vocabularies: {accurate: {configFile: /none, labelKeys: [], watches: null}}",
    "vocabularies: {accurate: {configFile: /none/such}}",
    "vocabularies: {accurate: {labelKeys: [1]}}",
    "vocabularies: {accurate: {labelKeys: ['[']}}",
    "vocabularies: {accurate: {annotationKeys: [accurate.cybozu.com/from]}}",
    "vocabularies: {accurate: {watches: [{kind: Secret}]}}",
    "vocabularies: {accurate: {watches: [{version: v1, kind: Namespace}]}}",
    "vocabularies: {accurate: {watches: [{version: v1, kind: Secret, x: y}]}}",
    "vocabularies: {accurate: {watches: [{version: v1, kind: A, group: b.c}, {version: v2, kind: A, group: b.c}]}}",
    "vocabularies: {accurate: {namingPolicies: [{root: '(', match: a}]}}",
    "vocabularies: {accurate: {labelKeys: [1], watches: [2]}}",
    "vocabularies: {secret-copy: {managers: ['', 5, \"a\\tb\"]}}",
    "{tenancy: strict, conflicts: overwrite, vocabularies: {sync-to: {}}}",
    "{tenancy: strict, conflicts: overwrite, vocabularies: {secret-copy: {}}}",
    "{tenancy: strict, vocabularies: {sync-to: {conflicts: overwrite}}}",
    "{tenancy: strict, conflicts: overwrite, vocabularies: {sync-to: {conflicts: refuse}}}",
    "{tenancy: strict, conflicts: overwrite, timers: {lease: 1s}, vocabularies: {sync-to: {}}}",
    "tenancy: open\ntenancy: strict\n",
    "writes: {inFlight: 1, inFlight: 1}",
    "a: b: c",
    "tenancy: *x",
    "tenancy: open\n---\ntenancy: strict\n",
    "a: !!int x",
    "tenancy: !!python/object/apply:os.getcwd []",
)


def texts() -> Iterator[str]:
    for above, keys in KEYS.items():
        for key in keys.split():
            for value in WRONG.values():
                yield _nested(above, f"{key}: {value}")
    for above, keys in MISSPELT.items():
        for key in keys.replace("'a b'", "a\0b").split():
            yield _nested(above, f"{key.replace(chr(0), ' ')}: 1")
    yield from BY_HAND


def _nested(above: str, text: str) -> str:
    for key in reversed(above.split(".") if above else []):
        text = f"{key}: {{{text}}}"
    return text


def messages(text: str) -> list[str]:
    try:
        parse(text, "f")
    except SettingsError as error:
        return [fault.replace(EVERY, "{vocabularies}") for fault in error.faults]
    return []


def write() -> None:
    FILE.write_text(json.dumps({text: messages(text) for text in texts()}, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write()
