"""Tests valid settings files, and the defaults without one."""

import math
from pathlib import Path

import pytest

from samara.core.kinds import KEPT_BY_CLUSTER
from samara.core.metadata_keys import NEVER_COPIED, NOT_COPIED_BY_DEFAULT
from samara.core.model import KindName, ObjectName
from samara.core.vocabulary import VocabularySettings
from samara.setting_types import Leaf, settings_of
from samara.settings import (
    STRUCTS,
    CopiedMetadata,
    Limits,
    MassDelete,
    NeverCopied,
    Settings,
    Timers,
    Writes,
    help_text,
    load,
    parse,
)
from samara.vocabularies import VOCABULARIES
from samara.vocabularies.accurate import AccurateSettings
from samara.vocabularies.fishysecret import FishySecretSettings, PathRule
from samara.vocabularies.resource_distribution import ResourceDistributionSettings
from samara.vocabularies.secret_copy import SecretCopySettings
from samara.vocabularies.sync_to import SyncToSettings

SECRET, CONFIG_MAP = KindName("", "v1", "Secret"), KindName("", "v1", "ConfigMap")

COMPLETE = """
vocabularies:
  secret-copy: {home: vault, onSourceGone: delete, conflicts: overwrite, takeover: true, managers: [old, older]}
  sync-to: {kinds: [v1/Secret, apps/v1/Deployment], crossNamespace: allow, conflicts: refuse}
  resource-distribution: {kinds: [networking.k8s.io/v1/NetworkPolicy]}
  accurate:
    labelKeys: [team, "*.example.com/*"]
    watches: [{version: v1, kind: Secret}]
    allowCascadingDeletion: true
    propagateGenerated: true
  fishysecret:
    namespace: keys
    tokenAudience: https://vault.example.com
    crossNamespace: consent
    paths: [{namespaces: ["team-*"], allow: [/app/*]}]
    refreshInterval: 90s
    minRefreshInterval: 20s
    pathsPerNamespace: 7
    lastSynced: change
tenancy: strict
conflicts: overwrite
recreate: refuse
protectedNamespaces: ["kube-*", infra]
neverCopied: {labels: [team], annotations: ["example.com/*"], objects: [v1/ConfigMap/trust, example.com/v1/Ca/root.crt]}
copiedMetadata: {labels: [color], annotations: ["docs/*"]}
sourceGoneAfter: 0
resync: 0s
writes: {inFlight: 4, perSecond: 2.5}
massDelete: {most: 0, percent: 100, hold: forever, namespaces: 0}
limits: {listedNames: 5, listedNamesPerNamespace: 50, sourceBytesPerNamespace: 4Ki}
timers: {lease: 30s, renew: 20s, silence: 2m, backoffMost: 1h30m}
"""


def test_every_key_is_read_into_its_field() -> None:
    policy = KindName("networking.k8s.io", "v1", "NetworkPolicy")
    secret, deployment = KindName("", "v1", "Secret"), KindName("apps", "v1", "Deployment")
    config = {"labelKeys": ["team", "*.example.com/*"], "watches": [{"version": "v1", "kind": "Secret"}]}
    assert parse(COMPLETE, "whole.yaml") == Settings(
        vocabularies={
            "secret-copy": SecretCopySettings("vault", "delete", "overwrite", True, ("old", "older")),
            "sync-to": SyncToSettings((secret, deployment), "allow", "refuse"),
            "resource-distribution": ResourceDistributionSettings((policy,)),
            "accurate": AccurateSettings(None, config, True, True),
            "fishysecret": FishySecretSettings(
                "keys",
                "https://vault.example.com",
                "consent",
                (PathRule(("team-*",), ("/app/*",)),),
                90.0,
                20.0,
                7,
                "change",
            ),
        },
        tenancy="strict",
        conflicts="overwrite",
        recreate="refuse",
        protected_namespaces=("kube-*", "infra"),
        never_copied=NeverCopied(
            ("team",),
            ("example.com/*",),
            (
                ObjectName(KindName("", "v1", "ConfigMap"), "trust"),
                ObjectName(KindName("example.com", "v1", "Ca"), "root.crt"),
            ),
        ),
        copied_metadata=CopiedMetadata(("color",), ("docs/*",)),
        source_gone_after=0.0,
        resync=0.0,
        writes=Writes(4, 2.5),
        mass_delete=MassDelete(0, 100, math.inf, 0),
        limits=Limits(5, 50, 4096),
        timers=Timers(30.0, 20.0, 120.0, 5400.0),
    )


