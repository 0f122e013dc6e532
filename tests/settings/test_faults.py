"""Tests the messages about faulty settings files."""

from pathlib import Path

import pytest

from samara.settings import STRUCTS, Settings, SettingsError, load, parse

DURATION = "a duration such as 90s, 5m, 1h30m or 500ms"
NAMESPACE = "a namespace name (at most 63 of a-z, 0-9 and '-', no '-' at the ends)"
GLOB = "a namespace name or glob (a-z, 0-9, '-', '*' and '?')"
KIND = "a kind such as v1/Secret or apps/v1/Deployment"
KEY = "a key such as example.com/team, or a glob of keys"
OBJECT = "a kind and a name such as v1/ConfigMap/company-ca"
MANAGER = "the name of a field manager (1 to 128 printable characters)"


def faults(text: str) -> list[str]:
    with pytest.raises(SettingsError) as error:
        parse(text, "f")
    assert str(error.value) == "\n".join(error.value.faults)
    return [fault.removeprefix("f: ") for fault in error.value.faults]


DENIED = "kinds that grant rights, hold state of the cluster or request copies are never copied"
MISMATCHES = [
    ("tenancy: shut", "tenancy: found 'shut', expected open or strict"),
    ("conflicts: merge", "conflicts: found 'merge', expected refuse or overwrite"),
    ("recreate: yes", "recreate: found true, expected allow or refuse"),
    ("recreate: null", "recreate: found null, expected allow or refuse"),
    (
        "protectedNamespaces: kube-system",
        f"protectedNamespaces: found 'kube-system', expected a list, each item {GLOB}",
    ),
    ("protectedNamespaces: [a, Kube_System]", f"protectedNamespaces[1]: found 'Kube_System', expected {GLOB}"),
    ("protectedNamespaces: ['kube-[a-z]']", f"protectedNamespaces[0]: found 'kube-[a-z]', expected {GLOB}"),
    ("protectedNamespaces: [2026]", f"protectedNamespaces[0]: found 2026, expected {GLOB}"),
    ("neverCopied: {labels: ['a b']}", f"neverCopied.labels[0]: found 'a b', expected {KEY}"),
    ("neverCopied: {annotations: [a/b/c]}", f"neverCopied.annotations[0]: found 'a/b/c', expected {KEY}"),
    ("neverCopied: []", "neverCopied: found an empty list, expected a mapping with labels, annotations, objects"),
    ("neverCopied: {objects: [trust]}", f"neverCopied.objects[0]: found 'trust', expected {OBJECT}"),
    ("neverCopied: {objects: [v1/ConfigMap]}", f"neverCopied.objects[0]: found 'v1/ConfigMap', expected {OBJECT}"),
    ("copiedMetadata: {labels: ['a b']}", f"copiedMetadata.labels[0]: found 'a b', expected {KEY}"),
    ("sourceGoneAfter: -1s", f"sourceGoneAfter: found '-1s', expected {DURATION}, or 0"),
    ("resync: 90", f"resync: found 90, expected {DURATION}, or 0 (a number needs its unit)"),
    ("resync: 1.5", f"resync: found 1.5, expected {DURATION}, or 0 (a number needs its unit)"),
    ("resync: false", f"resync: found false, expected {DURATION}, or 0"),
    ("resync: 1d", f"resync: found '1d', expected {DURATION}, or 0"),
    ("resync: forever", f"resync: found 'forever', expected {DURATION}, or 0"),
    ("writes: null", "writes: found null, expected a mapping with inFlight, perSecond"),
    ("writes: [16]", "writes: found a list, expected a mapping with inFlight, perSecond"),
    ("writes: {inFlight: 0}", "writes.inFlight: found 0, expected a whole number from 1 to 256"),
    ("writes: {inFlight: 257}", "writes.inFlight: found 257, expected a whole number from 1 to 256"),
    ("writes: {inFlight: '16'}", "writes.inFlight: found '16', expected a whole number from 1 to 256"),
    ("writes: {inFlight: 1.5}", "writes.inFlight: found 1.5, expected a whole number from 1 to 256"),
    ("writes: {inFlight: true}", "writes.inFlight: found true, expected a whole number from 1 to 256"),
    (
        f"writes: {{inFlight: 0x{'f' * 9000}}}",
        "writes.inFlight: found a huge number, expected a whole number from 1 to 256",
    ),
    ("writes: {perSecond: -1}", "writes.perSecond: found -1, expected a number from 0 to 100000"),
    ("writes: {perSecond: .nan}", "writes.perSecond: found nan, expected a number from 0 to 100000"),
    ("writes: {perSecond: {a: b}}", "writes.perSecond: found a mapping, expected a number from 0 to 100000"),
    ("massDelete: off", "massDelete: found false, expected a mapping with most, percent, hold, namespaces, or null"),
    ("massDelete: {most: -1}", "massDelete.most: found -1, expected a whole number of at least 0"),
    ("massDelete: {percent: -1}", "massDelete.percent: found -1, expected a whole number from 0 to 100"),
    ("massDelete: {percent: 101}", "massDelete.percent: found 101, expected a whole number from 0 to 100"),
    ("massDelete: {percent: 30%}", "massDelete.percent: found '30%', expected a whole number from 0 to 100"),
    ("massDelete: {hold: 0}", f"massDelete.hold: found 0, expected {DURATION}, more than 0, or forever"),
    ("massDelete: {namespaces: x}", "massDelete.namespaces: found 'x', expected a whole number of at least 0"),
    ("timers: {silence: 0s}", f"timers.silence: found '0s', expected {DURATION}, more than 0"),
    ("timers: {backoffMost: ''}", f"timers.backoffMost: found '', expected {DURATION}, more than 0"),
]


