# `make demo` and `make test` set up what they need; only Python 3.11+ has to be there.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
MODEL  ?=
PIP    := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test dev lint replies clean

demo: $(VENV)/.runtime
	$(BIN)/subconscious demo $(if $(MODEL),--model $(MODEL))

test: $(VENV)/.development
	$(BIN)/python -m pytest -n $$($(BIN)/python -c 'import os; print(os.cpu_count() + 1)') --dist worksteal

dev: $(VENV)/.runtime
	$(BIN)/subconscious dev

lint: $(VENV)/.development
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy subconscious_pipeline
	$(BIN)/dg check defs

# The reference replies are keyed by prompts: write them anew when the prompt, the sample or its reference answers change.
replies: $(VENV)/.development
	$(BIN)/python -m subconscious_pipeline.evals.reference data/sample

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@echo "Making a virtual environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3 cannot make virtual environments; on Debian: apt-get install python3-venv"; rm -rf $(VENV); exit 1; }

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the pipeline and what it needs (about 130 MB, one to two minutes)"
	$(PIP) install -c constraints.txt -e '.[local]'
	@touch $@

$(VENV)/.development: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the pipeline, what it needs, and the tools for developing it"
	$(PIP) install -c constraints.txt -e '.[local,dev]'
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) build dist data/demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
