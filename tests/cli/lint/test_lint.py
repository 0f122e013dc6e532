"""What `samara lint` reports about any manifest, and about the annotations of Secret copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.lint.manifests import CANARY, annotated, findings_in, only_finding
from tests.cli.program import Done, samara_inside

from samara.cli.lint import lint_files
from samara.settings import Settings, parse

FIRST = 8
"""The line of the first annotation of `source`."""


def source(*annotations: str, namespace: str = "admin", labels: str = "{}", more: str = "") -> str:
    return annotated(*annotations, namespace=namespace, labels=labels, more=more)


@pytest.mark.parametrize("value", ['""', '"a,b"', '" a , b ,"', "'\"a\",b'", "team-1"])
def test_a_good_source_has_no_findings(value: str, tmp_path: Path) -> None:
    assert findings_in(tmp_path, source(f"secret-copy/namespaces: {value}")) == []


def test_every_illegal_name_in_a_list_is_reported(tmp_path: Path) -> None:
    reported = findings_in(tmp_path, source('secret-copy/namespaces: "a,Bad_Name,-x,b"'))
    assert [(finding.line, finding.found) for finding in reported] == [(FIRST, "'-x'"), (FIRST, "'Bad_Name'")]


def test_a_star_is_reported_with_the_way_to_name_every_namespace(tmp_path: Path) -> None:
    assert 'for every namespace write ""' in only_finding(tmp_path, source('secret-copy/namespaces: "*"')).expected


def test_a_value_that_names_no_namespace_is_reported(tmp_path: Path) -> None:
    assert "names nothing" in only_finding(tmp_path, source('secret-copy/namespaces: ","')).found


def test_a_missing_value_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source("secret-copy/namespaces:"))
    assert (finding.found, finding.line) == ("null", FIRST)


@pytest.mark.parametrize(("value", "found"), [("true", "a boolean (true)"), ("12", "a number (12)"), ("[a]", "a list")])
def test_a_value_that_is_not_text_is_reported(value: str, found: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, source(f"secret-copy/namespaces: {value}")).found == found


def test_a_source_outside_the_home_namespace_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source('secret-copy/namespaces: "a"', namespace="shop"))
    assert finding.found == "in namespace shop"
    assert "namespace admin" in finding.expected


def test_the_home_namespace_is_that_of_the_settings(tmp_path: Path) -> None:
    settings = parse("vocabularies: {secret-copy: {home: shop}}", "settings")
    assert findings_in(tmp_path, source('secret-copy/namespaces: "a"', namespace="shop"), settings) == []


@pytest.mark.parametrize(
    "kind", ["kubernetes.io/service-account-token", "bootstrap.kubernetes.io/token", "helm.sh/release.v1"]
)
def test_a_source_of_a_type_that_is_never_copied_is_reported(kind: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source('secret-copy/namespaces: "a"', more=f"type: {kind}\n"))
    assert (finding.key, finding.line) == ("type", FIRST + 1)


@pytest.mark.parametrize(
    "key",
    [
        "app.kubernetes.io/managed-by",
        "argocd.argoproj.io/tracking-id",
        "kustomize.toolkit.fluxcd.io/name",
        "cert-manager.io/issuer-name",
        "kubectl.kubernetes.io/last-applied-configuration",
    ],
)
def test_a_key_of_a_source_that_is_not_copied_is_reported(key: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source('secret-copy/namespaces: "a"', f"{key}: x"))
    assert (finding.key, finding.line, finding.found) == (key, FIRST + 1, "an annotation that is not copied")


def test_a_key_that_the_settings_never_copy_is_reported_too(tmp_path: Path) -> None:
    settings = parse("neverCopied: {labels: [shop.example/*]}", "settings")
    text = source('secret-copy/namespaces: "a"', labels="{shop.example/team: x}")
    assert [finding.key for finding in findings_in(tmp_path, text, settings)] == ["shop.example/team"]


@pytest.mark.parametrize("key", ["samara.dev/pause", "openkruise.io/sync_to", "samara.dev/a/b", "secret-copy/origins"])
def test_a_faulty_key_of_a_source_is_reported_once(key: str, tmp_path: Path) -> None:
    settings = parse("neverCopied: {annotations: ['*']}", "settings")
    assert only_finding(tmp_path, source('secret-copy/namespaces: "a"', f"{key}: x"), settings).line == FIRST + 1


def test_keys_that_are_not_copied_are_reported_only_on_sources(tmp_path: Path) -> None:
    assert findings_in(tmp_path, source("app.kubernetes.io/managed-by: Helm")) == []


def test_the_illegal_key_of_the_proposal_is_reported_with_the_legal_one(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source("openkruise.io/sync-to/namespaces: a;b"))
    assert finding.expected == "openkruise.io/sync-to-namespaces"


@pytest.mark.parametrize(
    "key", ["a/b/c", f"{'x' * 64}", f"{'a.' * 130}b/c", "UPPER.example/x", "-x", "a/", "/a", "with space"]
)
def test_an_illegal_key_is_reported_on_any_object(key: str, tmp_path: Path) -> None:
    text = f'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels:\n    "{key}": y\n'
    finding = only_finding(tmp_path, text)
    assert (finding.key, finding.line) == (key, 6)


def test_the_prefix_of_an_annotation_may_have_capitals_as_on_the_server(tmp_path: Path) -> None:
    assert findings_in(tmp_path, source("Shop.Example/Team: x")) == []
    finding = only_finding(tmp_path, source("x: y", labels="{Shop.Example/Team: x}"))
    assert finding.found == "a prefix that is no DNS name of up to 253 characters"


def test_an_illegal_label_value_is_reported(tmp_path: Path) -> None:
    assert "no slash" in only_finding(tmp_path, source("x: y", labels="{team: a/b}")).expected


@pytest.mark.parametrize("mark", ["secret-copy/origin: admin/db", "samara.dev/adopted: 'true'"])
def test_a_mark_written_by_hand_is_reported(mark: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, source(mark)).found == "a mark written by hand"


def test_a_misspelt_key_of_ours_is_reported_with_the_right_one(tmp_path: Path) -> None:
    assert only_finding(tmp_path, source("secret-copy/namespace: a")).expected == "secret-copy/namespaces"


@pytest.mark.parametrize("key", ["secretcopy/namespaces", "secret-kopy/namespaces", "secret-copy.namespaces"])
def test_a_mistake_in_the_prefix_of_a_key_is_reported_with_the_right_one(key: str, tmp_path: Path) -> None:
    assert only_finding(tmp_path, source(f"{key}: a")).expected == "secret-copy/namespaces"


def test_a_request_as_a_label_is_reported(tmp_path: Path) -> None:
    assert only_finding(tmp_path, source("x: y", labels="{secret-copy/namespaces: a}")).found == "a label"


def test_a_request_on_another_kind_is_reported(tmp_path: Path) -> None:
    text = source('secret-copy/namespaces: "a"').replace("kind: Secret", "kind: ConfigMap")
    assert only_finding(tmp_path, text).found == "on a ConfigMap"


def test_an_unknown_value_of_a_control_annotation_is_reported(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n  annotations:\n    samara.dev/paused: 'yes'\n"
    assert only_finding(tmp_path, text).line == 6


def accepting(value: str, kind: str = "Namespace", where: str = "annotations") -> str:
    return f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: x\n  {where}:\n    samara.dev/accept-from: '{value}'\n"


@pytest.mark.parametrize(
    "item", ["Team_A", "a;b", "a b", "a*", "a:", "tree:", "tree:A", "a:secret/x", "a:Secret", "a:Secret/", ":Secret/x"]
)
def test_an_item_of_a_consent_that_can_name_no_source_is_reported(tmp_path: Path, item: str) -> None:
    finding = only_finding(tmp_path, accepting(f"team-a, {item}"))
    assert (finding.line, finding.found) == (6, repr(item))


@pytest.mark.parametrize("value", ["", "*", "a", "a, b:Secret/x,", "a:ConfigMap/kube-root-ca.crt", "tree:a, b"])
def test_a_valid_consent_has_no_findings(tmp_path: Path, value: str) -> None:
    assert findings_in(tmp_path, accepting(value)) == []


@pytest.mark.parametrize(("kind", "where"), [("Secret", "annotations"), ("Namespace", "labels")])
def test_a_consent_elsewhere_than_in_an_annotation_of_a_namespace_is_reported(
    tmp_path: Path, kind: str, where: str
) -> None:
    assert only_finding(tmp_path, accepting("a", kind, where)).expected == "an annotation of a Namespace"


def test_a_duplicate_key_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source('secret-copy/namespaces: "a"', 'secret-copy/namespaces: "b"'))
    assert (finding.line, finding.found) == (FIRST + 1, f"the same key as on line {FIRST}")


@pytest.mark.parametrize(
    ("broken", "line"),
    [
        (f"a: *{CANARY}\n", 1),
        (f"a: b\n  c: {CANARY}\n", 2),
        (f'a: "{CANARY}\n', 2),
        (f"a: !x!{CANARY} y\n", 1),
        (f"{CANARY}: \x07\n", 1),
        ("[" * 3000, 1),
    ],
)
def test_invalid_yaml_is_reported_with_its_line_and_without_its_text(broken: str, line: int, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, broken)
    assert finding.found.startswith("not legal YAML")
    assert CANARY not in str(finding)
    assert finding.line == line


@pytest.mark.parametrize("indent", [2, "\t"])
def test_json_is_read_as_json_with_its_line_numbers(indent: int | str, tmp_path: Path) -> None:
    asks = {"a\U0001f600": "x", "secret-copy/namespaces": ","}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "\\", "namespace": "admin", "annotations": asks},
    }
    reported = findings_in(tmp_path, json.dumps(secret, indent=indent))
    assert [(finding.line, finding.key) for finding in reported] == [(8, "a\U0001f600"), (9, "secret-copy/namespaces")]


def test_a_json_value_that_is_not_text_is_reported(tmp_path: Path) -> None:
    meta = '{"name": "db", "namespace": "admin", "annotations": {\n%s}}'
    text = f'{{"apiVersion": "v1", "kind": "Secret", "metadata": {meta}}}'
    for value, found in (("1e3", "a number (1e3)"), ("7", "a number (7)"), ("true", "a boolean (true)")):
        finding = only_finding(tmp_path, text % f'"secret-copy/namespaces": {value}')
        assert (finding.line, finding.found) == (2, found)


def test_half_of_a_surrogate_pair_is_reported(tmp_path: Path) -> None:
    done = lint("-", stdin='a: b\n"c\\ud83d": d\n')
    assert (done.code, "not legal YAML: found half a character" in done.out) == (1, True)
    assert lint("-", stdin='{"metadata": {"labels": {"c\\ud83d": "d"}}, "kind": "X"}').code == 1


def test_documents_before_invalid_yaml_are_checked_too(tmp_path: Path) -> None:
    reported = findings_in(tmp_path, source('secret-copy/namespaces: ","') + "---\na: [\n")
    assert [finding.key for finding in reported] == ["secret-copy/namespaces", ""]


def test_every_document_and_the_items_of_a_list_are_checked(tmp_path: Path) -> None:
    item = source('secret-copy/namespaces: ","')
    nested = "\n".join(f"  {line}" for line in item.splitlines())
    text = f"{item}---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n-\n{nested}\n"
    assert len(findings_in(tmp_path, text)) == 2


MERGED = """
x-common: &common {team: a/b, app: shop}
x-more: &more
  secret-copy/namespaces: ","
  x: y
