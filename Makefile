# SPDX-License-Identifier: Apache-2.0
STAMP := .venv/.set-up
PYTEST := .venv/bin/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast check serve bench

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP) ## make .venv, find or bring Java 17, fetch the jars (PYTHON=... chooses the Python)

$(STAMP): pyproject.toml requirements/build.txt requirements/runtime.txt requirements/dev.txt requirements/jre.txt tools/setup
	@PYTHON="$(PYTHON)" bash tools/setup
	@touch $@

demo: $(STAMP) ## watch tables of five formats become healthy (KEEP=1 stays up, FORMATS=hudi,delta shows less)
	@.venv/bin/lakehand demo $(if $(KEEP),--keep) $(if $(FORMATS),--formats $(FORMATS))

test: $(STAMP) ## every test: those without Spark side by side, then those with it (ARGS=... for pytest, all in one)
ifdef ARGS
	@$(PYTEST) $(ARGS)
else
	@$(PYTEST) -n 2 -m "not spark"
	@$(PYTEST) -m spark
endif

test-fast: $(STAMP) ## the tests that need neither Spark nor a database server, nor long
	@$(PYTEST) -n 4 -m "not spark and not database and not long" $(ARGS)

check: $(STAMP) ## format, lint, types, and the map of imports
	@.venv/bin/ruff format --check
	@.venv/bin/ruff check
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo --cache-dir .venv/.import-linter

serve: $(STAMP) ## run the service here (ARGS="--port 9091 --warehouse DIR")
	@.venv/bin/lakehand serve $(ARGS)

bench: $(STAMP) ## measure: notify, idle, decide, check, fleet (ARGS=... chooses)
	@.venv/bin/python -m bench $(ARGS)
