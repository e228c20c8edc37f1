# Everything here needs nothing but Python 3.11 or newer and make; `make setup PYTHON=python3.12`
# takes another Python than the first one that is found.
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3.14 python3))
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
PORT ?= 8000

.PHONY: setup docs docs-serve demo web-demo javascript test test-xla fuzz corpus lint bench bench-memory bench-xla bench-training clean dist pythons xla-table

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

# The page stands in the documentation, to which it links.
web-demo: web/node_modules/ready docs
	$(BIN)/python web/build.py build/site/demo ../
	$(BIN)/python web/serve.py build/site $(PORT) demo/

# What the pages and programs in JavaScript need; tests of these are skipped without it.
javascript: web/node_modules/ready examples/training/node_modules/ready

NPM := npm --no-audit --no-fund --loglevel=error --ignore-scripts

web/node_modules/ready: web/package.json web/package-lock.json
	@command -v npm >/dev/null || { echo "npm is needed, and was not found: install Node.js"; exit 1; }
	cd web && $(NPM) ci
	touch $@

examples/training/node_modules/ready: examples/training/package.json
	@command -v npm >/dev/null || { echo "npm is needed, and was not found: install Node.js"; exit 1; }
	cd examples/training && $(NPM) install
	touch $@

test: setup
	$(BIN)/pytest --numprocesses $(WORKERS)

test-xla: setup
	$(BIN)/pytest --numprocesses $(WORKERS) --engine xla tests/whole_programs

# Goes on where it was; what is found lies in build/fuzz.
FILES ?= 10000
PROGRAMS ?= 2000
SEED ?= 0
fuzz: setup
	$(BIN)/python -m tests.fuzz --files $(FILES) --programs $(PROGRAMS) --seed $(SEED) --processes $(WORKERS)

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

# What is published. Neither needs more than Python and the registry.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/twine check --strict dist/*

# The core dependencies, for every Python that is supported; then, for each that is here, all that
# tests/packaging tries.
PYTHONS ?= $(foreach v,3.11 3.12 3.13 3.14,$(shell python$(v) -c 'import sys; print(sys.executable)' 2>/dev/null))
pythons: dist
	for version in 3.11 3.12 3.13 3.14; do \
		$(BIN)/pip install --quiet --dry-run --target build/none --only-binary=:all: \
			--python-version $$version dist/*.whl || exit 1; done
	WHILEBACK_PYTHONS="$(PYTHONS)" $(BIN)/pytest tests/packaging

clean:
	rm -rf $(VENV) build dist web/node_modules examples/training/node_modules .downloads demo-output .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
