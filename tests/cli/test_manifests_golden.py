"""The output of `samara manifests` has not changed, for 32 combinations of flags and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.manifests_golden import combinations, expected, printed

Json = dict[str, Any]


@pytest.fixture(scope="module")
def golden() -> dict[tuple[str, str], list[Json]]:
    return expected()


@pytest.mark.parametrize(("flags", "settings"), combinations())
def test_the_printed_objects_are_those_of_the_golden_file(
    flags: str, settings: str, golden: dict[tuple[str, str], list[Json]], tmp_path: Path
) -> None:
    assert _by_name(printed(flags, settings, tmp_path)) == _by_name(golden[flags, settings])


def _by_name(objects: list[Json]) -> dict[tuple[str, str], Json]:
    by_name = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
    assert len(by_name) == len(objects), "an object is printed twice"
    return by_name


@pytest.mark.parametrize(("flags", "settings"), combinations()[::5])
def test_what_a_pod_needs_comes_before_the_deployment_and_webhooks_come_after_it(
    flags: str, settings: str, tmp_path: Path
) -> None:
    kinds = [obj["kind"] for obj in printed(flags, settings, tmp_path)]
    assert kinds[0] == "Namespace"
    deployment = kinds.index("Deployment")
    before = ("CustomResourceDefinition", "ServiceAccount", "ClusterRoleBinding", "ConfigMap", "PriorityClass")
    assert all(index < deployment for index, kind in enumerate(kinds) if kind in before)
    assert all(index > deployment for index, kind in enumerate(kinds) if kind.endswith("WebhookConfiguration"))