def test_without_a_file_the_defaults_are_those_of_the_specification() -> None:
    defaults = load(None)
    expected: dict[str, VocabularySettings] = {
        "secret-copy": SecretCopySettings("admin", "keep", None, False, ()),
        "resource-distribution": ResourceDistributionSettings((SECRET, CONFIG_MAP), False, ()),
        "accurate": AccurateSettings(None, {}, False, False, None, False, ("accurate-controller",)),
        "fishysecret": FishySecretSettings(None, "vault", None, None, 300.0, 10.0, 2000, "interval", False, ()),
        "sync-to": SyncToSettings((SECRET, CONFIG_MAP), None, None, False, ()),
    }
    assert {name: defaults.vocabularies[name] for name in expected} == expected
    assert (defaults.tenancy, defaults.conflicts, defaults.recreate) == ("open", "refuse", "allow")
    assert defaults.protected_namespaces == ("kube-system", "kube-public", "kube-node-lease")
    assert (defaults.source_gone_after, defaults.resync) == (3.0, 600.0)
    assert defaults.never_copied == NeverCopied((), (), KEPT_BY_CLUSTER)
    assert defaults.copied_metadata == CopiedMetadata((), ())
    assert defaults.writes == Writes(32, 0.0)
    assert defaults.mass_delete == MassDelete(50, 30, math.inf, 3)
    assert defaults.limits == Limits(10_000, 100_000, 16 * 1024 * 1024)
    assert defaults.timers == Timers(15.0, 10.0, 75.0, 900.0)


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "{}", "null", "---\n...\n", "\ufeff"])
def test_an_empty_file_means_the_defaults(text: str) -> None:
    assert parse(text, "empty.yaml") == Settings() == load(None)


@pytest.mark.parametrize("text", ["vocabularies: {secret-copy: {}}", "vocabularies:\n  secret-copy:\n"])
def test_a_vocabulary_that_is_only_named_has_its_defaults(text: str) -> None:
    assert parse(text, "f").vocabularies == {"secret-copy": SecretCopySettings()}


def test_without_vocabularies_every_vocabulary_but_those_off_until_named_is_served() -> None:
    default = [vocabulary.name for vocabulary in VOCABULARIES if not vocabulary.is_off_until_named]
    assert list(parse("tenancy: strict", "f").vocabularies) == default


def test_with_vocabularies_only_those_named_are_served_in_the_order_of_rank() -> None:
    assert list(parse("vocabularies: {sync-to: , secret-copy: }", "f").vocabularies) == ["secret-copy", "sync-to"]


def test_accurate_counts_the_marks_of_the_original_controller_as_ours() -> None:
    accurate = load(None).vocabularies["accurate"]
    assert accurate == AccurateSettings(config={}, managers=("accurate-controller",))


def test_the_brake_can_be_switched_off() -> None:
    assert parse("massDelete: null", "f").mass_delete is None


def test_items_given_twice_are_kept_once() -> None:
    assert parse("protectedNamespaces: [b, a, b]", "f").protected_namespaces == ("b", "a")


def test_no_namespace_need_be_protected() -> None:
    assert parse("protectedNamespaces: []", "f").protected_namespaces == ()


