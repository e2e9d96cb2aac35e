# Two commands: `make bench MODEL=submissions/lstm.py` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
MODEL ?= submissions/mamba.py
RECORDS ?= .selectivbench/records
SITE ?= _site
ARGS ?=
BIN := .venv/bin
export OMP_WAIT_POLICY ?= PASSIVE
export OMP_NUM_THREADS ?= 1

.PHONY: bench test test-full lint format site clean

# The stamp holds what was installed; nothing is installed again until one of these changes.
.venv/stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch -e '.[dev,site]'
	touch $@

# The submission is judged from its own folder's point of view: no pytest.ini beside it is read.
# Whatever the verdict, the page is built; the status is pytest's.
bench: .venv/stamp
	@status=0; \
	$(BIN)/pytest -c pyproject.toml --rootdir . -p no:cacheprovider \
	  --selectiv-model=$(MODEL) --selectiv-out=$(RECORDS) $(ARGS) || status=$$?; \
	$(BIN)/python -m leaderboard build --records $(RECORDS) --out $(SITE); \
	exit $$status

test: .venv/stamp lint
	$(BIN)/pytest -n 2 $(ARGS)

test-full: .venv/stamp lint
	$(BIN)/pytest -n 2 -m '' $(ARGS)

lint: .venv/stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

site: .venv/stamp
	$(BIN)/python -m leaderboard build --out $(SITE)

clean:
	rm -rf .venv .selectivbench _site .pytest_cache .mypy_cache .ruff_cache .hypothesis

include .github/ci.mk
