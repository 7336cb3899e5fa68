# What a contributor runs is what CI runs. `make help` prints the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install train test test-all bench format lint type clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rltrain needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 2; }
	@echo "Installing into $(VENV): a few minutes and 1.3 GB, once."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(STAMP) ## make .venv, install rltrain, compile what is compiled
	@$(BIN)/python -m rltrain.env.smac
	@$(BIN)/python -m rltrain.algo.kernels
	@$(BIN)/python -m rltrain.buffer

train: install ## the main job: QMIX on the 3m battles
	$(BIN)/rltrain algo=qmix env=smac
	@echo "To call rltrain yourself: source $(BIN)/activate, then rltrain --help"

test: install lint type ## the fast suite, with formatting and types
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist worksteal

test-all: install lint type ## everything, the slow tests too
	$(BIN)/python -m pytest

bench: install ## throughput, update time, memory
	$(BIN)/python -m benchmarks

format: $(STAMP) ## format the code and apply the linter's fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: $(STAMP) ## formatting and style
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

type: $(STAMP) ## types
	@$(BIN)/mypy --no-error-summary

clean: ## remove .venv and caches; runs in outputs/ stay
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