apiVersion: v1
kind: Secret
metadata:
  name: db
  namespace: admin
  labels: {<<: *common}
  annotations:
"""


@pytest.mark.parametrize("merge", ["<<: *more", "<<: [*more]", "<<: [{x: z}, {<<: *more}]"])
def test_merged_keys_are_reported_on_the_line_where_they_are_written(merge: str, tmp_path: Path) -> None:
    reported = findings_in(tmp_path, f"{MERGED}    {merge}\n")
    assert [(finding.line, finding.key) for finding in reported] == [(2, "team"), (4, "secret-copy/namespaces")]


def test_keys_of_an_object_win_over_merged_ones(tmp_path: Path) -> None:
    for order in ("    <<: *more\n    secret-copy/namespaces: a\n", "    secret-copy/namespaces: a\n    <<: *more\n"):
        assert [finding.key for finding in findings_in(tmp_path, MERGED + order)] == ["team"]
    first = "    <<: [{secret-copy/namespaces: a}, *more]\n"
    assert [finding.key for finding in findings_in(tmp_path, MERGED + first)] == ["team"], (
        "the first that is merged in wins"
    )


def test_a_merge_of_something_other_than_a_mapping_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source("x: y", f"<<: {CANARY}"))
    assert (finding.line, finding.found.startswith("not legal YAML: ")) == (FIRST + 1, True)
    assert CANARY not in str(finding)


def test_a_mapping_that_merges_itself_does_not_loop(tmp_path: Path) -> None:
    assert findings_in(tmp_path, "&a\nkind: X\n<<: *a\n") == []


def test_a_merge_key_in_quotes_is_a_key_like_any_other(tmp_path: Path) -> None:
    assert only_finding(tmp_path, source('"<<": y')).key == "<<"


def indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


@pytest.mark.parametrize("kind", ["List", "SecretList"])
def test_the_items_of_nested_lists_are_checked(kind: str, tmp_path: Path) -> None:
    item = indented(source('secret-copy/namespaces: ","'))
    inner = f"apiVersion: v1\nkind: {kind}\nitems:\n-\n{item}\n"
    assert only_finding(tmp_path, inner).line == FIRST + 4
    assert only_finding(tmp_path, f"apiVersion: v1\nkind: {kind}\nitems:\n-\n{indented(inner)}\n").line == FIRST + 8


def test_an_item_without_a_kind_is_of_the_kind_of_its_list(tmp_path: Path) -> None:
    item = source('secret-copy/namespaces: ","').replace("apiVersion: v1\nkind: Secret\n", "")
    finding = only_finding(tmp_path, f"apiVersion: v1\nkind: SecretList\nitems:\n-\n{indented(item)}\n")
    assert (finding.line, finding.key) == (FIRST + 2, "secret-copy/namespaces")
    assert findings_in(tmp_path, f"apiVersion: v1\nkind: List\nitems:\n-\n{indented(item)}\n") == []


def test_a_list_that_contains_itself_does_not_loop(tmp_path: Path) -> None:
    assert findings_in(tmp_path, "&a\napiVersion: v1\nkind: List\nitems: [*a, *a]\n") == []


def lint(*args: str | Path, stdin: str = "") -> Done:
    return samara_inside("lint", *args, stdin=stdin)


def test_json_has_the_promised_shape_and_findings_are_exit_1(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(source('secret-copy/namespaces: ","'))
    done = lint(file, "-o", "json")
    assert done.code == 1
    (finding,) = done.json["findings"]
    assert list(finding) == ["file", "line", "key", "found", "expected"]
    assert (finding["file"], finding["line"]) == (str(file), FIRST)


def test_no_findings_are_exit_0_and_an_empty_list() -> None:
    done = lint("-", "-o", "json", stdin=source('secret-copy/namespaces: ""'))
    assert (done.code, done.json) == (0, {"findings": []})


def test_folders_are_walked_for_yaml_and_json(tmp_path: Path) -> None:
    bad = source('secret-copy/namespaces: ","')
    (tmp_path / "deep").mkdir()
    for name in ("a.yaml", "deep/b.yml", "deep/c.json", "d.txt"):
        (tmp_path / name).write_text(bad)
    names = {Path(finding["file"]).name for finding in lint(tmp_path, "-o", "json").json["findings"]}
    assert names == {"a.yaml", "b.yml", "c.json"}


def test_a_missing_file_is_one_line_and_exit_1(tmp_path: Path) -> None:
    assert "No such file" in lint(tmp_path / "none.yaml").fault


def test_text_in_another_encoding_is_a_finding_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"kind: Secret\nname: caf\xe9\n")
    (tmp_path / "b.yaml").write_text(source('secret-copy/namespaces: ","'))
    reported = lint(tmp_path, "-o", "json").json["findings"]
    assert [(Path(finding["file"]).name, finding["line"]) for finding in reported] == [("a.yaml", 2), ("b.yaml", FIRST)]
    assert (reported[0]["found"], reported[0]["expected"]) == ("another encoding", "UTF-8 text")


def test_text_in_another_encoding_after_a_byte_order_mark_is_reported_too(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xef\xbb\xbfkind: Secret\nname: \xc3\xa9bc\xff\n")
    (finding,) = lint(tmp_path, "-o", "json").json["findings"]
    assert (finding["line"], finding["found"]) == (2, "another encoding")


def test_a_document_that_is_not_a_manifest_has_no_findings(tmp_path: Path) -> None:
    assert findings_in(tmp_path, "kind: thing\nmetadata: [a]\n") == []


def test_a_manifest_without_a_namespace_gets_that_of_the_flag(tmp_path: Path) -> None:
    file = tmp_path / "source.yaml"
    file.write_text(source('secret-copy/namespaces: "b"').replace("  namespace: admin\n", ""))
    assert [finding["found"] for finding in lint(file, "-o", "json").json["findings"]] == ["no namespace"]
    assert lint(file, "-n", "admin", "-o", "json").json["findings"] == []


@pytest.mark.parametrize(
    ("text", "key", "found"),
    [
        ("kind: Secret\nmetadata: [a]", "metadata", "a list"),
        ("kind: Secret\nmetadata:\n  labels: x", "metadata.labels", "a text"),
        ("kind: Secret\nmetadata:\n  annotations:\n  - secret-copy/namespaces: a", "metadata.annotations", "a list"),
        ("metadata:\n  annotations: {secret-copy/namespaces: a}", "kind", "nothing"),
        ("kind: [Secret]\nmetadata: {name: x}", "kind", "a list"),
    ],
)
def test_a_malformed_kind_or_metadata_is_reported(text: str, key: str, found: str, tmp_path: Path) -> None:
    finding = only_finding(tmp_path, f"apiVersion: v1\n{text}\n")
    assert (finding.key, finding.found) == (key, found)


def test_null_labels_have_no_findings(tmp_path: Path) -> None:
    assert findings_in(tmp_path, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n") == []


def test_the_ignore_annotation_on_another_kind_is_reported(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, source('secret-copy/namespaces: "b"', 'samara.dev/ignore: "true"'))
    assert (finding.line, finding.found) == (FIRST + 1, "on a Secret")
    assert finding.expected.startswith("a Namespace:")


def test_a_tab_is_reported_as_a_tab(tmp_path: Path) -> None:
    finding = only_finding(tmp_path, "kind: Secret\nmetadata:\n\tname: x\n")
    assert (finding.line, "a tab" in finding.found, finding.expected.partition(":")[0]) == (3, True, "spaces")


def test_without_the_config_flag_a_note_says_that_the_defaults_are_used(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("vocabularies: {secret-copy: {home: shop}}")
    good = source('secret-copy/namespaces: ""')
    assert "settings: the defaults" in lint("-", stdin=good).err
    done = lint("-", "--config", file, stdin=good)
    assert (done.code, "settings:" in done.err) == (1, False)


def test_no_value_of_a_secret_is_shown(tmp_path: Path) -> None:
    values: Any = f"data:\n  a: {CANARY}\n  a: {CANARY}\nstringData:\n  b: {CANARY}\n"
    text = source('secret-copy/namespaces: "a"', f"cert-manager.io/x: {CANARY}", f"x/y/z: {CANARY}", more=values)
    for form in ("table", "json", "yaml"):
        done = lint("-", "-o", form, stdin=text)
        assert done.code == 1
        assert CANARY not in done.out + done.err


def test_the_examples_of_the_project_have_no_findings() -> None:
    assert lint_files((str(Path(__file__).parents[3] / "examples"),), Settings()).findings == []


def test_a_version_that_the_kind_does_not_have_is_another_kind(tmp_path: Path) -> None:
    text = source('secret-copy/namespaces: "a"').replace("apiVersion: v1", "apiVersion: v2")
    assert only_finding(tmp_path, text).found == "on a Secret"


def test_control_characters_of_a_manifest_do_not_reach_the_terminal(tmp_path: Path) -> None:
    file = tmp_path / "ma\x1b[31mnifest.yaml"
    annotations = ['"secret-copy/name\\e]0;title\\a": a', 'secret-copy/namespaces: "Bad\\e[2J"']
    file.write_text(annotated(*annotations, namespace="admin"))
    (tmp_path / "\x1b[2Jbroken.yaml").write_text("a: [\x1b")
    for path in tmp_path.iterdir():
        done = samara_inside("lint", path)
        assert done.code == 1
        assert not [char for char in done.out + done.err if not char.isprintable() and char != "\n"]


def test_control_characters_of_an_argument_do_not_reach_the_terminal() -> None:
    done = samara_inside("lint", "/nonexistent/\x1b[2J\x9b31m")
    assert done.code == 1
    assert "/nonexistent/·[2J·31m" in done.err
