# Everything a developer does, from a bare machine with Python 3.11+, Go and make; `make verify` also needs Rust's cargo.
# `make` lists it.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo run test verify check static matrix bench seeded-faults fmt docs chart image wheels lock dist clean control-plane rusty-vault helm announce site sbom

VENV := .venv
INSTALLED := $(VENV)/.installed
BIN := $(VENV)/bin
# The interpreter of the virtual environment: the newest that is tested, or the one that PYTHON=… names.
PYTHON ?= $(shell scripts/pythons | sed -n '1s/^[^ ]* //p')
# More arguments for pytest: make test PYTEST="-k brake".
PYTEST ?=
# Two for each core and at most eight, each with a control plane of its own: a cluster test mostly waits.
# WORKERS=0: one by one.
WORKERS ?= $(shell cores=$$(getconf _NPROCESSORS_ONLN); echo $$((cores < 4 ? 2 * cores : 8)))
# Without reordering: tests/conftest.py puts the tests that take longest first.
PARALLEL := -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# What builds and keeps images, and the name of the image.
ENGINE ?= $(shell command -v docker || command -v podman)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
IMAGE ?= samara:$(VERSION)

PIP := -m pip --disable-pip-version-check --quiet
# $(call install,<folder>): the pinned requirements, and both projects of this checkout.
install = \
	$(1)/bin/python $(PIP) install --require-hashes -r requirements/dev.txt && \
	$(1)/bin/python $(PIP) install --no-deps --no-build-isolation -e . -e devtools && \
	touch $(1)/.installed

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(INSTALLED): requirements/dev.txt pyproject.toml devtools/pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer, with venv, was not found: install it, or name one with make PYTHON=…" >&2; exit 1; }
	@echo "Setting up the virtual environment $(VENV)."
	@$(BIN)/python -c '' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV)
	@$(call install,$(VENV))

demo: $(INSTALLED) ## a real cluster, the operator and the example, shown step by step; leaves nothing behind
	@$(BIN)/samara demo

run: $(INSTALLED) ## cluster, operator and example stay up until Ctrl-C; prints the KUBECONFIG line
	@$(BIN)/samara demo --keep

test: announce static control-plane helm ## format, lint, types, layers, unit, property and cluster tests
	@$(BIN)/python -m pytest $(PARALLEL) -m 'not verify' $(PYTEST)

# Tests that repeat themselves or take long: seeded faults, every property with 500 examples, long faults, RustyVault.
verify: $(INSTALLED) control-plane rusty-vault ## what CI runs after `make test`: seeded faults, deep properties, long waits
	@HYPOTHESIS_PROFILE=deep $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --timeout 1800 -m 'verify or property' $(PYTEST)

# Fewer examples per property. Tests that build or start something are left to `make test`.
check: static ## the part without a cluster, in under a minute
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n auto -m 'not cluster and not heavy and not verify' $(PYTEST)

static: $(INSTALLED) ## format, lint, types and layers only
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --config .importlinter > $(VENV)/.layers || { cat $(VENV)/.layers; exit 1; }
	@echo "Format, lint, types and layers are right."

matrix: control-plane helm ## the test suite on every installed Python of 3.11, 3.12 and 3.13
	@scripts/pythons | while read -r version python; do \
		case $$version in 3.11|3.12|3.13) ;; *) continue ;; esac; \
		echo "Python $$version ($$python)"; \
		venv=.venv-$$version; \
		$$venv/bin/python -c '' 2>/dev/null || "$$python" -m venv --clear $$venv; \
		if [ ! $$venv/.installed -nt requirements/dev.txt ] || [ ! $$venv/.installed -nt pyproject.toml ] || [ ! $$venv/.installed -nt devtools/pyproject.toml ]; then \
			$(call install,$$venv); \
		fi; \
		$$venv/bin/python -m pytest $(PARALLEL) -m 'not verify' $(PYTEST) < /dev/null; \
	done

bench: $(INSTALLED) control-plane ## speed and memory against a bare client on the same server; one table and JSON
	@$(BIN)/python -m samara_devtools.bench

seeded-faults: $(INSTALLED) ## breaks the core in many small ways, and shows that the suite notices each
	@$(BIN)/python -m tests.contract.seeded_faults

fmt: $(INSTALLED) ## formats the code and fixes what lint can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(INSTALLED) ## regenerates the generated parts of the pages in docs
	@$(BIN)/python -m scripts.reference

chart: $(INSTALLED) helm ## regenerates the generated parts of deploy/chart, and its rendering in src/samara/cli/deploy
	@$(BIN)/python scripts/chart.py

image: ## the image of the operator, with docker or podman; IMAGE=… names it
	@test -n "$(ENGINE)" || { echo "docker or podman was not found: install one, or name one with make image ENGINE=…" >&2; exit 1; }
	@"$(ENGINE)" build --file Containerfile --tag "$(IMAGE)" .

wheels: $(INSTALLED) ## asks the package index whether each pinned dependency of the image has wheels for amd64 and arm64
	@$(BIN)/python scripts/wheels.py

site: $(INSTALLED) ## the documentation as a site, in build/site; every warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict 2> $(VENV)/.site || { cat $(VENV)/.site; exit 1; }

sbom: $(INSTALLED) ## the dependencies of the program, as CycloneDX and as a licence list, in build/sbom
	@$(BIN)/python scripts/sbom.py build/sbom

lock: ## pins the dependencies again from the ranges in pyproject.toml (needs uv)
	@requirements/lock.sh

dist: $(INSTALLED) ## wheels of both projects and the sdist, in dist/
	@rm -rf dist
	@$(BIN)/python -m build --no-isolation
	@$(BIN)/python -m build --no-isolation --wheel --outdir dist devtools

clean: ## removes what make created here; programs built for tests stay in the user's cache folder
	@rm -rf .venv .venv-3.* dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src devtools tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

control-plane: $(INSTALLED)
	@$(BIN)/python -m samara_devtools.devcluster build > /dev/null

helm: $(INSTALLED)
	@$(BIN)/python -m samara_devtools.devcluster helm > /dev/null

rusty-vault: $(INSTALLED)
	@$(BIN)/python -m tests.secretstores.rvault

announce:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer, with venv, was not found: install it, or name one with make PYTHON=…" >&2; exit 1; }
	@"$(PYTHON)" scripts/announce.py