@pytest.mark.parametrize(("text", "expected"), MISMATCHES)
def test_the_message_for_a_wrong_value_has_its_path_the_value_and_what_is_accepted(text: str, expected: str) -> None:
    assert faults(text) == [expected]


OF_A_VOCABULARY = [
    ("secret-copy", "home: Admin_1", f"home: found 'Admin_1', expected {NAMESPACE}"),
    ("secret-copy", "home: null", f"home: found null, expected {NAMESPACE}"),
    ("secret-copy", f"home: {'a' * 64}", f"home: found '{'a' * 60}…', expected {NAMESPACE}"),
    ("secret-copy", "onSourceGone: keepp", "onSourceGone: found 'keepp', expected keep or delete"),
    ("secret-copy", "conflicts: merge", "conflicts: found 'merge', expected refuse or overwrite, or null"),
    ("secret-copy", "takeover: 'true'", "takeover: found 'true', expected true or false"),
    ("secret-copy", "managers: ['']", f"managers[0]: found '', expected {MANAGER}"),
    ("sync-to", "kinds: [Secret]", f"kinds[0]: found 'Secret', expected {KIND}"),
    ("sync-to", "kinds: [v1/ServiceAccount]", f"kinds[0]: found 'v1/ServiceAccount', expected {KIND} ({DENIED})"),
    *(
        (name, f"kinds: [{kind}]", f"kinds[0]: found '{kind}', expected {KIND} ({DENIED})")
        for name, kind in (
            ("sync-to", "fishykeys.2v.pm/v1alpha1/FishySecret"),
            ("resource-distribution", "accurate.cybozu.com/v1/SubNamespace"),
            ("sync-to", "apps.kruise.io/v1alpha1/ResourceDistribution"),
        )
    ),
    (
        "resource-distribution",
        "kinds: [v1/Secret, rbac.authorization.k8s.io/v1/Role]",
        f"kinds[1]: found 'rbac.authorization.k8s.io/v1/Role', expected {KIND} ({DENIED})",
    ),
    ("sync-to", "kinds: [v1/secret]", f"kinds[0]: found 'v1/secret', expected {KIND}"),
    ("sync-to", "kinds: [a/b/v1/Secret]", f"kinds[0]: found 'a/b/v1/Secret', expected {KIND}"),
    ("sync-to", "crossNamespace: ask", "crossNamespace: found 'ask', expected allow or consent, or null"),
    (
        "resource-distribution",
        "kinds: []",
        f"kinds: found an empty list, expected a list that is not empty, each item {KIND}",
    ),
    ("accurate", "labelKeys: team", "labelKeys: found 'team', expected a list or null"),
    ("accurate", "configFile: ''", "configFile: found '', expected the path of a file, or null"),
    ("fishysecret", "refreshInterval: 0", f"refreshInterval: found 0, expected {DURATION}, more than 0"),
    (
        "fishysecret",
        "tokenAudience: https://kubernetes.default.svc.cluster.local",
        "tokenAudience: found 'https://kubernetes.default.svc.cluster.local', "
        "expected an audience without spaces such as vault, and not that of the API server",
    ),
    ("fishysecret", "lastSynced: never", "lastSynced: found 'never', expected interval or change"),
    ("fishysecret", "namespace: My_NS", f"namespace: found 'My_NS', expected {NAMESPACE}, or null"),
    (
        "fishysecret",
        "paths: any",
        "paths: found 'any', expected a list, each item a mapping with namespaces, allow, or null",
    ),
    ("fishysecret", "paths: [x]", "paths[0]: found 'x', expected a mapping with namespaces, allow"),
]


