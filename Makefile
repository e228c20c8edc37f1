# Everything here needs nothing but Python 3.11 or newer and make; `make setup PYTHON=python3.12`
# takes another Python than the first one that is found.
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3.14 python3))
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: setup docs docs-serve demo test test-xla corpus lint bench bench-memory bench-xla bench-training clean xla-table

setup: $(VENV)/ready

$(VENV)/ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed, and none was found"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed, and $(PYTHON) is older"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/python examples/silero_vad.py
	$(BIN)/python examples/newton.py

test: setup
	$(BIN)/pytest --numprocesses $(WORKERS)

test-xla: setup
	$(BIN)/pytest --numprocesses $(WORKERS) --engine xla tests/whole_programs

corpus: setup
	$(BIN)/python -m tests.corpus --processes $(WORKERS) --write docs/corpus.md

xla-table: setup
	$(BIN)/python -m tests.engines.xla.table --processes $(WORKERS) --write docs/xla-operators.md

docs: setup
	$(BIN)/mkdocs build

docs-serve: setup
	$(BIN)/mkdocs serve

lint: setup
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python benchmarks/loops.py
	$(BIN)/python benchmarks/rows.py
	$(BIN)/python benchmarks/kinds.py
	$(BIN)/python benchmarks/lstm.py
	$(BIN)/python benchmarks/generation.py

bench-memory: setup
	$(BIN)/python benchmarks/memory.py

bench-xla: setup
	$(BIN)/python benchmarks/xla.py

bench-training: setup
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/adapting.py

clean:
	rm -rf $(VENV) build dist .downloads demo-output .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
