# Development tasks; CI runs `make test`. `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := dev,classic-control,box2d,video,minatar,atari,marl,onnx,docs,tune,report,tensorboard,trackio,hub,ray,joblib,submitit
COMPILED := compile-kernels compile-battles compile-env.games compile-buffer
FAULTS := overrides lines hostile foreign misplaced corruptions omissions determinism power kills cuts calls workers signals sweeps searches disks soak endurance

unexport PYTHONDONTWRITEBYTECODE # many processes read the modules that one has compiled

.DEFAULT_GOAL := help
.PHONY: help install $(COMPILED) train test test-all soak mutants bench docs extras lowest format lint type clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rltrain needs Python 3.11 or newer: make PYTHON=python3.12 …"; exit 2; }
	@echo "Installing into $(VENV): takes a few minutes and 2 GB, or 6 GB with PyTorch for GPUs."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "$$(grep '^torch==' constraints.txt)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(STAMP) ## create .venv, install rltrain, compile its kernels
	@echo "Compiling for this machine: two minutes the first time."
	@$(MAKE) --no-print-directory -j 2 $(COMPILED)

$(COMPILED): compile-%: $(STAMP)
	@$(BIN)/python -m rltrain.$*

train: $(STAMP) ## train QMIX on SMAC's 3m map; compiles what that needs
	$(BIN)/rltrain algo=qmix env=smac
	@echo "To use rltrain: source $(BIN)/activate, then rltrain --help"

test: install lint type ## check formatting and types, run the fast tests
	$(BIN)/python -m pytest -m 'not slow' -n 2 --dist worksteal

test-all: install lint type ## run all tests, including slow ones
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	$(BIN)/python -m pytest

soak: install ## make every kind of fault and count (hours; docs/reliability.md)
	@for kind in $(FAULTS); do $(BIN)/python -m benchmarks.faults $$kind || exit 1; done

mutants: install ## change one line at a time and count which changes the tests notice (an hour)
	$(BIN)/python -m benchmarks.mutants

bench: install ## measure speed and memory beside other libraries
	$(BIN)/python -m benchmarks

docs: install ## build the documentation site in site/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@$(BIN)/python -m mkdocs build --quiet
	@echo "Open site/index.html"

extras: $(STAMP) ## check that all optional dependencies can be installed together
	@$(BIN)/python -m pip install --dry-run --quiet -c constraints.txt -e '.[$(EXTRAS)]'

lowest: $(STAMP) ## install the lowest allowed versions in .venv-lowest and try the main commands
	$(BIN)/python -m benchmarks.lowest

format: $(STAMP) ## format the code and apply the linter's fixes
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lint: $(STAMP) ## check formatting and style
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

type: $(STAMP) ## check types
	@$(BIN)/mypy --no-error-summary

clean: ## remove .venv and caches, but not outputs/
	rm -rf $(VENV) .venv-lowest build dist site .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
