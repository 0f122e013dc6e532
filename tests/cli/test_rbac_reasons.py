"""`samara rbac --explain`: no rule without a reason, and the reasons are those of the chosen vocabularies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.cli.program import samara_inside

from samara.cli.rbac import cluster_rules, own_rules
from samara.cli.rbac_reasons import AT_HOME, ELSEWHERE
from samara.settings import parse

CHOICES = (
    "secret-copy: {}",
    "sync-to: {kinds: [v1/Secret, networking.k8s.io/v1/NetworkPolicy]}",
    "resource-distribution: {}",
    "accurate: {watches: [{group: rbac.authorization.k8s.io, version: v1, kind: Role}]}",
    "fishysecret: {}",
)


def explained(choice: str, folder: Path) -> list[dict[str, object]]:
    file = folder / "settings.yaml"
    file.write_text(f"vocabularies: {{{choice}}}")
    return list(samara_inside("rbac", "--explain", "-o", "json", f"--config={file}").json["rules"])


@pytest.mark.parametrize("choice", [*CHOICES, ", ".join(CHOICES)], ids=lambda text: text[:12])
def test_every_rule_that_is_printed_has_a_reason(choice: str, tmp_path: Path) -> None:
    settings = parse(f"vocabularies: {{{choice}}}", "test")
    told = explained(choice, tmp_path)
    bare = [{key: value for key, value in rule.items() if key not in ("role", "why")} for rule in told]
    assert bare == [*cluster_rules(settings), *own_rules(settings)]
    assert all(rule["why"] for rule in told)


def test_no_reason_is_left_over(tmp_path: Path) -> None:
    told = {rule["why"] for rule in explained(", ".join(CHOICES), tmp_path)}
    known = {*ELSEWHERE.values(), *AT_HOME.values()}
    assert {reason for reason in known if not any(str(each).startswith(reason) for each in told)} == set()


def test_a_copied_kind_names_the_vocabularies_that_copy_it(tmp_path: Path) -> None:
    told = explained("sync-to: {}, secret-copy: {}", tmp_path)
    reasons = {str(rule["resources"]): str(rule["why"]) for rule in told if rule["role"] == "ClusterRole"}
    assert "secret-copy, sync-to" in reasons["['secrets']"]
    assert "of sync-to may" in reasons["['configmaps']"]


def test_a_person_reads_words_and_no_manifest() -> None:
    out = samara_inside("rbac", "--explain").out
    assert "get, update: leases of coordination.k8s.io, only samara\n      to hold and renew that Lease\n" in out
    assert "apiVersion" not in out


def test_yaml_is_yaml_where_it_is_asked_for() -> None:
    told = {form: samara_inside("rbac", "--explain", "-o", form).out for form in ("yaml", "json")}
    assert yaml.safe_load(told["yaml"]) == json.loads(told["json"])
