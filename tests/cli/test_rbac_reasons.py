"""`samara rbac --explain`: every rule has a reason that names the vocabularies which need it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.program import samara_inside

CHOICES = (
    "secret-copy: {}",
    "sync-to: {kinds: [v1/Secret, networking.k8s.io/v1/NetworkPolicy]}",
    "resource-distribution: {}",
    "accurate: {watches: [{group: rbac.authorization.k8s.io, version: v1, kind: Role}]}",
    "fishysecret: {}",
)


def printed(choice: str, folder: Path, *flags: str) -> list[dict[str, Any]]:
    file = folder / "settings.yaml"
    file.write_text(f"vocabularies: {{{choice}}}")
    done = samara_inside("rbac", "-o", "json", f"--config={file}", *flags).json
    return list(done["rules"] if flags else done["items"])


@pytest.mark.parametrize("choice", [*CHOICES, ", ".join(CHOICES)], ids=lambda text: text[:12])
def test_every_rule_that_is_printed_has_a_reason(choice: str, tmp_path: Path) -> None:
    roles = {obj["kind"]: obj["rules"] for obj in printed(choice, tmp_path) if "rules" in obj}
    explained = printed(choice, tmp_path, "--explain")
    assert all(len(rule.pop("why").split()) > 3 for rule in explained)
    assert explained == [{"role": role, **rule} for role, rules in roles.items() for rule in rules]


def test_a_copied_kind_names_the_vocabularies_that_copy_it(tmp_path: Path) -> None:
    explained = printed("sync-to: {}, secret-copy: {}", tmp_path, "--explain")
    reasons = {str(rule["resources"]): str(rule["why"]) for rule in explained if rule["role"] == "ClusterRole"}
    assert "secret-copy, sync-to" in reasons["['secrets']"]
    assert "of sync-to can" in reasons["['configmaps']"]


def test_the_table_is_for_people_and_has_no_manifest() -> None:
    out = samara_inside("rbac", "--explain").out
    assert "get, update: leases of coordination.k8s.io, only samara\n      to hold and renew that Lease\n" in out
    assert "apiVersion" not in out


def test_yaml_is_printed_if_it_is_requested() -> None:
    explained = {form: samara_inside("rbac", "--explain", "-o", form).out for form in ("yaml", "json")}
    assert yaml.safe_load(explained["yaml"]) == json.loads(explained["json"])
