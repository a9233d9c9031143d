# README's two commands, and what a developer needs. trainmark itself goes into .venv, the demo's results into demo-report.
# The frameworks' environments (gigabytes) go into the user's data folder: $TRAINMARK_HOME, else $XDG_DATA_HOME/trainmark,
# else ~/.local/share/trainmark. There they stay; `trainmark env remove NAME` removes one.

VENV := .venv
STAMP := $(VENV)/.made
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

.PHONY: help demo test lint format check-python clean

help:
	@echo "make demo   install all that is needed, measure real training, name the report to open"
	@echo "make test   install all that is needed, run every test that this machine can run"
	@echo "make lint   style, types and the rooms' import contracts"
	@echo "make clean  remove .venv and demo-report; results and the frameworks' environments stay"

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
	@echo "== measuring: suites/demo.yaml (about five minutes on 2 cores)"
	@$(VENV)/bin/trainmark run suites/demo.yaml --out demo-report --resume
	@echo "== open demo-report/report.html in a browser"

test: $(STAMP)
	@echo "== style, types, import contracts"
	@$(MAKE) --no-print-directory lint
	@echo "== the frameworks' own environments (made once), for the tests that train"
	@$(VENV)/bin/trainmark env create mxnet $(HOROVOD) || $(GO_ON)
	@$(VENV)/bin/trainmark env create pytorch --extra dali || $(GO_ON)
	@$(VENV)/bin/trainmark env create --all || $(GO_ON)
	@echo "== tests"
	@TRAINMARK_TEST_ENVS="$$($(VENV)/bin/trainmark env list --json | $(VENV)/bin/python -c $(ENVS_FOLDER))" \
		$(VENV)/bin/python -m pytest $(PYTEST_FLAGS)

lint: $(STAMP)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports --no-cache

format: $(STAMP)
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

clean:
	rm -rf $(VENV) demo-report
