# Everything below sets itself up: each target installs what it needs into .venv (and, where it may,
# Debian packages that only the tests use). Nothing outside this folder and the user's cache is changed.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
# The files of requirements/ are complete. Without --no-deps, pip looks at newer versions of "name[extra]" than the pinned
# "name" and then refuses them for their hash.
PINNED := install -q --no-deps --require-hashes
# One more than the number of cores: tests of processes spend part of their time waiting.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# Many of the fast tests wait for processes.
FAST_WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) * 2)))
# Compiled once instead of in every one of the hundreds of processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo test test-cluster test-kubernetes test-fast test-pythons storm cluster-storm scale conformance check format bench race soak mutants cluster cluster-down image chart release reference docs requirements clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(VENV)/.run: requirements/run.txt requirements/build.txt pyproject.toml
	@scripts/create-venv $(PYTHON) $(VENV)
	$(PIP) $(PINNED) -r requirements/run.txt -r requirements/build.txt
	$(PIP) install -q --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src/vcjob  # also where PYTHONDONTWRITEBYTECODE is set: it halves the start-up
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(PIP) $(PINNED) -r requirements/dev.txt
	@touch $@

$(VENV)/.pages: $(VENV)/.dev requirements/pages.txt
	$(PIP) $(PINNED) -r requirements/pages.txt
	@touch $@

$(VENV)/.release: $(VENV)/.dev requirements/release.txt
	$(PIP) $(PINNED) -r requirements/release.txt
	@touch $@

$(VENV)/.torch: $(VENV)/.run
	@scripts/install-torch $(BIN)/python
	@touch $@

$(VENV)/.examples: $(VENV)/.torch requirements/examples.txt
	$(PIP) $(PINNED) -r requirements/examples.txt
	@touch $@

install: $(VENV)/.run  ## the command .venv/bin/vcjob
	@echo "Ready: $(BIN)/vcjob --help"

demo: $(VENV)/.torch  ## the user guide's job, unmodified, as three real PyTorch ranks on this machine
	$(BIN)/vcjob validate examples/01-guide/job.yaml
	$(BIN)/vcjob run examples/01-guide/job.yaml

test: $(VENV)/.pages $(VENV)/.torch  ## real processes, real torch, and the real cluster if it is built already: minutes
	@scripts/test-packages
	@$(BIN)/python scripts/run-tests local $(WORKERS)

test-cluster: $(VENV)/.pages $(VENV)/.release $(VENV)/.examples  ## builds a real Kubernetes and Volcano (once); every test on them, and the longest of all others
	@scripts/test-packages
	@$(BIN)/python scripts/run-tests cluster

test-kubernetes: $(VENV)/.dev $(VENV)/.torch  ## the controller's tests on another Kubernetes: VERSION=1.33|1.34|1.35|1.36 TESTS=paths
	@scripts/test-packages
	@$(BIN)/python scripts/run-tests kubernetes $(or $(VERSION),1.33) $(TESTS)

test-fast: $(VENV)/.dev  ## no cluster, no torch: the daily loop
	@$(BIN)/python scripts/run-tests fast $(FAST_WORKERS)

test-pythons: $(VENV)/.dev  ## the fast tests on every other Python 3.11+ of this machine
	@scripts/test-every-python

storm: $(VENV)/.dev  ## two hundred kills at random moments: everything that can be killed; WARM=1 with forked ranks
	$(if $(WARM),VCJOB_TEST_WARM=1) VCJOB_STORM_ROUNDS=200 $(PYTEST) -q tests/local/supervisor/test_kills.py -k storm

cluster-storm: $(VENV)/.dev  ## three hundred Jobs on the testbed while everything fails: VCJOB_STORM_SEED=n for the same again
	VCJOB_STORM_JOBS=300 $(PYTEST) -q tests/cluster/controller/faults/test_storm.py

scale: $(VENV)/.dev  ## ten thousand pods on the testbed: bare, in one Job and in two thousand
	VCJOB_FAKE_PODS=10000 VCJOB_SCALE_PODS=10000 $(PYTEST) -q tests/testbed/tests/test_fake_nodes.py tests/cluster/controller/load/test_event_cost.py tests/cluster/controller/load/test_scale.py

conformance: $(VENV)/.dev  ## Volcano's own end-to-end specs about Jobs: AGAINST=both|volcano|ours SUITE=all|jobp,... FOCUS=regex
	@scripts/test-packages
	$(BIN)/python -m tests.conformance

check: $(VENV)/.dev  ## format, lint, types (those of the web page too), layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/python scripts/check-page-types $(VENV)

format: $(VENV)/.dev  ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.pages $(VENV)/.torch  ## the speed claims, as ratios measured in one run
	@scripts/run-benches $(BIN)/python

race: $(VENV)/.dev $(VENV)/.torch  ## compare with Volcano, torchrun and others: QUICK=1 in minutes, ONLY=controller,launcher,waiting,growth
	@scripts/test-packages
	$(BIN)/python -m bench.race $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

soak: $(VENV)/.dev  ## long runs that must not grow, with their curves: JOBS=20000 BYTES=10000000000 HOURS=4 ONLY=controller,output,followers
	@scripts/test-packages
	$(BIN)/python -m bench.soak

mutants: $(VENV)/.dev  ## mutation testing of the core: SAMPLE=200 of each package, or all
	@$(BIN)/python scripts/run-mutants $(SAMPLE)

cluster: $(VENV)/.dev  ## a real Kubernetes here: NODE=real|none FAKES=n VOLCANO=off|scheduler|full
	$(BIN)/python -m tests.testbed up

cluster-down: $(VENV)/.dev  ## ends it and leaves nothing behind
	$(BIN)/python -m tests.testbed down

image: $(VENV)/.dev  ## the controller's container image, as an archive in dist/
	$(BIN)/python -m scripts.build_image

release: $(VENV)/.release  ## VERSION=x.y.z: build and check everything of a release in dist/release, then commit and tag; DRY_RUN=1 changes nothing
	$(BIN)/python -m scripts.release $(VERSION) $(if $(DRY_RUN),--dry-run) $(if $(NO_IMAGE),--no-image)

chart: $(VENV)/.run  ## generate the Helm chart from the manifests of `vcjob install`
	$(BIN)/python scripts/make_chart.py

reference: $(VENV)/.run  ## docs/reference, generated from the code
	$(BIN)/python -m scripts.generate_reference

docs: $(VENV)/.pages  ## the documentation site in dist/site, English and Chinese; a warning is an error
	@scripts/build-site $(BIN)/python
	@echo "Ready: $(BIN)/python -m http.server -d dist/site"

requirements:  ## pin the dependencies with hashes
	@scripts/pin-requirements

clean:  ## removes what make made in this folder
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants dist