@pytest.mark.parametrize(("name", "text", "expected"), OF_A_VOCABULARY)
def test_the_message_for_a_wrong_value_of_a_vocabulary_has_the_same_form(name: str, text: str, expected: str) -> None:
    assert faults(f"vocabularies: {{{name}: {{{text}}}}}") == [f"vocabularies.{name}.{expected}"]


def test_a_rule_without_its_paths_is_incomplete() -> None:
    text = "vocabularies: {fishysecret: {paths: [{namespaces: [a]}]}}"
    path = "vocabularies.fishysecret.paths[0]"
    assert faults(text) == [f"{path}: key 'allow' is missing, expected a list, each item a path or glob without spaces"]


def test_every_fault_is_listed_on_a_line_of_its_own() -> None:
    text = "tenancy: shut\nwrites: {inFlight: x, perSecond: y}\nvocabularies: {secret-copy: {hom: a}}\nfoo: 1\n"
    with pytest.raises(SettingsError) as error:
        parse(text, "samara.yaml")
    paths = [line.split(": ")[1] for line in str(error.value).splitlines()]
    assert sorted(paths) == sorted(
        ["foo", "vocabularies.secret-copy.hom", "tenancy", "writes.inFlight", "writes.perSecond"]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "vocabularies: {secret-copy: {hom: x}}",
            "vocabularies.secret-copy.hom: unknown key, did you mean 'home'? "
            "accepted: home, onSourceGone, conflicts, takeover, managers",
        ),
        ("timers: {zzz: 1s}", "timers.zzz: unknown key; accepted: lease, renew, silence, backoffMost"),
        (
            "writes: {in_flight: 1}",
            "writes.in_flight: unknown key, did you mean 'inFlight'? accepted: inFlight, perSecond",
        ),
        ("writes: {on: 1}", "writes.true: unknown key; accepted: inFlight, perSecond"),
        ('writes: {"a\\nb": 1}', "writes.'a\\nb': unknown key; accepted: inFlight, perSecond"),
        (
            "vocabularies: {secretcopy: {}}",
            f"vocabularies.secretcopy: unknown key, did you mean 'secret-copy'? accepted: {', '.join(STRUCTS)}",
        ),
    ],
)
def test_the_message_for_an_unknown_key_has_the_nearest_key_and_all_accepted_ones(text: str, expected: str) -> None:
    assert faults(text) == [expected]


def test_the_path_of_an_unknown_key_at_the_top_is_the_key() -> None:
    (fault,) = faults("tenency: open")
    assert fault.startswith("tenency: unknown key, did you mean 'tenancy'? accepted: vocabularies, tenancy, ")


