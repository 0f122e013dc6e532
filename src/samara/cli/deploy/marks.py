"""What the policy that guards the marks needs to know: the marks, and the kinds of copies."""

from __future__ import annotations

from typing import Any

from samara.assembly import registry_of
from samara.cli.deploy.rights import cluster_rules
from samara.core.metadata_keys import ADOPTED
from samara.core.ownership import ByMark
from samara.settings import Settings


def guarded_marks() -> list[str]:
    """Without the label that names the parent of a namespace: administrators write it, and admission guards it."""
    owns = [source_type.ownership for source_type in registry_of(Settings()).source_types]
    marks = {mark for own in owns if not (isinstance(own, ByMark) and own.trusted) for mark in own.marks}
    return sorted({ADOPTED} | marks)


def guarded_kinds(settings: Settings) -> list[dict[str, Any]]:
    """The resource rules of the policy. The kinds that the operator copies are those that it may delete."""
    rules = [rule.manifest() for rule in cluster_rules(settings)]
    copied = {
        (group, resource)
        for rule in rules
        if "delete" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    operations = ["CREATE", "UPDATE"]
    return [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": operations, "resources": [resource]}
        for group, resource in sorted(copied, key="/".join)
    ]
