"""Runs helm, and normalizes the objects of the chart and of `samara manifests` for comparison."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from scripts.chart import without_helm_labels
from tests.cli.test_rbac import grants

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "chart"
HOOK = "helm.sh/hook"
CHECKSUM = "checksum/settings"
FILE = "config.yaml"
Json = dict[str, Any]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Helm:
    """helm with folders of its own. It reaches a cluster only if it is given a kubeconfig."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._folder = folder
        homes = {f"HELM_{variable}_HOME": str(folder / variable.lower()) for variable in ("CACHE", "CONFIG", "DATA")}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("HELM", "KUBE"))}
        self._env = {**kept, **homes, "KUBECONFIG": str(folder / "none")}

    def run(self, *args: str | Path) -> Ran:
        command = [str(self._program), *map(str, args)]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=120, check=False)
        return Ran(done.returncode, done.stdout, done.stderr)

    def values(self, values: Json) -> Path:
        """A file with the values, as JSON, which is also YAML."""
        file = self._folder / "values.json"
        file.write_text(json.dumps(values))
        return file

    def try_template(self, values: Json | None = None, namespace: str = "ops", release: str = "samara") -> Ran:
        return self.run("template", release, CHART, "--namespace", namespace, "--values", self.values(values or {}))

    def notes(self, values: Json) -> str:
        """What `helm install` prints for people."""
        flags = ("--dry-run=client", "--namespace", "ops", "--values", self.values(values))
        done = self.run("install", "samara", CHART, *flags)
        assert done.code == 0, done.err
        return done.out.partition("\nNOTES:\n")[2]

    def template(self, values: Json | None = None, namespace: str = "ops", release: str = "samara") -> list[Json]:
        """All objects, hooks included."""
        done = self.try_template(values, namespace, release)
        assert done.code == 0, done.err
        return documents(done.out)


def documents(text: str) -> list[Json]:
    return [document for document in yaml.safe_load_all(text) if document]


def is_hook(obj: Json) -> bool:
    return HOOK in (obj["metadata"].get("annotations") or {})


def comparable(objects: list[Json]) -> dict[tuple[str, str], Json]:
    """By kind and name, with rules as a set of rights, settings as parsed YAML, and without the labels of a release."""
    by_name = {(obj["kind"], obj["metadata"]["name"]): _comparable(without_helm_labels(obj)) for obj in objects}
    assert len(by_name) == len(objects), "an object comes twice"
    return by_name


def _comparable(obj: Json) -> Json:
    if obj["kind"] in ("Role", "ClusterRole"):
        return {**obj, "rules": grants(obj["rules"])}
    if obj["kind"] == "ConfigMap":
        return {**obj, "data": yaml.safe_load(obj["data"][FILE])}
    if obj["kind"] == "Deployment":
        made: Json = json.loads(json.dumps(obj))
        assert made["spec"]["template"]["metadata"]["annotations"].pop(CHECKSUM)
        return made
    return obj
