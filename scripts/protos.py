"""Generates the message classes from their .proto files, next to them; `protos.py FOLDER` writes below another folder.

The output depends on the version of grpcio-tools, which is pinned. A test compares it.
"""

import sys
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

SOURCES = Path(__file__).resolve().parents[1] / "src"


def generate(out: Path) -> list[Path]:
    """Writes a module and its types for each .proto file, and returns their paths."""
    protos = [str(path.relative_to(SOURCES)) for path in sorted(SOURCES.rglob("*.proto"))]
    known = resources.files("grpc_tools") / "_proto"
    arguments = (f"-I{SOURCES}", f"-I{known}", f"--python_out={out}", f"--pyi_out={out}")
    if protoc.main(["protoc", *arguments, *protos]) != 0:
        sys.exit("protoc has failed; its own message is above")
    return [out / proto.replace(".proto", f"_pb2.{kind}") for proto in protos for kind in ("py", "pyi")]


if __name__ == "__main__":
    for path in generate(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCES):
        print(path)
