# Everything is done from here; each target does its own set-up. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 3
PATIENT := -o faulthandler_timeout=7300
TOOLCHAINS := golang-go cargo jest mocha

.PHONY: help setup engine toolchains postgres check format test slow chaos soak corpus fuzz bench demo live-e2b clean

help:
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/.ready: pyproject.toml constraints.txt
	@scripts/venv "$(PYTHON)" "$(VENV)"

setup: $(VENV)/.ready

engine:
	@scripts/docker-up >/dev/null
	@scripts/sandbox-image >/dev/null

toolchains: engine
	@scripts/sandbox-image coder-bot-toolchains:latest $(addprefix --with ,$(TOOLCHAINS)) >/dev/null

postgres:
	@scripts/postgres-up

demo: setup engine ## the main job on a local GitHub: comment, sandbox, fix, verification, pull request
	@$(BIN)/coder-bot demo --json

check: setup ## format, lint, types, imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: setup engine toolchains postgres ## everything that proves the product
	$(BIN)/pytest -q -n $(WORKERS) tests/domain --cov=bot/domain --cov-branch --cov-fail-under=100 --cov-report=term:skip-covered
	$(BIN)/pytest -n $(WORKERS) --dist worksteal --ignore=tests/domain $(ARGS)

slow: setup engine toolchains postgres ## what takes longer: kills before every commit, chaos, the corpus
	$(BIN)/pytest -m slow $(PATIENT) $(ARGS)

chaos: setup engine ## 200 random faults over 50 tasks on Docker, 40 over 10 on E2B; CODER_CHAOS_SEED=N for another course
	$(BIN)/pytest -n0 -m slow $(PATIENT) tests/stories/test_chaos.py $(ARGS)

soak: setup engine ## 2,000 deliveries over 100 issues in any order, often, under kills; CODER_SOAK_SEED=N, _DELIVERIES, _ISSUES
	@echo "CODER_SOAK_SEED=$${CODER_SOAK_SEED:-1} CODER_SOAK_DELIVERIES=$${CODER_SOAK_DELIVERIES:-2000} CODER_SOAK_ISSUES=$${CODER_SOAK_ISSUES:-100}"
	$(BIN)/pytest -n0 -s -m slow $(PATIENT) tests/soak $(ARGS)

corpus: setup engine toolchains ## honest and dishonest patches in seven ecosystems, and which of them are accepted
	$(BIN)/pytest -n $(WORKERS) -m 'slow or not slow' $(PATIENT) tests/corpus $(ARGS)

fuzz: setup ## 100,000 generated lines through the policy, run by dash and bash; any text at all; CODER_FUZZ_SEED=N for others
	@echo "CODER_FUZZ_SEED=$${CODER_FUZZ_SEED:-1} CODER_FUZZ_LINES=$${CODER_FUZZ_LINES:-100000}"
	CODER_FUZZ_EXAMPLES=$${CODER_FUZZ_EXAMPLES:-2000} $(BIN)/pytest -n0 -s -m 'slow or not slow' $(PATIENT) --timeout=7200 tests/fuzz $(ARGS)

bench: setup engine ## how quick sandboxes are, as ratios against peers in the same run
	$(BIN)/python -m benchmarks.redaction
	$(BIN)/python -m benchmarks.sandbox $(ARGS)
	$(BIN)/python -m benchmarks.verification

live-e2b: setup ## the sandbox contract against the real E2B: needs E2B_API_KEY and scripts/e2b-template's template
	@[ -n "$$E2B_API_KEY" ] || { echo "live-e2b: set E2B_API_KEY to a key of your E2B team (and CODER_E2B_PLAN=pro where it is)." >&2; exit 2; }
	CODER_TEST_LIVE_E2B=1 $(BIN)/pytest -n0 tests/contracts/test_e2b_sandbox.py -k TestE2BSandbox $(ARGS)

clean: ## remove what the targets made in this folder
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
