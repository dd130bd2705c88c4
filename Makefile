# posttrain: each target does all of its own set-up on a fresh machine.
#   make demo    install, run the quickstart recipe, end with the report's address
#   make test    install, run the default tests
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
REQUIREMENTS := infra/requirements
ARGS ?=

.PHONY: help demo test test-slow bench lint docs lock clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.stages: $(REQUIREMENTS)/stages.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "posttrain needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -q && apt-get install -y -q python3-venv; \
	  else echo "Python's venv module is missing; install it first: sudo apt-get install python3-venv" >&2; exit 1; fi; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the pinned packages of $(REQUIREMENTS)/stages.lock (some minutes the first time)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r $(REQUIREMENTS)/stages.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.test: $(VENV)/.stages $(REQUIREMENTS)/test.lock
	@echo "installing the pinned packages of $(REQUIREMENTS)/test.lock"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -r $(REQUIREMENTS)/test.lock
	@touch $@

demo: $(VENV)/.stages ## install and run the quickstart recipe (ARGS="--set rl_steps=80" to change it)
	@$(BIN)/posttrain run quickstart $(ARGS)

test: $(VENV)/.test ## install and run the default tests
	@$(BIN)/ruff check .
	@$(BIN)/python -m pytest -n 2 $(ARGS)

test-slow: $(VENV)/.test ## the long reproductions: 25 kills, three seeds, faulty S3
	@$(BIN)/python -m pytest -m slow $(ARGS)

bench: $(VENV)/.test ## ratios against peers, each measured in one run
	@for file in tests/benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

lint: $(VENV)/.test ## check style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

docs: $(VENV)/.stages ## renew the parameter tables in component READMEs
	@$(BIN)/python -m pipelines.docs

lock: $(VENV)/.test ## rewrite the lock files from what is installed
	@$(BIN)/python $(REQUIREMENTS)/lock.py

clean: ## remove what was installed and built; the store stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache
