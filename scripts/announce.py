"""Prints what `make test` is going to build on this machine, and about how long that takes.

Any Python runs it before anything is installed, so it uses only the standard library.
"""

import os
import sys
import types
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SUITE_MINUTES = 10
"""Duration of checks and tests after all builds. The modules that build know how long that takes."""


def import_binaries() -> types.ModuleType:
    """The module that finds the control plane, imported without its package, whose dependencies may be missing."""
    sys.path.insert(0, str(ROOT / "devtools"))
    package = types.ModuleType("samara_devtools.devcluster")
    package.__path__ = [str(ROOT / "devtools" / "samara_devtools" / "devcluster")]
    sys.modules["samara_devtools.devcluster"] = package
    from samara_devtools.devcluster import binaries

    return binaries


def control_plane() -> str:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets:
        return f"the control plane of KUBEBUILDER_ASSETS ({assets}) is used: nothing to build"
    binaries = import_binaries()
    recipe = binaries.read_recipe()
    folder = binaries.cache_folder() / recipe.key
    if (folder / "kube-apiserver").exists():
        return f"the control plane is there, in {folder}: nothing to build"
    return (
        f"a control plane (Kubernetes {recipe.kubernetes} and etcd) from Go modules, into {folder}: "
        f"about {binaries.MINUTES} minutes, once per version"
    )


def helm() -> str:
    if os.environ.get("HELM"):
        return f"the helm of HELM ({os.environ['HELM']}) is used: nothing to build"
    import_binaries()
    from samara_devtools.devcluster import helm_program

    program = helm_program.cached_helm()
    if program.exists():
        return f"helm is there, in {program.parent}: nothing to build"
    return (
        f"helm {helm_program.helm_version()} from Go modules, into {program.parent}: "
        f"about {helm_program.MINUTES} minutes, once per version"
    )


def environment() -> str:
    if (ROOT / ".venv" / ".installed").exists():
        return "the virtual environment is there, in .venv"
    return "a virtual environment in .venv, from the pinned requirements: about a minute"


def main() -> None:
    needed = (environment(), control_plane(), helm())
    head = "What this needs, and makes where it is missing (times are those of two cores):"
    tail = f"Then the checks and all tests: about {SUITE_MINUTES} minutes."
    sys.stdout.write("\n".join((head, *(f"  - {need}" for need in needed), tail)) + "\n")


if __name__ == "__main__":
    main()
