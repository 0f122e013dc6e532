"""Labels, annotations and owner references of an updated or recreated copy."""

from __future__ import annotations

from tests.support.world import at, secret

from samara.core.desired import Template
from samara.core.metadata import owners_after, split_foreign_metadata
from samara.core.metadata_keys import ADOPTED
from samara.core.model import ANNOTATIONS, FIELD_MANAGER, LABELS, ManagedKey, Object, OwnerReference
from samara.core.ownership import ByMark

MARK = "toy/from"
OWNERSHIP = ByMark(frozenset({MARK}), lambda obj, view: None)
OURS = OwnerReference("toys.dev/v1", "Maker", "m", "u", controller=True, block_owner_deletion=True)
THEIRS = OwnerReference("v1", "Pod", "p", "u-pod")


def test_a_recreated_copy_is_no_longer_adopted_and_keeps_the_metadata_of_others() -> None:
    live = Object(
        at("a", "x"),
        "u",
        1,
        secret(),
        labels={"theirs": "1"},
        annotations={MARK: "home", ADOPTED: "true", "note": "mine"},
        managed_keys=frozenset({ManagedKey(FIELD_MANAGER, ANNOTATIONS, MARK)}),
    )
    template, foreign = split_foreign_metadata(Template(secret(), {}, {MARK: "home"}), live, OWNERSHIP)
    assert template.annotations == {MARK: "home"}
    assert foreign == {LABELS: {"theirs": "1"}, ANNOTATIONS: {"note": "mine"}}


def test_an_owner_reference_with_our_uid_is_replaced_and_those_of_others_stay() -> None:
    live = Object(at("a", "x"), "u", 1, owner_references=(THEIRS, OURS._replace(block_owner_deletion=None)))
    assert owners_after(Template(secret(), owner=OURS), live) == (THEIRS, OURS)


def test_an_owner_reference_of_another_api_version_is_unchanged() -> None:
    live = Object(at("a", "x"), "u", 1, owner_references=(OURS._replace(api_version="toys.dev/v1alpha1"),))
    assert owners_after(Template(secret(), owner=OURS), live) == live.owner_references
