# A virtual environment in .venv, made on first use from pyproject.toml and the pinned versions in constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: help demo test check tour tier notebooks docs nightly test-xla check-gpu fuzz bench clean

help:  ## show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(VENV)/.demo  ## train a model with differential privacy on real images, by an unmodified JAX program
	@echo "== running examples/dp_sgd_digits.py on jaxish"
	$(BIN)/python -m jaxish run examples/dp_sgd_digits.py

test: $(VENV)/.test  ## check the code, then run all tests
	@$(MAKE) --no-print-directory --jobs=2 check tour tier  # pyright has one thread
	@echo "== running the tests"
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

check: $(VENV)/.test  ## ruff and pyright
	@echo "== checking style and types"
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

tour: $(VENV)/.test  ## the smoke test: every capability once
	@echo "== the tour"
	$(BIN)/python -m pytest tests/test_tour.py

# Tests of jitted functions that say most in least time.
COMPILED := tests/test_jit.py tests/test_tour.py tests/test_callbacks.py tests/test_lax_composite.py tests/test_custom_batching.py

tier: $(VENV)/.test  ## run some of the tests on the compiled tier
	@echo "== running some tests on the compiled tier"
	JAXISH_JIT_TIER=compiled $(BIN)/python -m pytest -n 2 $(COMPILED)

notebooks: $(VENV)/.test  ## run the notebooks, and compare what they print with what is committed
	@echo "== running the notebooks"
	$(BIN)/python -m pytest tests/test_notebooks.py

docs: $(VENV)/.test  ## build the documentation in docs/_build/html, and run its examples
	@echo "== building the documentation"
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python -m sphinx -q -W -b doctest docs docs/_build/doctest

nightly: $(VENV)/.test  ## all tests on the compiled tier, loops under sanitizers, derivatives of mapped functions
	JAXISH_JIT_TIER=compiled $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
	$(BIN)/python tests/differential --sanitize
	$(BIN)/python tests/compositions.py

# torch_xla ends with torch 2.9: an environment of its own, of 7 GB. The tests of programs that say most in least time.
XLA_BIN := .venv-xla/bin
CORE := tests/test_tour.py tests/test_autodiff.py tests/test_vmap.py tests/test_control_flow.py tests/test_custom_derivatives.py tests/test_random_bits.py tests/test_portable.py

test-xla: .venv-xla/.test  ## TPU's way of computing, played by the CPU, and the core tests on torch 2.9
	@echo "== running programs on XLA's devices"
	PJRT_DEVICE=CPU CPU_NUM_DEVICES=4 $(XLA_BIN)/python -m pytest tests/xla tests/test_dp_sgd.py
	@echo "== running the core tests on torch 2.9's CPU"
	$(XLA_BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(CORE)

check-gpu:  ## on a machine with a GPU, with the Python that has torch for CUDA: what works on it, and how fast
	$(PYTHON) tests/check_gpu.py

FUZZ := --cases 1000000 --seed 0 --minutes 30
fuzz: $(VENV)/.test  ## compare a million values between JAX, direct, compiled and native (FUZZ="--seed 1 ...")
	$(BIN)/python tests/differential $(FUZZ)
	$(BIN)/python tests/differential/arrays.py
	$(BIN)/python tests/differential/carries.py
	$(BIN)/python tests/differential/mixtures.py

bench: $(VENV)/.test  ## time jaxish against JAX, side by side
	$(BIN)/python -m benchmarks

clean:  ## remove the virtual environment
	rm -rf $(VENV) .venv-xla

$(VENV)/bin/python:
	@echo "== making a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "== installing jaxish and what the demo needs (torch is large; the next run reuses it)"
	$(INSTALL) torch==2.13.0
	$(INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "== installing jaxish and what the tests need (torch and JAX are large; the next run reuses them)"
	$(INSTALL) torch==2.13.0
	$(INSTALL) --editable '.[test,demo,dev,ecosystem,onnx,notebooks,docs]'
	@touch $@ $(VENV)/.demo

.venv-xla/.test: pyproject.toml
	@echo "== installing torch 2.9 with torch_xla in .venv-xla (7 GB; the next run reuses it)"
	$(PYTHON) -m venv .venv-xla
	$(XLA_BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test,demo,tpu]'
	@touch $@
