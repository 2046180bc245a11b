# Every target works in the active virtual environment, or in .venv, which it creates, when none
# is active. What a target needs is installed once: a stamp in the environment remembers it until
# a pyproject.toml changes. All three distributions of this repository are installed editable.

PYTHON ?= python3
VENV   := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
BIN    := $(VENV)/bin
READY  := $(VENV)/.temperance
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

PROJECTS := pyproject.toml lab/pyproject.toml apps/skin_lesion/pyproject.toml
OTHERS   := --editable 'lab[rivals]' --editable 'apps/skin_lesion[test]'

# Test processes; each keeps to one thread (conftest.py). Tests start the command a hundred times:
# bytecode is kept, whatever the environment says, or each start would compile the library.
JOBS     ?= 2
PYTEST   := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
CHROMIUM ?= /usr/bin/chromium

# What `make test` runs beside the library's own tests: the quick part of the other distributions.
QUICK := lab/tests/shifts/test_geometry.py apps/skin_lesion/tests/test_decision.py

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-browser test-oldest test-py312 test-py313 test-reproduce fuzz soak worker-kills audit lint format bench docs release-check clean ready-for-all

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "make %-15s%s\n", $$1, $$2}'

demo: $(READY)/demo  ## calibrate the shipped logits; needs no torch
	@$(BIN)/temperance demo

test: $(READY)/test  ## the inner loop: under two minutes, no data beyond the repository
	env -u TEMPERANCE_DATA $(PYTEST) -m 'not slow and not browser and not reproduce' \
	  --hypothesis-profile=quick src/temperance tests $(QUICK) $(ARGS)

test-all: $(READY)/test  ## all tests and doctests of the three distributions, without a browser
	$(PYTEST) $(ARGS)

# A file stays in one process: while one builds the manual, the other drives the application.
BROWSER = $(shell grep -rlE 'mark\.browser' --include='test_*.py' tests lab apps)
test-browser: $(READY)/browser $(CHROMIUM)  ## the pages people see, in headless Chromium
	TEMPERANCE_CHROMIUM=$(CHROMIUM) $(PYTEST) --dist loadfile -m browser $(BROWSER) $(ARGS)

# In an environment of its own, made anew.
test-oldest:  ## the library with the oldest dependencies that it promises
	$(PYTHON) .ci/oldest.py > .oldest.txt
	rm -rf .venv-oldest && $(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/pip install -q -c .oldest.txt torch==2.13.0
	.venv-oldest/bin/pip install -q -c .oldest.txt --editable '.[all,test]'
	env -u TEMPERANCE_DATA .venv-oldest/bin/python -m pytest -n $(JOBS) --dist worksteal \
	  -m 'not slow and not browser and not reproduce' src/temperance tests $(ARGS)

# Needs an interpreter of that name. Without torch: test files that import it are left out.
TORCHLESS = $(addprefix --ignore=,$(shell grep -rlE '^(import torch|from torch|from safetensors.torch)' tests))
test-py312 test-py313: test-py3%:  ## the library with another Python and the newest dependencies
	rm -rf .venv-py3$* && python3.$* -m venv .venv-py3$*
	.venv-py3$*/bin/pip install -q --editable '.[cli,dask,fast,parquet,report]' array-api-strict \
	  hypothesis mpmath pandas polars pot pytest relplot
	env -u TEMPERANCE_DATA .venv-py3$*/bin/python -m pytest \
	  -m 'not slow and not browser and not reproduce' $(TORCHLESS) \
	  tests/_core tests/calibrate tests/cli tests/data tests/io tests/metrics tests/supervised $(ARGS)

fuzz: $(READY)/test  ## 20,000 damaged files for the commands, 10,000 problems for each kernel
	$(BIN)/python tests/helpers/mutants.py 20000 $(ARGS)
	NUMBA_BOUNDSCHECK=1 $(BIN)/python tests/_core/test_kernel_fuzz.py 10000

soak: $(READY)/test  ## 24,000 mixed calls in one process: memory and open files
	$(BIN)/python tests/helpers/soak.py 24000 --out benchmarks/records/soak.json $(ARGS)

worker-kills: $(READY)/test  ## 50 Dask workers killed in running fits: the same bits
	$(BIN)/python tests/helpers/worker_kills.py 50 --out benchmarks/records/worker_kills.json $(ARGS)

# Strict: a package that the service does not know fails the audit, in place of being passed over.
audit: $(READY)/lint  ## known weaknesses of dependencies (pip-audit) and of our own code (bandit)
	$(PIP) pip-audit bandit
	$(BIN)/bandit -q -r src -ll -s B704  # markup in report/ is escaped where it is made
	$(BIN)/python -m pip list --exclude-editable --format=freeze | sed 's/+.*//' > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audited.txt

# Trains a dozen small networks: under ten minutes on two cores.
test-reproduce: $(READY)/test  ## the paper's tables and figures on five thousand digits
	$(BIN)/python -m pytest -m reproduce lab/tests/reproduce $(ARGS)

lint: $(READY)/lint  ## ruff, types, import contracts, spelling, sizes
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python .ci/sizes.py

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

release-check: $(READY)/release  ## build three wheels and sdists, look inside, install and run each
	rm -rf dist
	$(BIN)/python .ci/release_check.py dist

clean:  ## remove what was built, keep the environment
	rm -rf build dist lab/dist apps/skin_lesion/dist docs/_build docs/_generated docs/api/generated
	rm -rf .venv-oldest .venv-py312 .venv-py313 .oldest.txt .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# ------------------------------------------------------------------------------ environments

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(READY): | $(BIN)/python
	mkdir -p $@

# First and pinned: whatever asks for torch later finds it there and leaves it alone.
$(READY)/torch: | $(READY)
	$(PIP) torch==2.13.0
	touch $@

$(READY)/demo: pyproject.toml | $(READY)
	$(PIP) --editable '.[cli,report]'
	touch $@

$(READY)/release: pyproject.toml | $(READY)
	$(PIP) 'build>=1.2' 'twine>=6.1'
	touch $@

$(READY)/test: $(PROJECTS) $(READY)/torch
	$(PIP) --editable '.[all,test]' $(OTHERS)
	touch $@

$(READY)/docs: $(PROJECTS) $(READY)/torch
	$(PIP) --editable '.[all,docs]' $(OTHERS)
	touch $@

$(READY)/bench: $(READY)/test
	$(PIP) --editable '.[all,bench,test]' $(OTHERS)
	touch $@

$(READY)/lint: $(PROJECTS) $(READY)/torch
	$(PIP) --editable '.[all,lint]' $(OTHERS)
	touch $@

$(READY)/browser: $(READY)/test
	$(PIP) --editable '.[all,browser,docs,test]' $(OTHERS)
	touch $@

# What .ci/run needs for its three targets, installed in one go.
ready-for-all: $(READY)/torch
	$(PIP) --editable '.[all,browser,docs,lint,test]' $(OTHERS)
	touch $(READY)/test $(READY)/lint $(READY)/browser

# The system's own browser: Playwright's download is neither needed nor wanted.
$(CHROMIUM):
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -q && apt-get install -y -q chromium; \
	else \
		echo "make test-browser needs Chromium at $@: install the package 'chromium'," \
		     "or name another with CHROMIUM=/path." >&2; \
		exit 1; \
	fi
