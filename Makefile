# `make demo` and `make test` do all their own set-up in .venv; they need Python 3.11 or newer, pip and make.

PYTHON ?= python3
# Installed first, so that nothing else chooses a torch. A smaller build for machines without a GPU:
#   make demo TORCH="torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --retries 8 --timeout 60 --constraint constraints.txt
# The projects whose notations are read and written have an environment of their own: they need much that this one does not.
PEERS := .venv-peers/bin
PEERS_PIP = $(subst $(BIN),$(PEERS),$(PIP)) --constraint tests/peers/constraints.txt
# What people train, evaluate and configure with; and the second newest minor release of transformers. What their constraints say wins.
WORKS := .venv-works-with
OLDER := .venv-transformers-5.23
own_pip = $(subst constraints.txt,$(1)/constraints.txt,$(subst $(BIN),$(1)/bin,$(PIP)))
CONSTRAIN = awk -F== 'NR == FNR { said[tolower($$1)]; print; next } !(tolower($$1) in said)'
# a package index that fails once often answers the next time
TRY := try() { "$$@" || { echo "trying once more: $$*"; sleep 5; "$$@"; } || { sleep 20; "$$@"; }; }; try

export OMP_NUM_THREADS ?= 2

.PHONY: demo test lint types check peers works-with bench clean setup

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "depthgraph needs Python 3.11 or newer; set PYTHON=…")'
	$(PYTHON) -m venv .venv
	@echo "installing torch, then depthgraph with what it needs, into .venv"
	@$(TRY) $(PIP) $(TORCH)
	@$(TRY) $(PIP) --editable ".[dev]"
	@touch $@

demo: setup
	$(BIN)/python examples/demo.py

test: setup lint types check

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

check: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --doctest-modules depthgraph tests

# exllamav3 without what it needs: its kernels are CUDA, and only its parser is run
.venv-peers/ready: pyproject.toml constraints.txt tests/peers/requirements.txt tests/peers/constraints.txt
	$(PYTHON) -m venv .venv-peers
	@echo "installing torch, then depthgraph and its peers, into .venv-peers"
	@$(TRY) $(PEERS_PIP) $(TORCH)
	@$(TRY) $(PEERS_PIP) --editable . --requirement tests/peers/requirements.txt
	@$(TRY) $(PEERS_PIP) --no-deps exllamav3
	@touch $@

peers: .venv-peers/ready
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(PEERS)/python -m pytest -p no:warnings --confcutdir tests/peers --override-ini pythonpath=tests/peers tests/peers

$(WORKS)/ready: pyproject.toml constraints.txt tests/works_with/requirements.txt tests/works_with/constraints.txt
	$(PYTHON) -m venv $(WORKS)
	@echo "installing torch, then depthgraph and what it works with, into $(WORKS)"
	@$(CONSTRAIN) tests/works_with/constraints.txt constraints.txt > $(WORKS)/constraints.txt
	@$(TRY) $(call own_pip,$(WORKS)) $(TORCH)
	@$(TRY) $(call own_pip,$(WORKS)) --editable ".[train,hf]" --requirement tests/works_with/requirements.txt
	@touch $@

$(OLDER)/ready: pyproject.toml constraints.txt tests/works_with/transformers-5.23.txt
	$(PYTHON) -m venv $(OLDER)
	@echo "installing torch, then depthgraph and an older transformers, into $(OLDER)"
	@$(CONSTRAIN) tests/works_with/transformers-5.23.txt constraints.txt > $(OLDER)/constraints.txt
	@$(TRY) $(call own_pip,$(OLDER)) $(TORCH)
	@$(TRY) $(call own_pip,$(OLDER)) --editable ".[dev]" --requirement tests/works_with/transformers-5.23.txt
	@touch $@

works-with: $(WORKS)/ready $(OLDER)/ready
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(WORKS)/bin/python -m pytest -n 2 --dist worksteal -p no:warnings --confcutdir tests/works_with --override-ini pythonpath=tests/works_with tests/works_with
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(OLDER)/bin/python -m pytest -n 2 --dist worksteal tests/test_hf_*.py

bench: setup
	$(BIN)/python benchmarks/language.py
	$(BIN)/python benchmarks/explore.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/loops.py
	$(BIN)/python benchmarks/cost.py
	$(BIN)/python benchmarks/huggingface.py

clean:
	rm -rf .venv .venv-peers $(WORKS) $(OLDER) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis demo-output
