"""What a manifest cannot mean in the words of Accurate: trees of namespaces, and what is passed on along them."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from samara.cli import lint_accurate_config
from samara.cli.lint_nodes import Finding, Manifest, Word, kind_of, spot
from samara.cli.lint_part import NAMESPACE_NAME, Part, bad_type, stays_behind, wrong_kind
from samara.core.model import ANNOTATIONS, LABELS, NAMESPACE
from samara.core.names import is_label_value, is_namespace_name, matches_any_glob, quoted
from samara.core.selectors import is_label_key
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.accurate.config import Config, read
from samara.vocabularies.accurate.globs import OWN, Keys
from samara.vocabularies.accurate.labels import (
    CREATE,
    GENERATED,
    GROUP,
    IS_TEMPLATE,
    PARENT,
    PROPAGATE,
    PROPAGATE_GENERATED,
    ROLES,
    ROOT,
    SUB_NAMESPACE,
    TEMPLATE,
    TYPE,
    UPDATE,
)
from samara.vocabularies.accurate.propagate import MODES

A_MODE = f'"{CREATE}" or "{UPDATE}": with any other value the object is not passed on'
ABSENT = ("nothing", "null")
A_TYPE = f'"{ROOT}" or "{IS_TEMPLATE}": any other value means nothing'


def part(own: AccurateSettings, reserved: tuple[str, ...]) -> Part:
    """Where the settings hold none of the original's keys, nobody has said what is watched or let through."""
    config = read(own.config) if own.config else None

    def is_source(manifest: Manifest) -> bool:
        return manifest.annotation(PROPAGATE) is not None and _unpassed(manifest, config) is None

    def findings(manifest: Manifest) -> Iterator[Finding]:
        yield from lint_accurate_config.findings(manifest)
        yield from _passed_on(manifest, config)
        yield from _generated(manifest, own.propagate_generated)
        yield from _roles(manifest)
        if _group_kind(manifest) == (GROUP, SUB_NAMESPACE.name):
            yield from _sub_namespace(manifest, config, reserved)

    return Part(frozenset({PROPAGATE, PROPAGATE_GENERATED, GENERATED}), is_source, findings)


def _group_kind(manifest: Manifest) -> tuple[str, str]:
    return manifest.api_version.rpartition("/")[0], manifest.kind


def _is_namespace(manifest: Manifest) -> bool:
    return (manifest.api_version, manifest.kind) == (NAMESPACE.api_version, NAMESPACE.name)


# Objects that are passed on


def _passed_on(manifest: Manifest, config: Config | None) -> Iterator[Finding]:
    word = manifest.annotation(PROPAGATE)
    if word is None:
        return
    expected = _unpassed(manifest, config)
    if expected is not None:
        yield wrong_kind(manifest, word, expected)
        return
    yield from _mode(manifest, word)
    yield from bad_type(manifest)
    if config is not None:
        excludes = {"label": config.label_excludes, "annotation": config.annotation_excludes}
        ours = (each for each in manifest.words if not each.key.startswith(f"{GROUP}/"))
        yield from (stays_behind(manifest, each) for each in ours if excludes[each.where].match(each.key))


def _unpassed(manifest: Manifest, config: Config | None) -> str | None:
    """What should stand in place of an object that no tree passes on."""
    if _is_namespace(manifest) or _group_kind(manifest) == (GROUP, SUB_NAMESPACE.name):
        return "an object in a namespace: namespaces inherit labels and annotations, and are not passed on themselves"
    watched = {(each.group, each.kind) for each in config.watches} if config is not None else None
    if watched is None or _group_kind(manifest) in watched:
        return None
    known = ", ".join(sorted(kind for _, kind in watched))
    among = f"one of {known}: no other kind" if known else "a watched kind: none"
    return f"{among} is passed on (setting vocabularies.accurate.watches)"


