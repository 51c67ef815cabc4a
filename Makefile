# make demo and make test set everything up themselves, in .venv, without root.

PYTHON ?= $(shell python3.11 -c '' 2>/dev/null && echo python3.11 || echo python3)

# The second emulator of the Pico: node's, MIT licence. Where npm is missing, its tests are skipped.
RP2040JS := rp2040js@1.4.1
PIP_INSTALL := bin/python -m pip install --quiet --disable-pip-version-check --no-input
# What a mutation of the core breaks first: meaning and C of operators, gradients, plans, ladders,
# files, saved states and the log, the trainer, proxies.
QUICK = tests/test_fixedpoint.py tests/autodiff/test_structure.py tests/autodiff/test_gate.py \
    tests/features tests/ir tests/memplan tests/ops tests/pipeline tests/proxies \
    tests/sparse/test_scheme.py tests/quant/test_ranges.py tests/data/test_dataset.py tests/runs \
    tests/experiments/test_contest.py tests/experiments/test_parallel.py \
    tests/host/test_cache.py tests/host/test_client.py tests/host/test_files.py \
    tests/host/test_frames.py tests/host/test_kept_objects.py tests/host/test_log.py \
    tests/host/test_trainer.py tests/protocol/test_store.py tests/protocol/test_ring.py \
    tests/simulation/test_objects.py tests/simulation/test_replay.py tests/simulation/test_gate.py \
    tests/simulation/test_imprint.py tests/oracle tests/qas \
    tests/codegen/test_instruction_sets.py tests/cost/test_memory.py tests/trained/test_compare.py \
    tests/project/test_quick.py tests/firmware/test_bin2uf2.py tests/modules/test_leaving_out.py \
    tests/update_rules/test_rules.py
# Packages of tests that are not among them, and why; a test holds both lists against the folders.
define LEFT_OUT_OF_QUICK
analysis: trains once for each tensor to see what it is worth
boards: runs whole programs on virtual boards, for minutes
cli: runs every command on a network and images, for minutes
docs: runs notebooks and tutorials, and builds the site
fleets: trains boards of a fleet by compiled C
formats: reads hundreds of model files, most of them damaged
functions: runs the commands as functions, as cli does
frontends: computes a million features
handover: goes from a float file to a trained one
kernels: compiles all bodies for every instruction set
published: plans and trains the networks of papers
report: opens a browser
selection: plans hundreds of schemes to find the best one
endef
SEED ?= $(shell date +%s)
C_FILES = $(shell find firmware host tests benchmarks -name '*.[ch]' | grep -v tests/codegen/golden | sort)

MYPY = @if .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; \
    then echo .venv/bin/mypy; .venv/bin/mypy; \
    else echo "mypy skipped: numpy for Python 3.10 has other type stubs"; fi

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo quick test test-rest draws test-tflite test-flower stress check format review bench site clean

help:
	@echo "make demo         train a small network on this computer and on a virtual board"
	@echo "make quick        before each commit: lint, types, the core's tests; a minute on two cores"
	@echo "make test         all checks, all tests but slow ones, a few of these, others with each commit"
	@echo "make test-rest    the slow tests that make test leaves out: both together run everything"
	@echo "make draws        tests that draw with Hypothesis, on new examples; SEED=1 repeats those of 1"
	@echo "make stress       every test in full: 200 power cuts and 500 line faults of each board, 10 minutes of fuzzing"
	@echo "make check        only the checks: format, lint, types, import directions"
	@echo "make test-tflite  the oracle tests with tflite-runtime and numpy 1.26"
	@echo "make test-flower  the tests of fleets with Flower, which is 270 MB"
	@echo "make format       format Python and C"
	@echo "make review       what cppcheck and clang-tidy find in an emitted program, by rule"
	@echo "make bench        which benchmarks there are"
	@echo "make site         the documentation as a static site, in site/"
	@echo "make clean        remove everything that make made"
	@echo "PYTHON=python3.12 chooses another Python than $(PYTHON) for a new .venv"

demo: .venv/.run
	.venv/bin/mcutrain demo

quick: .venv/.dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(MYPY)
	.venv/bin/python -m pytest -q -n 2 -m "not slow" $(QUICK)
	@echo "not tested: $(patsubst %:,%,$(filter %:,$(LEFT_OUT_OF_QUICK))); make test and make test-rest do"

test: check .venv/.node
	.venv/bin/python -m pytest -n 2 --slow=drawn

test-rest: .venv/.dev .venv/.node
	.venv/bin/python -m pytest -n 2 --slow=rest

# New examples even where CI is set; the seed stands in the first lines, and behind a failure.
draws: .venv/.dev
	.venv/bin/python -m pytest -n 2 -m hypothesis --hypothesis-seed=$(SEED)

