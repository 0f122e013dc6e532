#!/usr/bin/env bash
# Rewrites the hash-pinned requirement files from the ranges in pyproject.toml. Needs `uv` on the PATH.
# run.txt is the bare program, all.txt has every secret manager, dev.txt what tests and tools need besides.
set -eu
cd "$(dirname "$0")/.."
lock() { uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-annotate --quiet "$@" pyproject.toml; }
lock --upgrade -o requirements/run.txt
lock --upgrade --extra aws --extra fishykeys -o requirements/all.txt
lock --upgrade --extra dev -o requirements/dev.txt