def test_anchors_and_merges_are_understood() -> None:
    text = "neverCopied: {labels: &keys [team], annotations: *keys}"
    assert parse(text, "f").never_copied == NeverCopied(("team",), ("team",))
    merged = "vocabularies:\n  resource-distribution: &own {takeover: true}\n  sync-to: {<<: *own, takeover: false}\n"
    assert parse(merged, "f").vocabularies["sync-to"] == SyncToSettings(takeover=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "refuse"),
        ("conflicts: overwrite", "overwrite"),
        ("vocabularies: {secret-copy: {conflicts: overwrite}}", "overwrite"),
        ("{conflicts: overwrite, vocabularies: {secret-copy: {conflicts: refuse}}}", "refuse"),
        ("{conflicts: overwrite, vocabularies: {secret-copy: {conflicts: null}}}", "overwrite"),
    ],
)
def test_a_vocabularys_own_setting_for_conflicts_outranks_the_general_one(text: str, expected: str) -> None:
    assert parse(text, "f").conflicts_of("secret-copy") == expected


@pytest.mark.parametrize("name", ["resource-distribution", "fishysecret"])
def test_vocabularies_without_the_setting_always_refuse_conflicts(name: str) -> None:
    assert parse("conflicts: overwrite", "f").conflicts_of(name) == "refuse"


@pytest.mark.parametrize(
    ("tenancy", "own", "expected"),
    [
        ("open", "", "allow"),
        ("strict", "", "consent"),
        ("open", "crossNamespace: consent", "consent"),
        ("strict", "crossNamespace: allow", "allow"),
    ],
)
@pytest.mark.parametrize("name", ["sync-to", "fishysecret"])
def test_tenancy_decides_about_consent_unless_the_vocabulary_does(
    name: str, tenancy: str, own: str, expected: str
) -> None:
    settings = parse(f"{{tenancy: {tenancy}, vocabularies: {{{name}: {{{own}}}}}}}", "f")
    assert settings.cross_namespace_of(name) == expected


def test_strict_tenants_are_served_when_sync_to_itself_refuses_conflicts() -> None:
    text = "{tenancy: strict, conflicts: overwrite, vocabularies: {sync-to: {conflicts: refuse}}}"
    assert parse(text, "f").conflicts_of("sync-to") == "refuse"


def test_a_file_is_read_as_its_text(tmp_path: Path) -> None:
    file = tmp_path / "samara.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + COMPLETE.encode())
    assert load(str(file)) == parse(COMPLETE, "whole.yaml")


def test_the_manual_read_as_settings_gives_the_defaults() -> None:
    assert parse(help_text(), "manual") == load(None)


def test_the_manual_names_the_keys_that_are_never_copied() -> None:
    for pattern in (*NEVER_COPIED, *NOT_COPIED_BY_DEFAULT):
        assert pattern in help_text()


def test_the_manual_says_which_vocabularies_have_limits() -> None:
    (line,) = (line for line in help_text().splitlines() if line.startswith("limits:"))
    assert [
        vocabulary.name
        for vocabulary in VOCABULARIES
        if vocabulary.is_written_by_tenants and vocabulary.name not in line
    ] == []


def test_every_line_of_the_manual_has_a_comment() -> None:
    lines = [line.strip() for line in help_text().splitlines()]
    assert [line for line in lines if "#" not in line] == [f"{name}:" for name in Settings().vocabularies]


def test_the_manual_shows_default_choice_and_meaning_on_one_line() -> None:
    line = "    onSourceGone: keep             # keep | delete; what happens to copies whose source is gone"
    assert line in help_text().splitlines()


def test_the_types_of_settings_can_be_hashed() -> None:
    """Python 3.11 and 3.12 hash them to evaluate an annotation such as `FilePath | None`."""
    shapes = [setting.shape for struct in (Settings, *STRUCTS.values()) for setting in settings_of(struct)]
    assert len({hash(shape) for shape in shapes if isinstance(shape, Leaf)}) > 1


def test_a_vocabulary_that_is_off_until_named_is_served_only_by_its_name() -> None:
    off = {vocabulary.name for vocabulary in VOCABULARIES if vocabulary.is_off_until_named}
    assert off
    assert not off & Settings().vocabularies.keys()
    for name in off:
        assert parse(f"vocabularies: {{{name}: }}", "test").vocabularies.keys() == {name}
        assert f"  # {name}:" in help_text()
