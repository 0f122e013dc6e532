"""The configuration of Accurate in the settings: in line, or in the original's own file."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.settings.test_properties import WORDS

from samara.core.model import KindName
from samara.core.vocabulary import SettingError
from samara.setting_types import Inline
from samara.settings import SettingsError, load, parse
from samara.settings.keys_file import read_keys
from samara.vocabularies.accurate import AccurateSettings, watched_kinds
from samara.vocabularies.accurate.config import KEYS, UNREADABLE, Config, Watch, read
from samara.vocabularies.accurate.globs import Keys

INLINE = Inline(KEYS, "config_file", UNREADABLE)
FILE = """
labelKeys: [team]
watches:
- group: rbac.authorization.k8s.io
  version: v1
  kind: Role
- version: v1
  kind: Secret
"""
READ = Config(
    label_keys=Keys(("team",)),
    watches=(Watch("rbac.authorization.k8s.io", "v1", "Role"), Watch("", "v1", "Secret")),
)


def accurate(own: str) -> AccurateSettings:
    settings = parse(f"vocabularies: {{accurate: {own}}}", "f").vocabularies["accurate"]
    assert isinstance(settings, AccurateSettings)
    return settings


def fault(own: str) -> str:
    with pytest.raises(SettingsError) as error:
        accurate(own)
    return str(error.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_without_keys_or_file_the_configuration_is_empty() -> None:
    assert read(accurate("{}").config) == read(AccurateSettings().config) == Config()


def test_the_originals_keys_are_read_in_line() -> None:
    assert read(accurate("{labelKeys: [team], watches: [{version: v1, kind: Secret}]}").config) == Config(
        label_keys=Keys(("team",)), watches=(Watch("", "v1", "Secret"),)
    )


def test_the_originals_file_is_read_in_the_place_of_its_keys(file: Path) -> None:
    file.write_text(FILE)
    own = accurate(f"{{configFile: {file}, allowCascadingDeletion: true}}")
    assert read(own.config) == READ
    assert (own.config_file, own.allow_cascading_deletion) == (str(file), True)


def test_the_file_is_read_once(file: Path) -> None:
    file.write_text(FILE)
    own = accurate(f"{{configFile: {file}}}")
    file.unlink()
    assert read(own.config) == READ


def test_the_other_vocabularies_and_their_order_stay_as_they_are(file: Path) -> None:
    file.write_text(FILE)
    settings = parse(f"vocabularies: {{sync-to: , accurate: {{configFile: {file}}}, secret-copy: }}", "f")
    assert list(settings.vocabularies) == ["secret-copy", "accurate", "sync-to"]


@pytest.mark.parametrize(
    "text",
    [
        '{"labelKeys": ["team"]}',
        '{\n\t"labelKeys": [\n\t\t"team"\n\t]\n}\n',
        "\ufefflabelKeys:\n- team\n",
        '\ufeff{"labelKeys":\t["team"],\n\t"watches": null}',
    ],
)
def test_the_file_is_yaml_or_json(file: Path, text: str) -> None:
    file.write_text(text)
    assert read(accurate(f"{{configFile: {file}}}").config) == Config(label_keys=Keys(("team",)))


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "null"])
def test_an_empty_file_is_valid(file: Path, text: str) -> None:
    file.write_text(text)
    assert read(accurate(f"{{configFile: {file}}}").config) == Config()


def test_the_watched_kinds_are_those_of_the_configuration() -> None:
    own = accurate("{watches: [{version: v1, kind: Secret}, {group: apps, version: v1, kind: Deployment}]}")
    assert watched_kinds(own) == (KindName("", "v1", "Secret"), KindName("apps", "v1", "Deployment"))
    assert watched_kinds(AccurateSettings()) == ()


def test_the_message_for_a_missing_file_is_that_of_the_original(file: Path) -> None:
    assert fault(f"{{configFile: {file}}}") == (
        f"f: vocabularies.accurate.configFile: failed to read {file}: no such file or directory"
    )


def test_the_message_for_an_unreadable_file_is_that_of_the_original(tmp_path: Path) -> None:
    assert fault(f"{{configFile: {tmp_path}}}") == (
        f"f: vocabularies.accurate.configFile: failed to read {tmp_path}: is a directory"
    )
    assert fault('{configFile: "\\ud800"}') == (
        "f: vocabularies.accurate.configFile: failed to read \\ud800: invalid argument"
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"labelKeys: [a:", "line 1: not legal YAML: "),
        (b"labelKeys: []\nlabelKeys: []\n", "line 2: duplicate key 'labelKeys', first on line 1"),
        (b'{"labelKeys": [], "labelKeys": []}', "line 1: duplicate key 'labelKeys', first on line 1"),
        (b"a: \xff", "not UTF-8 text: invalid start byte at byte 3"),
        (b"- a", "found a list, expected a mapping with labelKeys, annotationKeys, "),
    ],
)
def test_the_message_for_an_illegal_file_has_the_reason(file: Path, content: bytes, reason: str) -> None:
    file.write_bytes(content)
    assert fault(f"{{configFile: {file}}}").startswith(f"{file}: {UNREADABLE}{reason}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("extra: 1", f'{UNREADABLE}error unmarshaling JSON: while decoding JSON: json: unknown field "extra"'),
        ("labelKeys: team", f"{UNREADABLE}labelKeys: expected a list, found text"),
        (
            "labelKeys: ['[']",
            "invalid configurations: malformed pattern for labelKeys [: syntax error in pattern",
        ),
    ],
)
def test_the_message_for_a_fault_in_the_file_begins_with_its_name(file: Path, text: str, expected: str) -> None:
    file.write_text(text)
    assert fault(f"{{configFile: {file}}}") == f"{file}: {expected}"


def test_the_message_for_an_inline_fault_begins_with_the_settings_name() -> None:
    assert fault("{annotationKeys: [accurate.cybozu.com/from]}") == (
        "f: vocabularies.accurate.annotationKeys: invalid configurations: "
        "misconfigured annotationKey: accurate.cybozu.com/from is not allowed"
    )


def test_the_file_and_the_keys_exclude_each_other_before_the_file_is_read() -> None:
    assert fault("{configFile: /none, labelKeys: []}") == (
        "f: vocabularies.accurate: found configFile and labelKeys, expected the file or the keys, not both"
    )


def test_a_settings_file_reads_the_originals_file_too(tmp_path: Path, file: Path) -> None:
    file.write_text(FILE)
    settings = tmp_path / "samara.yaml"
    settings.write_text(f"vocabularies: {{accurate: {{configFile: {file}}}}}")
    own = load(str(settings)).vocabularies["accurate"]
    assert isinstance(own, AccurateSettings)
    assert read(own.config) == READ


def message(text: str) -> str:
    """The message about the document, empty if it is legal. Any other exception fails the test."""
    try:
        read_keys(text.encode(), INLINE)
    except SettingError as error:
        return str(error)
    return ""


@given(st.text() | WORDS | st.text('{}[]":,\t\n1ea', max_size=20))
def test_any_file_is_read_or_refused_on_one_line(text: str) -> None:
    assert "\n" not in message(text)
    assert message(text).startswith(UNREADABLE) or not message(text)


@pytest.mark.parametrize(
    ("own", "path"),
    [
        ("{labelKeys: [team], watches: [{kind: Secret}]}", "vocabularies.accurate.watches"),
        ("{annotationKeys: [team], labelKeys: [1]}", "vocabularies.accurate.labelKeys"),
        ("{watches: [{version: v1, kind: Secret, x: y}]}", "vocabularies.accurate.watches"),
    ],
)
def test_the_message_for_an_inline_value_has_the_path_of_its_key(own: str, path: str) -> None:
    assert fault(own).startswith(f"f: {path}: ")
