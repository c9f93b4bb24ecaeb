# What people and CI run. `make help` lists it. Everything installs into .venv from the lock file with hashes.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
KIT := PYTHONPATH=tests/controlplane $(BIN)/python -m controlplane_kit
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup controlplane demo test lint format docs bench lock clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-14s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## make .venv with everything in requirements-dev.lock and the project in place

$(VENV)/.installed: requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "needs Python 3.11 or newer; name one: make PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

controlplane: setup ## build etcd, kube-apiserver, … into the cache folder (Go, about 6 minutes, once)
	$(KIT) build

demo: setup ## the whole thing on this machine: control plane, Git repository, daemon
	$(BIN)/python scripts/demo.py $(ARGS)

test: setup ## all tests; ARGS='-k drift' for some of them. Says in one line what it had to leave out
	@$(KIT) build --if-possible
	$(BIN)/python -m pytest -m "not bench" -n 2 --dist loadfile $(ARGS)

lint: setup ## style, types, layers, lock files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=tests/controlplane $(BIN)/mypy --strict tests/controlplane/controlplane_kit
	$(BIN)/lint-imports
	$(BIN)/python scripts/check_locks.py

format: setup ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write the generated pages of docs/
	$(BIN)/python scripts/generate_docs.py

bench: setup ## measure against a real API server; prints, asserts nothing; ARGS='--units 200'
	@$(KIT) build
	PYTHONPATH=tests/controlplane $(BIN)/python tests/bench/bench_fleet.py $(ARGS)
	$(BIN)/python tests/bench/bench_compile.py
	$(BIN)/python tests/bench/bench_reading.py
	$(BIN)/python tests/bench/bench_readiness.py

lock: ## write the lock files anew from pyproject.toml (needs uv); ARGS=--upgrade for newer versions
	scripts/lock $(ARGS)

clean: ## remove .venv and tool caches; the built control plane stays
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
