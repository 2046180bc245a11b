# Every target works in the active virtual environment, or in .venv, which it creates, when none
# is active. What a target needs is installed once: a stamp in the environment remembers it until
# pyproject.toml changes.

PYTHON ?= python3
VENV   := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
BIN    := $(VENV)/bin
READY  := $(VENV)/.temperance
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Test processes; each keeps to one thread (tests/conftest.py).
JOBS     ?= 2
CHROMIUM ?= /usr/bin/chromium

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-reproduce lint format bench docs clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-14s%s\n", $$1, $$2}'

demo: $(READY)/demo  ## calibrate the shipped logits; needs no torch
	@$(BIN)/temperance demo

test: $(READY)/test  ## all tests and doctests, without a browser
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

test-browser: $(READY)/browser $(CHROMIUM)  ## the pages people see, in headless Chromium
	TEMPERANCE_CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest -m browser $(ARGS)

# Trains a dozen small networks: under ten minutes on two cores.
test-reproduce: $(READY)/test  ## the paper's tables and figures on five thousand digits
	$(BIN)/python -m pytest -m reproduce lab/tests/reproduce $(ARGS)

lint: $(READY)/lint  ## ruff, types, import contracts
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

format: $(READY)/lint  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(READY)/bench  ## speed beside the peers, as ratios
	for file in benchmarks/*.py; do \
	  OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python $$file $(ARGS) || exit 1; \
	done

docs: $(READY)/docs  ## the manual, into docs/_build/html, with pages built from records
	rm -rf docs/api/generated
	$(BIN)/python lab/pages/build.py
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:  ## remove what was built, keep the environment
	rm -rf build dist docs/_build docs/_generated docs/api/generated .pytest_cache .ruff_cache .hypothesis

# ------------------------------------------------------------------------------ environments

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(READY): | $(BIN)/python
	mkdir -p $@

# First and pinned: whatever asks for torch later finds it there and leaves it alone.
$(READY)/torch: | $(READY)
	$(BIN)/python -m pip install torch==2.13.0
	touch $@

$(READY)/demo: pyproject.toml | $(READY)
	$(PIP) --editable '.[cli,report]'
	touch $@

$(READY)/docs: pyproject.toml lab/pyproject.toml $(READY)/torch
	$(PIP) --editable '.[cli,docs,report]' --editable lab --editable apps/skin_lesion
	touch $@

$(READY)/test: pyproject.toml $(READY)/torch
	$(PIP) --editable '.[all,test]'
	touch $@

$(READY)/bench: pyproject.toml $(READY)/test
	$(PIP) --editable '.[all,bench,test]'
	touch $@

$(READY)/lint: pyproject.toml $(READY)/torch
	$(PIP) --editable '.[all,lint]'
	touch $@

$(READY)/browser: pyproject.toml $(READY)/test
	$(PIP) --editable '.[all,browser,docs,test]'
	touch $@

# The system's own browser: Playwright's download is neither needed nor wanted.
$(CHROMIUM):
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && apt-get install -y -q chromium; \
	else \
		echo "make test-browser needs Chromium at $@: install the package 'chromium'," \
		     "or name another with CHROMIUM=/path." >&2; \
		exit 1; \
	fi
