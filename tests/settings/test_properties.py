"""Tests that reading any text gives Settings or raises SettingsError."""

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from samara.settings import SettingsError, parse

NESTING = ["vocabularies", "secret-copy", "accurate", "fishysecret", "paths", "namespaces", "timers", "writes"]
KEYS = [
    *NESTING,
    "tenancy",
    "resync",
    "kinds",
    "hold",
    "massDelete",
    "managers",
    "lease",
    "inFlight",
    "home",
    "watches",
]
MARKS = ["{", "}", "[", "]", ": ", ", ", "\n", "\n  ", "- ", "? ", "&a ", "*a", "<<: *a", "!!int ", "!!str ", "!!map "]
SCALARS = ["null", "1", ".nan", "0x_", "'", '"', "\\U", "=", "2026-02-31", "5m", "---", "...", "%YAML 1.1", "#", "\t"]

WORDS = st.lists(st.sampled_from(KEYS + MARKS + SCALARS), max_size=30).map("".join)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["5m", "v1/A"])
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
)


def message(text: str) -> str:
    """The message of the SettingsError, empty if there is none. Any other exception fails the test."""
    try:
        parse(text, "f")
    except SettingsError as error:
        return str(error)
    return ""


@given(st.text() | WORDS)
@example("&a !!str {=: *a}")
@example("a: &a [*a]")
@example("vocabularies: &a {secret-copy: *a}")
def test_no_text_raises_anything_but_a_settings_error(text: str) -> None:
    assert all(not line or line.startswith("f: ") for line in message(text).split("\n"))


@given(st.dictionaries(st.sampled_from(KEYS), TREES, max_size=4))
def test_no_tree_raises_anything_but_a_settings_error(tree: dict[str, object]) -> None:
    assert all(not line or line.startswith("f: ") for line in message(yaml.safe_dump(tree)).split("\n"))
