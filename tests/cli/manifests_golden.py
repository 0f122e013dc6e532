"""What `samara manifests` prints for 32 combinations of flags and settings.

`python -m tests.cli.manifests_golden` rewrites the file after a change that users should see. Most objects are the
same in many combinations, so the file keeps each of them once.
"""

from __future__ import annotations

import json
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from tests.cli.program import samara_inside

FILE = Path(__file__).with_name("manifests_golden.json")
Json = dict[str, Any]

FLAGS: dict[str, tuple[str, ...]] = {
    "no flags": (),
    "observe": ("--observe",),
    "webhook-url": ("--webhook-url=https://127.0.0.1:9443/",),
    "cert-manager": ("--cert-manager",),
    "monitoring": ("--monitoring", "--namespace=ops"),
    "observe, webhook-url, image": ("--observe", "--webhook-url=https://127.0.0.1:9443", "--image=example.com/s:1"),
    "webhook-url, monitoring": ("--webhook-url=https://webhook.example.com", "--monitoring", "--image=example.com/s@x"),
    "cert-manager, monitoring": ("--cert-manager", "--monitoring", "--namespace=ops", "--output=yaml"),
}
SETTINGS = {
    # Named explicitly, so that a new vocabulary does not change the file.
    "five vocabularies": (
        "vocabularies: {secret-copy: , resource-distribution: , accurate: , fishysecret: , sync-to: }\n"
    ),
    "no admission": "# Written by hand.\ntenancy: open\nvocabularies:\n  secret-copy: {home: vault}\n",
    "kinds and watches": """\
tenancy: strict
vocabularies:
  sync-to:
    kinds: [v1/Secret, example.com/v1/Gateway, example.com/v1beta1/Proxy]
  accurate:
    takeover: true
    watches:
      - {version: v1, kind: LimitRange}
      - {group: networking.k8s.io, version: v1, kind: NetworkPolicy}
""",
    "custom resources": "vocabularies: {resource-distribution: {takeover: true}, fishysecret: {}}\n",
}


def printed(flags: str, settings: str, folder: Path) -> list[Json]:
    """The objects of one combination."""
    file = folder / "settings.yaml"
    file.write_text(SETTINGS[settings])
    arguments = [*FLAGS[flags], f"--config={file}"]
    if "--output=yaml" not in arguments:
        return list(samara_inside("manifests", *arguments, "--output=json").json["items"])
    return list(yaml.safe_load_all(samara_inside("manifests", *arguments).out))


def combinations() -> list[tuple[str, str]]:
    return list(product(FLAGS, SETTINGS))


def expected() -> dict[tuple[str, str], list[Json]]:
    """The objects of every combination, as the file has them."""
    kept = json.loads(FILE.read_text())
    return {
        (flags, settings): [kept["objects"][name] for name in names]
        for flags, by_settings in kept["printed"].items()
        for settings, names in by_settings.items()
    }


def write() -> None:
    objects: dict[str, Json] = {}
    names: dict[str, dict[str, list[str]]] = {flags: {} for flags in FLAGS}
    with tempfile.TemporaryDirectory() as folder:
        for flags, settings in combinations():
            names[flags][settings] = [_kept(obj, objects) for obj in printed(flags, settings, Path(folder))]
    items = sorted(objects.items())
    lines = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(obj, ensure_ascii=False, sort_keys=True)}" for name, obj in items
    )
    FILE.write_text(f'{{"printed": {json.dumps(names, indent=1)},\n"objects": {{\n{lines}\n}}}}\n')


def _kept(obj: Json, objects: dict[str, Json]) -> str:
    """The name under which the file keeps an object."""
    stem = f"{obj['kind']}/{obj['metadata']['name']}"
    number = 1
    while objects.setdefault(name := f"{stem} {number}", obj) != obj:
        number += 1
    return name


if __name__ == "__main__":
    write()
