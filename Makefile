# README's two commands, and what a developer needs. trainmark itself goes into .venv, the demo's results into demo-report.
# The frameworks' environments (gigabytes) go into the user's data folder: $TRAINMARK_HOME, else $XDG_DATA_HOME/trainmark,
# else ~/.local/share/trainmark. There they stay; `trainmark env remove NAME` removes one.

VENV := .venv
STAMP := $(VENV)/.made
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.made
FITS := 'import sys, venv, ensurepip; sys.version_info < (3, 11) and sys.exit(1); print(sys._base_executable)'

# The first Python that will do; of a virtual environment, the one that it was made from.
PYTHON := $(shell for p in $(PYTHON3) python3.13 python3.12 python3.11 python3; do \
	"$$p" -c $(FITS) 2>/dev/null && break; done)

ENVS_FOLDER := 'import json, sys; \
	print(*(e["path"].rpartition("/")[0] for e in json.load(sys.stdin) if e["environment"] == "pytorch"))'

# Horovod is built; without a C++ compiler its tests say that it is not there.
HOROVOD := $(shell command -v c++ >/dev/null && echo --extra horovod)

# What cannot be made here (no Python 3.11, no network) costs its own tests, not the others.
GO_ON := echo "== going on without it; its tests will be skipped by name (or, with TRAINMARK_REQUIRE_ENVS=1, refused)"

# A training of the tests computes with one thread. What trains nothing waits half of its time, for processes that it ends.
JOBS := $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores + (cores + 1) / 2)))
SIDE_BY_SIDE = --numprocesses=$(JOBS) --dist=loadgroup --no-loadscope-reorder
test-SELECTED := -m "not rare"

# What make check leaves to make test.
CHECKED := not training and not cluster and not rare and not browser and not process and not slow

# Without it each of some hundred short interpreters compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo check docs test test-all test-again cluster-test lint environments format check-python clean

help:
	@echo "make demo   install all that is needed, measure real training, name the report to open"
	@echo "make check  the loop of a developer, in about a minute: style, types, import contracts, the quick tests"
	@echo "make test   install all that is needed, run the tests that this machine can run, less the rare ones"
	@echo "make test-all   those too, as continuous integration does"
	@echo "make cluster-test   of these, the tests on a cluster of four hosts on this machine (as root)"
	@echo "make docs   build the manual into build/manual, with every link checked"
	@echo "make site   build the pages of the stored results into build/site"
	@echo "make lint   style, types and the rooms' import contracts"
	@echo "make clean  remove .venv, .venv-docs and demo-report; results and the frameworks' environments stay"

check-python:
	@test -n "$(PYTHON)" || { echo "trainmark needs Python 3.11 or later with venv; none was found on PATH."; \
		echo "Install one (Debian: apt install python3 python3-venv), or: make PYTHON3=/path/to/python"; exit 1; }

$(STAMP): pyproject.toml requirements/dev.lock | check-python
	@echo "== installing trainmark into $(VENV) with $(PYTHON)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/dev.lock
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(STAMP)
	@echo "== the framework's own environment (PyTorch; made once)"
	@$(VENV)/bin/trainmark env create pytorch
	@echo "== measuring: suites/demo.yaml (at most five minutes; cases that do not fit are left out)"
	@$(VENV)/bin/trainmark run suites/demo.yaml --out demo-report --resume; code=$$?; \
	[ $$code != 1 ] || echo "== a case is in doubt or has no number: the report says which, and why"; \
	[ $$code -le 1 ] || exit $$code; \
	echo "== open demo-report/report.html in a browser"

# What starts a framework, a browser, a cluster or other processes is left to make test, and slow tests (tests/slow_tests.txt).
check: $(STAMP)
	@echo "== style"
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@echo "== types"
	@$(VENV)/bin/mypy
	@echo "== import contracts"
	@$(VENV)/bin/lint-imports | tail -n 1
	@echo "== tests: $(CHECKED)"
	@$(VENV)/bin/python -m pytest --quiet --numprocesses=$$(nproc) --dist=loadgroup --no-loadscope-reorder \
		--hypothesis-profile=quick -m "$(CHECKED)" $(PYTEST_FLAGS)

# Style and types need no environment, and environments mostly wait for the network.
test test-all: $(STAMP)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line lint environments
	@echo "== tests"
	@TRAINMARK_TEST_ENVS="$$($(VENV)/bin/trainmark env list --json | $(VENV)/bin/python -c $(ENVS_FOLDER))" \
		$(VENV)/bin/python -m pytest $(SIDE_BY_SIDE) $($@-SELECTED) --durations=25 $(PYTEST_FLAGS)

# What failed among all the others, one after the other: the file $TRAINMARK_FAILED_TESTS lists it, a test a line.
test-again: $(STAMP)
	@echo "== once more, by themselves:"
	@cat "$$TRAINMARK_FAILED_TESTS"
	@TRAINMARK_TEST_ENVS="$$($(VENV)/bin/trainmark env list --json | $(VENV)/bin/python -c $(ENVS_FOLDER))" \
		$(VENV)/bin/python -m pytest "@$$TRAINMARK_FAILED_TESTS"

cluster-test: $(STAMP)
	@scripts/cluster missing
	@TRAINMARK_TEST_ENVS="$$($(VENV)/bin/trainmark env list --json | $(VENV)/bin/python -c $(ENVS_FOLDER))" \
		$(VENV)/bin/python -m pytest tests/cluster $(PYTEST_FLAGS)

# It has an environment of its own, because it weighs 130 MB and no test needs it.
$(DOCS_STAMP): pyproject.toml requirements/docs.lock | check-python
	@echo "== installing what builds the manual into $(DOCS_VENV) with $(PYTHON)"
	@rm -rf $(DOCS_VENV)
	@$(PYTHON) -m venv $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements/docs.lock
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

docs: $(DOCS_STAMP)
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --quiet
	@echo "== open build/manual/index.html in a browser"

site: $(STAMP)
	@$(VENV)/bin/trainmark site docs/results --out build/site

environments: $(STAMP)
	@echo "== the frameworks' own environments (made once), for the tests that train"
	@$(VENV)/bin/trainmark env create mxnet $(HOROVOD) || $(GO_ON)
	@$(VENV)/bin/trainmark env create pytorch --extra dali || $(GO_ON)
	@$(VENV)/bin/trainmark env create --all || $(GO_ON)

lint: $(STAMP)
	@echo "== style, types, import contracts"
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-cache

format: $(STAMP)
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV) $(DOCS_VENV) demo-report