test-tflite: .venv-tflite/.test
	.venv-tflite/bin/python -m pytest -n 2 -m oracle

test-flower: .venv-flower/.test
	.venv-flower/bin/python -m pytest -n 2 tests/fleets

# Hours on two cores. Prints what it did: how many cuts, steps, runs. Takes all that others draw.
stress: .venv/.dev .venv/.node
	MCUTRAIN_STRESS=1 MCUTRAIN_FUZZ_SECONDS=600 .venv/bin/python -m pytest -n 2 -rA

check: .venv/.dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	$(MYPY)
	.venv/bin/lint-imports --no-cache
	@echo .venv/bin/clang-format --dry-run -Werror firmware host tests benchmarks
	@$(if $(C_FILES),.venv/bin/clang-format --dry-run -Werror $(C_FILES))

format: .venv/.dev
	.venv/bin/ruff check --fix-only .
	.venv/bin/ruff format .
	$(if $(C_FILES),.venv/bin/clang-format -i $(C_FILES))

# The numbers of docs/misra.md.
review: .venv/.run
	.venv/bin/python benchmarks/review.py

bench:
	@for script in benchmarks/*.py; do \
	    [ -e "$$script" ] || { echo "no benchmarks yet"; break; }; \
	    printf '%s\n    ' ".venv/bin/python $$script"; \
	    sed -n '1s/^"""//p' "$$script"; \
	done

site: .venv/.dev
	.venv/bin/mkdocs build --strict --quiet
	@echo "site/index.html"

clean:
	rm -rf .venv .venv-tflite .venv-flower build dist mcutrain.egg-info site
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------------------------------- set-up
# A stamp file in an environment says that pip finished for this pyproject.toml.

.venv/.run: pyproject.toml | .venv/.created
	@echo "setting up .venv to run mcutrain; the first time downloads about 150 MB"
	.venv/$(PIP_INSTALL) -e '.[compiler,images,stm32,virtual]'
	@touch $@

.venv/.dev: pyproject.toml | .venv/.created
	@echo "setting up .venv for development; the first time downloads about 220 MB"
	.venv/$(PIP_INSTALL) -e '.[dev]'
	@mkdir -p .venv/packages
	@ln -sfn ../../firmware .venv/packages/mcutrain_firmware
	@ln -sfn ../../host .venv/packages/mcutrain_host
	@ln -sfn ../../examples/schemes .venv/packages/mcutrain_schemes
	@ln -sfn ../../codegen_templates .venv/packages/mcutrain_templates
	@touch .venv/.run $@

.venv/.node: Makefile | .venv/.created
	@if npm install --prefix .venv/node --no-save --no-package-lock --no-audit --no-fund \
	    --ignore-scripts --silent $(RP2040JS); then touch $@; \
	else echo "no $(RP2040JS) from npm: the tests of the Pico in a second emulator are skipped"; fi

.venv-tflite/.test: pyproject.toml | .venv-tflite/.created
	@echo "setting up .venv-tflite with tflite-runtime and numpy 1.26"
	.venv-tflite/$(PIP_INSTALL) -e '.[images,oracle-tflite,test]'
	@touch $@

.venv-flower/.test: pyproject.toml | .venv-flower/.created
	@echo "setting up .venv-flower with Flower and its simulation"
	.venv-flower/$(PIP_INSTALL) -e '.[fleet,images,test]' 'flwr[simulation]'
	@touch $@

# Debian and Ubuntu package ensurepip apart from python3; virtualenv or pip itself can stand in.
%/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { \
	    echo "mcutrain needs Python 3.10 or newer; $(PYTHON) is not: make PYTHON=... names another" >&2; \
	    exit 1; }
	@echo "creating $* with $$($(PYTHON) --version)"
	@if $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
	    $(PYTHON) -m venv --clear $*; \
	elif $(PYTHON) -m virtualenv --version >/dev/null 2>&1; then \
	    $(PYTHON) -m virtualenv --quiet --clear $*; \
	elif command -v virtualenv >/dev/null; then \
	    virtualenv --quiet --clear --python $(PYTHON) $*; \
	elif $(PYTHON) -c 'import venv' 2>/dev/null && \
	     $(PYTHON) -m pip --python $(PYTHON) --version >/dev/null 2>&1; then \
	    $(PYTHON) -m venv --clear --without-pip $* && \
	    $(PYTHON) -m pip --python $*/bin/python install --quiet pip; \
	else \
	    echo "$(PYTHON) cannot create environments: apt install python3-venv, or put virtualenv on PATH" >&2; \
	    exit 1; \
	fi
	@touch $@
