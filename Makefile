# SPDX-License-Identifier: Apache-2.0
SETUP := .venv/.set-up
PROTOS := $(wildcard src/lakehand/rpc/proto/lakehand/v1/*.proto)
READY := src/lakehand/rpc/generated/__init__.py
PYTEST := .venv/bin/python -m pytest
LONG := none# of the long tests: none, turn (as in CI), all

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-all sentences check serve bench dist

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(READY) ## create .venv, find or install Python and Java, fetch the jars (PYTHON=... chooses the Python)

# The code of the gRPC API, which set-up makes, too: made again when a .proto file has changed.
$(READY): $(SETUP) $(PROTOS) tools/protos.py
	@.venv/bin/python -m tools.protos

$(SETUP): pyproject.toml hatch_build.py requirements/build.txt requirements/runtime.txt requirements/dev.txt requirements/jre.txt tools/setup
	@PYTHON="$(PYTHON)" bash tools/setup
	@touch $@

demo: $(READY) ## watch tables of five formats become healthy (KEEP=1 keeps it running, FORMATS=hudi,delta shows less, STORAGE=s3 has them in a bucket)
	@.venv/bin/lakehand demo $(if $(KEEP),--keep) $(if $(FORMATS),--formats $(FORMATS)) $(if $(STORAGE),--storage $(STORAGE))

test: $(READY) ## what shows that it works, in several processes: tests without Spark, then with it (ARGS=... runs pytest with them)
ifdef ARGS
	@$(PYTEST) $(ARGS)
else
	@$(PYTEST) --long $(LONG) -n 3 -m "not spark"
	@$(PYTEST) --long $(LONG) -n 2 --dist loadfile --no-loadscope-reorder -m spark
endif

test-fast: $(READY) ## what needs neither Java nor a server process, in random order
	@$(PYTEST) --long none -n 3 -p randomly --randomly-dont-reset-seed -m "not spark and not server" $(ARGS)

test-all: ## every test, also those that take long: once before a release
	@$(MAKE) --no-print-directory test LONG="all --record-long"

sentences: $(READY) ## write tests/**/sentences.txt anew, after words of a sentence were changed
	@$(PYTEST) -n 3 --write-sentences -m "not spark and not server and not long" $(ARGS)

check: $(READY) ## format, lint, types and the import map
	@.venv/bin/ruff format --check
	@.venv/bin/ruff check
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo --cache-dir .venv/.import-linter

serve: $(READY) ## run the service here (ARGS="--port 9091 --warehouse DIR")
	@.venv/bin/lakehand serve $(ARGS)

bench: $(READY) ## measure: notify, idle, decide, check, fleet (ARGS=... chooses)
	@.venv/bin/python -m bench $(ARGS)

dist: $(READY) ## build the wheel into dist/
	@.venv/bin/python -m hatchling build -t wheel