@pytest.mark.parametrize("text", ["dialects: {sync-to: {}}", "dialects:", "{dialects: {}, tenancy: open}"])
def test_the_former_name_of_vocabularies_is_refused_and_the_new_one_named(text: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith("dialects: unknown key, it is called 'vocabularies' now; accepted: vocabularies, tenancy, ")


@pytest.mark.parametrize(("text", "found"), [("vocabularies:", "null"), ("vocabularies: {}", "an empty mapping")])
def test_serving_no_vocabulary_at_all_is_refused(text: str, found: str) -> None:
    expected = (
        "a mapping that names at least one vocabulary (leave it out for all but replicator, reflector, config-syncer)"
    )
    assert faults(text) == [f"vocabularies: found {found}, expected {expected}"]


@pytest.mark.parametrize(("text", "found"), [("- a", "a list"), ("tenancy", "'tenancy'"), ("5", "5")])
def test_a_document_that_is_not_a_mapping_is_refused(text: str, found: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith(f"found {found}, expected a mapping with vocabularies, tenancy, ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("timers: {renew: 15s}", "timers.renew: found 15s, expected less than timers.lease (15s)"),
        ("timers: {lease: 5s}", "timers.renew: found 10s, expected less than timers.lease (5s)"),
        (
            "vocabularies: {accurate: {configFile: /a, labelKeys: [], watches: []}}",
            "vocabularies.accurate: found configFile and labelKeys, watches, expected the file or the keys, not both",
        ),
        (
            "{tenancy: strict, vocabularies: {sync-to: {conflicts: overwrite}}}",
            "vocabularies.sync-to.conflicts: found 'overwrite', expected refuse, because tenancy is strict",
        ),
        (
            "{tenancy: strict, conflicts: overwrite, vocabularies: {sync-to: {}}}",
            "conflicts: found 'overwrite', expected refuse, because tenancy is strict and sync-to is served "
            "(or set vocabularies.sync-to.conflicts: refuse)",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(text: str, expected: str) -> None:
    assert faults(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "{tenancy: strict, conflicts: overwrite, vocabularies: {secret-copy: {}}}",
        "{tenancy: open, vocabularies: {sync-to: {conflicts: overwrite}}}",
    ],
)
def test_overwriting_is_accepted_where_no_strict_tenant_could_use_it(text: str) -> None:
    assert isinstance(parse(text, "f"), Settings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tenancy: open\n\ntenancy: strict\n", ["line 3: duplicate key 'tenancy', first on line 1"]),
        ("writes: {inFlight: 1, inFlight: 1}", ["line 1: duplicate key 'inFlight', first on line 1"]),
        (
            "a: [{b: 1,\n 'b': 2}]\na: 1",
            ["line 3: duplicate key 'a', first on line 1", "line 2: duplicate key 'b', first on line 1"],
        ),
        ("&k a: 1\n*k : 2", ["line 1: duplicate key 'a', first on line 1"]),
        (
            "tenancy: open\nwrites: [1\n",
            ["line 3: not legal YAML: while parsing a flow sequence expected ',' or ']', but got '<stream end>'"],
        ),
        ("a: b: c", ["line 1: not legal YAML: mapping values are not allowed here"]),
        ("tenancy: *x", ["line 1: not legal YAML: found undefined alias 'x'"]),
        ("? [a]\n: b", ["line 1: not legal YAML: while constructing a mapping found unhashable key"]),
        ("tenancy: open\n---\ntenancy: strict\n", ["line 2: found a second document, expected only one"]),
        ("a: 1\nb: \0", ["line 2: a character that YAML does not allow"]),
        ("a: !!int x", ["line 1: not legal YAML: 'x' is not !!int"]),
        ("a: !!bool {}", ["line 1: not legal YAML: expected a scalar node, but found mapping"]),
        ('a: "\\UFFFFFFFF"', ["not legal YAML: a number in an escape or a directive is out of range"]),
        ("[" * 10_000, ["nested too deeply"]),
    ],
)
def test_the_message_for_illegal_yaml_has_the_line(text: str, expected: list[str]) -> None:
    assert faults(text) == expected


def test_no_tag_makes_an_object() -> None:
    (fault,) = faults("tenancy: !!python/object/apply:os.getcwd []")
    assert fault.startswith("line 1: not legal YAML: could not determine a constructor")


@pytest.mark.parametrize(
    ("text", "found"),
    [("resync: 1:30", "'1:30'"), ("massDelete: {most: 1:30}", "'1:30'"), ("massDelete: {percent: 030}", "'030'")],
)
def test_sexagesimal_and_octal_numbers_stay_text(text: str, found: str) -> None:
    with pytest.raises(SettingsError, match=f"found {found}"):
        parse(text, "f")


def test_a_text_that_looks_like_a_date_stays_text() -> None:
    assert parse("protectedNamespaces: [2026-01-31]", "f").protected_namespaces == ("2026-01-31",)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "none.yaml")
    with pytest.raises(SettingsError) as error:
        load(path)
    assert str(error.value) == f"{path}: expected a file with settings, found none there"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load(str(tmp_path))
    assert str(error.value) == f"{tmp_path}: expected a readable file with settings, found: Is a directory"


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "samara.yaml"
    file.write_bytes(b"a: \xff")
    with pytest.raises(SettingsError) as error:
        load(str(file))
    assert str(error.value) == f"{file}: expected UTF-8 text, found something else at byte 3"
