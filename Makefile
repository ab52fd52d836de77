# `make run` and `make test` do all set-up: an environment in .venv, with pinned packages.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

.PHONY: run ui test test-slow test-faults benchmark docs check format clean

run: $(INSTALLED)
	$(BIN)/proser run digits

ui: $(INSTALLED)
	$(BIN)/proser ui

test: $(INSTALLED)
	$(PYTEST) -m "not slow"

test-slow: $(INSTALLED)
	$(PYTEST) -m slow

test-faults: $(INSTALLED)
	$(BIN)/python tests/faults

benchmark: $(INSTALLED)
	$(BIN)/python -m benchmarks $(if $(DATA),--data-dir '$(DATA)')

docs: $(INSTALLED)
	$(BIN)/mkdocs build --strict

check: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip torch torchvision
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip check
	touch $@
