"""A diff names the keys that a write changes."""

from __future__ import annotations

from tests.support.world import at

from samara.assembly import registry_of
from samara.cli.inspect.diff import changes
from samara.core.desired import Overlay
from samara.core.model import LABELS, Key, ManagedKey, Object, namespace_ref
from samara.core.writes import Apply
from samara.settings import Settings
from samara.vocabularies.accurate.labels import ACCURATE_MANAGER, SUB_NAMESPACE

REGISTRY = registry_of(Settings())
KEY = Key("accurate:sub", at("root", "web", SUB_NAMESPACE))


def test_diff_of_an_overlay_shows_the_label_that_it_no_longer_applies() -> None:
    applied = frozenset({ManagedKey(ACCURATE_MANAGER, LABELS, "team"), ManagedKey(ACCURATE_MANAGER, LABELS, "app")})
    labels = {"team": "a", "app": "web", "mine": "1"}
    live = Object(namespace_ref("web"), "u-web", 1, labels=labels, managed_keys=applied, applied_keys=applied)
    overlay = Overlay(live.ref, {"app": "new"}, manager=ACCURATE_MANAGER)
    assert [str(change) for change in changes(Apply(KEY, live.ref, overlay, live), REGISTRY)] == [
        "~ label app",
        "- label team",
    ]
