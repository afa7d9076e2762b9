# Every target sets up what it needs; `make` alone lists them.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The interpreter that .venv is made from: make setup PYTHON=python3.12
PYTHON ?= python3
# Processes that share the Python tests.
WORKERS ?= 2
BIN := .venv/bin
# Bytecode is kept, whatever the environment says: tests start hundreds of programs, each of which
# would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help python product setup run demo-cost test test-slow loom fuzz properties fleet fuzz-native kernels validate plan-checks lint lint-python lint-rust format web check-web ui test-web site documents wheel check-wheel check-readme bench bundle

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'error: Python 3.11 or later is needed, got "$(PYTHON)"' >&2; \
	  echo 'hint: name one that is, such as: make $(MAKECMDGOALS) PYTHON=python3.12' >&2; exit 1; }

# What the product needs: a third of the packages, and no test tools.
product: python
	@$(PYTHON) scripts/set_up.py run

setup: python ## make .venv, install all packages, build the extension
	@$(PYTHON) scripts/set_up.py dev

run: product ## make a small model serve faster on this machine, with proof; about three minutes
	$(BIN)/assay run

demo-cost: product ## price a training run and print its provenance
	$(BIN)/assay explain econ.cost.per_token --preset dense_training_cost_fixture

test: setup ## run the Rust and Python tests
	cargo test --workspace --exclude assay-python
	$(BIN)/python tests/run_tests.py -n $(WORKERS) --dist worksteal -rs

test-slow: setup ## run the tests too slow for every change
	cargo test --workspace --exclude assay-python -- --ignored
	$(BIN)/python -m pytest -m slow

loom: ## try every order in which threads of the runtime core can meet
	RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test -p assay-runtime \
	  --test loom_memory --test scheduler_loom --test transfer_loom --test dispatch_loom

fuzz: setup ## give damaged files, requests and answers to what reads them, each kind for a minute
	$(BIN)/python tests/attacks/fuzz_inputs.py --seconds 60 $(FUZZ_OPTIONS)

properties: setup ## draw 20,000 scenarios and check every invariant of the answers; goes on where it was stopped
	$(BIN)/python tests/properties/run_properties.py --workers $(WORKERS) $(if $(ON),--on $(ON))

fleet: setup ## simulate 10,000 promotions of a change that does nothing over a fleet, and watches
	PYTHONPATH=tests/improve/fleet $(BIN)/python tests/improve/fleet/simulate_promotions.py

fuzz-native: ## give random bytes to the readers in Rust (needs nightly Rust and cargo-fuzz)
	for target in gguf kineto onnx safetensors speech weights; do \
	  cargo +nightly fuzz run $$target -- -max_total_time=60 || exit 1; done

kernels: setup ## compile every variant of every CUDA kernel for three architectures; needs no GPU
	$(BIN)/python -m pytest -m "slow or not slow" tests/jit/test_kernels_compile.py

validate: product ## predict published runs, and kernels of the installed tables
	$(BIN)/assay validate --summary
	$(BIN)/uv pip install -q --python $(BIN)/python -r pyproject.toml --extra validate
	$(BIN)/python -m assay.validate.kernels.scores

lint: setup ## check formatting, types and lints; change nothing
	$(MAKE) --no-print-directory --jobs 2 lint-python lint-rust

# Side by side: mypy uses one core.
lint-python:
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lint-rust:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

format: setup ## format the Python and Rust sources in place
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	cargo fmt --all

web: ## check, test and build the front end; needs Node 20 or later, npm and rustup
	rustup target add wasm32-unknown-unknown
	cd web && npm ci --no-audit --no-fund && npm run check && npm test && npm run build

plan-checks: setup ## figures of assay plan: optima, budgets, queues, time, and 500 servers beside replays of them
	$(BIN)/python -m pytest -m "slow or not slow" tests/planner/capacity
	$(BIN)/python scripts/compare_queue_models.py --servers 500 --seed 11 --least 0.95

check-web: setup ## check the pages: types, lints, unit tests, and that the committed build is theirs
	cd web && npm ci --no-audit --no-fund && npm run check && npm test
	$(BIN)/python -m pytest -m slow -rs tests/ui/test_assets.py

ui: product ## open the pages in a browser; built ones come with the sources
	$(BIN)/assay ui

test-web: setup ## test the pages in Chromium, which is installed if there is none
	command -v chromium chromium-browser google-chrome > /dev/null || $(BIN)/playwright install --with-deps chromium
	$(BIN)/python -m pytest -m "slow or not slow" tests/ui tests/browser

site: setup ## build the documentation as pages in dist/site; they open from a file
	$(BIN)/python scripts/build_site.py

documents: setup ## run every command of the documents, or say why not; some need downloaded models
	$(BIN)/python tests/documents/run_documents.py $(DOCUMENTS_OPTIONS)

wheel: setup ## build wheel, source distribution and bill of materials into dist/release
	$(BIN)/python scripts/build_wheel.py

check-wheel: setup ## install the wheel into empty environments of Python 3.11, 3.12 and 3.13, and try it
	$(BIN)/python scripts/check_wheel.py dist/release/assay-*.whl

check-readme: ## run the commands of README.md from a tarball without git, in an empty home
	$(PYTHON) scripts/check_readme.py

bench: setup ## run every suite of assay bench
	for suite in ceilings gemv gemm ops attention pool scheduler decode graph; do \
	  $(BIN)/assay bench $$suite; done

bundle: setup ## make the offline bundle for a GPU host in dist/bundle
	$(BIN)/python scripts/bundle.py $(BUNDLE_OPTIONS)
