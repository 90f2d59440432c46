# The two commands of the README are `make tune` and `make test`; each sets up .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup tune test lint bench schema clean

setup: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	touch $@

tune: setup
	$(BIN)/kernelsmith tune examples/rms_norm.py --device cpu --max-time 4m

test: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m benchmarks

# What `--json` prints, after a change of kernelsmith/records.py or of what it is made of.
schema: setup
	$(BIN)/python -c "from kernelsmith.records import schema_text; print(schema_text(), end='')" > docs/schema.json

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
