# SPDX-License-Identifier: Apache-2.0
RUNTIME := .venv/.runtime
DEV := .venv/.dev
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
$(READY): $(RUNTIME) $(PROTOS) tools/protos.py
	@.venv/bin/python -m tools.protos

# What the service needs. Interrupted, it goes on where it stopped.
$(RUNTIME): pyproject.toml hatch_build.py $(addprefix requirements/,uv.txt build.txt runtime.txt jre.txt) tools/setup tools/install.py
	@PYTHON="$(PYTHON)" exec bash tools/setup
	@touch $@

# What tests and checks need: installed when one of them first runs.
$(DEV): $(RUNTIME) requirements/dev.txt | $(READY)
	@bash tools/setup dev
	@touch $@

# The S3 server of the demo is one of the tests' packages.
demo: $(if $(filter s3,$(STORAGE)),$(DEV)) $(READY) ## watch tables of five formats become healthy (KEEP=1 keeps it running, FORMATS=hudi,delta shows less, STORAGE=s3 has them in a bucket)
	@.venv/bin/lakehand demo $(if $(KEEP),--keep) $(if $(FORMATS),--formats $(FORMATS)) $(if $(STORAGE),--storage $(STORAGE))

test: $(DEV) ## what shows that it works, in several processes: tests without Spark, then with it (ARGS=... runs pytest with them)
ifdef ARGS
	@$(PYTEST) $(ARGS)
else
	@$(PYTEST) --long $(LONG) -n 3 -m "not spark"
	@$(PYTEST) --long $(LONG) -n 2 --dist loadfile --no-loadscope-reorder -m spark
endif

test-fast: $(DEV) ## what needs neither Java nor a server process, in random order
	@$(PYTEST) --long none -n 4 -p randomly --randomly-dont-reset-seed -m "not spark and not server" $(ARGS)

test-all: ## every test, also those that take long: once before a release
	@$(MAKE) --no-print-directory test LONG="all --record-long"

sentences: $(DEV) ## write tests/**/sentences.txt anew, after words of a sentence were changed
	@$(PYTEST) -n 3 --write-sentences -m "not spark and not server and not long" $(ARGS)

check: $(DEV) ## format, lint, types and the import map
	@.venv/bin/ruff format --check
	@.venv/bin/ruff check
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo --cache-dir .venv/.import-linter

serve: $(READY) ## run the service here (ARGS="--port 9091 --warehouse DIR")
	@.venv/bin/lakehand serve $(ARGS)

bench: $(DEV) ## measure: notify, idle, decide, check, fleet (ARGS=... chooses)
	@.venv/bin/python -m bench $(ARGS)

dist: $(READY) ## build the wheel into dist/
	@.venv/bin/python -m hatchling build -t wheel