def _mode(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if word.value not in MODES and _is_worth_saying(word):
        yield manifest.finding(word.line, word.key, word.found, A_MODE)


def _generated(manifest: Manifest, is_on: bool) -> Iterator[Finding]:
    word = manifest.annotation(PROPAGATE_GENERATED)
    if word is None:
        return
    yield from _mode(manifest, word)
    if not is_on:
        expected = (
            f"{PROPAGATE} on the objects themselves, or the setting vocabularies.accurate.propagateGenerated: true"
        )
        yield manifest.finding(word.line, word.key, "a key that does nothing while that is off", expected)


def _is_worth_saying(word: Word) -> bool:
    """False where it has been said that the value is no text."""
    return word.value is not None or (word.where == "annotation" and word.found == "null")


# Namespaces


def _roles(manifest: Manifest) -> Iterator[Finding]:
    for word in (each for each in manifest.words if each.key in ROLES):
        if word.where == "annotation":
            expected = "a label: an annotation of this key does nothing"
            yield manifest.finding(word.line, word.key, "an annotation", expected)
        elif not _is_namespace(manifest):
            yield wrong_kind(manifest, word, f"a {NAMESPACE.api_version} Namespace: elsewhere this label does nothing")
        elif _is_worth_saying(word):
            yield from _type(manifest, word) if word.key == TYPE else _named(manifest, word)
    if _is_namespace(manifest):
        yield from _both(manifest)


def _type(manifest: Manifest, word: Word) -> Iterator[Finding]:
    if word.value not in (ROOT, IS_TEMPLATE):
        yield manifest.finding(word.line, word.key, word.found, A_TYPE)


def _named(manifest: Manifest, word: Word) -> Iterator[Finding]:
    """The label that names a parent or a template."""
    own = manifest.name.value if manifest.name is not None else None
    if not word.value:
        yield manifest.finding(word.line, word.key, word.found, "the name of a namespace, or no such label")
    elif not is_namespace_name(word.value):
        yield manifest.finding(word.line, word.key, word.found, NAMESPACE_NAME)
    elif word.value == own:
        expected = "the name of another namespace: circular reference is not permitted"
        yield manifest.finding(word.line, word.key, f"{word.found}, its own name", expected)


def _both(manifest: Manifest) -> Iterator[Finding]:
    parent = manifest.label(PARENT)
    if parent is None or not parent.value:
        return
    beside = {
        TEMPLATE: "one of the two: a sub-namespace cannot have a template",
        TYPE: "one of the two: a sub-namespace cannot be a root or a template",
    }
    for key, expected in beside.items():
        word = manifest.label(key)
        if word is not None:
            yield manifest.finding(word.line, key, f"beside {PARENT}", expected)


# SubNamespaces


def _sub_namespace(manifest: Manifest, config: Config | None, reserved: tuple[str, ...]) -> Iterator[Finding]:
    version, name = manifest.version, manifest.name
    if version is not None and version.value != SUB_NAMESPACE.api_version:
        expected = f"{SUB_NAMESPACE.api_version}: no other version is served"
        yield manifest.finding(version.line, version.key, version.found, expected)
    if name is not None and name.value is not None:
        yield from _name(manifest, name, name.value, reserved)
    yield from _shape(manifest)
    for word in manifest.spec:
        yield from list(_illegal(manifest, word)) or _not_let_through(manifest, word, config)


def _name(manifest: Manifest, word: Word, name: str, reserved: tuple[str, ...]) -> Iterator[Finding]:
    if not is_namespace_name(name):
        yield manifest.finding(word.line, "metadata.name", word.found, NAMESPACE_NAME)
    elif matches_any_glob(reserved, name):
        expected = "another name: this one is reserved, and no namespace is made of it"
        yield manifest.finding(word.line, "metadata.name", word.found, expected)


def _shape(manifest: Manifest) -> Iterator[Finding]:
    """Fields that the server refuses, or drops without a word."""
    spec = spot(manifest.root, "spec")
    if not isinstance(spec.node, yaml.MappingNode):
        if kind_of(spec.node) not in ABSENT:
            yield manifest.finding(spec.line, "spec", kind_of(spec.node), "a mapping with labels and annotations")
        return
    for key, node in spec.node.value:
        line, name = key.start_mark.line + 1, f"spec.{quoted(str(key.value))[1:-1]}"
        if key.value not in (LABELS, ANNOTATIONS):
            yield manifest.finding(line, name, "a field", "labels or annotations: the server drops any other field")
        elif not isinstance(node, yaml.MappingNode) and kind_of(node) not in ABSENT:
            yield manifest.finding(line, name, kind_of(node), "a mapping of keys to texts")


def _illegal(manifest: Manifest, word: Word) -> Iterator[Finding]:
    """What the server would not take on the namespace."""
    where = _field(word)
    is_label = word.where == "label"
    if not is_label_key(word.key if is_label else word.key.lower()):
        yield manifest.finding(word.line, f"{where}.{word.key}", quoted(word.key), f"the key of {_a(word)}")
    elif word.value is None:
        yield manifest.finding(word.line, f"{where}.{word.key}", word.found, "text in quotes")
    elif is_label and word.value and not is_label_value(word.value):
        expected = "a label value: up to 63 letters, digits, - _ ., no slash"
        yield manifest.finding(word.line, f"{where}.{word.key}", word.found, expected)


def _not_let_through(manifest: Manifest, word: Word, config: Config | None) -> Iterator[Finding]:
    """Such a key is no fault to the server, and never arrives."""
    setting = "subNamespaceLabelKeys" if word.where == "label" else "subNamespaceAnnotationKeys"
    if word.key.startswith(OWN):
        expected = f"another key: those under {' and '.join(OWN)} never reach a namespace this way"
    elif config is not None and not _keys(config, word).admits(word.key):
        expected = f"a key that the setting vocabularies.accurate.{setting} lets through; any other is ignored"
    else:
        return
    yield manifest.finding(word.line, f"{_field(word)}.{word.key}", "a key that is not let through", expected)


def _keys(config: Config, word: Word) -> Keys:
    return config.sub_label_keys if word.where == "label" else config.sub_annotation_keys


def _field(word: Word) -> str:
    return f"spec.{word.where}s"


def _a(word: Word) -> str:
    return "a label" if word.where == "label" else "an annotation"
