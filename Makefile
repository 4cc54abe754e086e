# make reproduce   set up .venv from the lock file and run the whole study (about 20 minutes)
# make studies     the studies beyond the paper's: fidelity of credit, when it helps, all rules
# make test        set up and run the tests
# make test-full   the same with the slow tests
# make env         set up .venv only
# make engines     the same with the engines of other people's worlds, for their tests
# make lock        rewrite the lock file after pyproject.toml changed

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PROFILE ?= small
export OMP_NUM_THREADS ?= 1
export RUBRICNB_APPWORLD ?= $(abspath $(VENV))/appworld

.PHONY: env engines reproduce studies test test-full lint lock clean

env: $(VENV)/.installed

$(VENV)/.installed: requirements.lock requirements-nodeps.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-nodeps.txt
	$(BIN)/python -m pip install --quiet --no-deps -e .
	touch $@

# The engines of worlds that are not ours. Where one cannot be had (no compiler, no package index)
# its tests skip, saying so.
engines: $(VENV)/.engines

$(VENV)/.engines: $(VENV)/.installed
	-$(BIN)/rubricnb install-world textworld
	-$(BIN)/rubricnb install-world appworld
	touch $@

reproduce: env
	$(BIN)/rubricnb reproduce --profile $(PROFILE)

# What goes beyond the paper: where credit lands, and when it helps (notebooks 11 and 12). quick is
# minutes; small takes hours, and goes on where it was.
studies: env
	$(BIN)/rubricnb fidelity --profile $(PROFILE)
	$(BIN)/rubricnb study early --profile $(PROFILE)
	$(BIN)/rubricnb study closing --profile $(PROFILE)
	$(BIN)/rubricnb study rules --profile $(PROFILE)

test: engines lint
	$(BIN)/python -m pytest -m "not slow and not gpu"

test-full: engines lint
	$(BIN)/python -m pytest

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# What torch itself needs for CUDA is left out: torch's own metadata pins it where its CUDA build
# is installed, and a CPU build does not want 3 GB of it.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet uv
	build/lock/bin/uv pip compile --quiet --universal --python-version 3.11 --all-extras \
	  --no-emit-index-url --no-annotate --no-header pyproject.toml \
	  | grep -v -E '^(nvidia-|cuda-|triton)' > requirements.lock.part
	mv requirements.lock.part requirements.lock

clean:
	rm -rf $(VENV) build dist *.egg-info
