# What a contributor runs. Nothing has to be installed by hand but Python >= 3.11 and make.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
PORT ?= 8050
PYTEST_ARGS ?=
VALIDATE_ARGS ?=

BIN := $(CURDIR)/.venv/bin
RUNTIME := .venv/.runtime
DEV := .venv/.dev
# An environment that once got the development tools keeps them.
ENVIRONMENT := $(if $(wildcard $(DEV)),$(DEV),$(RUNTIME))

MARKDOWN := README.md CHANGELOG.md CONTRIBUTING.md docs

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: $(ENVIRONMENT) ## Show the recorded runs: account in the terminal, dashboard on 127.0.0.1 (PORT=8050)
	@$(BIN)/ncubble demo --port $(PORT)

# Tests start hundreds of processes. Where PYTHONDONTWRITEBYTECODE is set, each would compile its modules anew. Many wait
# for a browser or a process: with a worker more than cores, no core does.
.PHONY: test
test: $(DEV) ## Everything that CI runs; without a GPU, tests that need one are left out
	@$(MAKE) --jobs=2 --output-sync=target lint types wheel chromium
	@echo "== tests"
	@env -u PYTHONDONTWRITEBYTECODE NCUBBLE_WHEEL="$$(echo dist/*.whl)" $(BIN)/python -m pytest -q -n $$(($$(nproc) + 1)) --maxprocesses 8 $(PYTEST_ARGS)

.PHONY: lint
lint: $(DEV) ## ruff, mdformat: rules and formatting; import-linter: rooms import one way, nothing imports in circles
	@echo "== lint"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mdformat --check $(MARKDOWN)
	@$(BIN)/lint-imports --no-cache --no-logo

.PHONY: format
format: $(DEV) ## Format Python and Markdown
	@$(BIN)/ruff format .
	@$(BIN)/mdformat $(MARKDOWN)

.PHONY: types
types: $(DEV) ## mypy --strict on the package
	@echo "== types"
	@$(BIN)/python -m mypy -p ncubble

.PHONY: unit
unit: $(DEV) ## Unit tests only (PYTEST_ARGS="-k name" to choose)
	@$(BIN)/python -m pytest -q tests/unit $(PYTEST_ARGS)

.PHONY: browser
browser: $(DEV) chromium ## The dashboard in a real Chromium
	@$(BIN)/python -m pytest -q -m browser $(PYTEST_ARGS)

.PHONY: screenshots
screenshots: $(DEV) chromium ## Pictures of pages for the eye, in tests/browser/screenshots: two sizes, light and dark
	@NCUBBLE_SCREENSHOTS=1 $(BIN)/python -m pytest -q -m browser -k photographed

.PHONY: images
images: $(DEV) chromium ## Take the pictures of README anew (docs/images), from the recorded runs
	@$(BIN)/python tests/browser/make_images.py

# Material prints a notice about its successor otherwise.
.PHONY: docs
docs: $(DEV) ## Build the documentation site: build/site/index.html, no network needed
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html"

.PHONY: docs-check
docs-check: $(DEV) ## Run every command that docs show and that needs no GPU, parse the others, compare all figures
	@$(BIN)/python -m pytest -q tests/unit/repository tests/unit/benchmarks/test_claims.py $(PYTEST_ARGS)
	@$(MAKE) validate

.PHONY: docs-serve
docs-serve: $(DEV) ## Show the documentation site on 127.0.0.1:8000, following edits
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

.PHONY: validate
validate: $(DEV) ## Score verdicts against measurements (VALIDATE_ARGS="diagnosis --write docs/validation")
	@$(BIN)/python -m benchmarks.validation $(VALIDATE_ARGS)

.PHONY: gpu-test
gpu-test: $(DEV) ## Tests that need a GPU and ncu; fails where there is none
	@NCUBBLE_REQUIRE_GPU=1 $(BIN)/python -m pytest -q -m gpu $(PYTEST_ARGS)

# The wheel is made of the sdist, so what tests a wheel tests both.
.PHONY: wheel
wheel: $(DEV) ## Build dist/*.tar.gz (sdist), and dist/*.whl from it
	@echo "== wheel"
	@rm -rf build/lib build/bdist.* dist *.egg-info && mkdir -p build
	@$(BIN)/python -m build --outdir dist . >build/wheel.log 2>&1 || { tail -n 40 build/wheel.log; exit 1; }
	@ls -sh dist/*

.PHONY: smoke
smoke: wheel ## Install the wheel into a fresh environment and use it outside the repository
	@NCUBBLE_WHEEL="$$(echo dist/*.whl)" $(BIN)/python -m pytest -q tests/wheel $(PYTEST_ARGS)

.PHONY: publish
publish: smoke ## Upload sdist and wheel to PyPI, from the clean commit tagged vVERSION (twine asks for a token)
	@test -z "$$(git status --porcelain)" || { echo "publish: the working tree has changes: commit them"; exit 1; }
	@version=$$($(BIN)/python -c 'import ncubble; print(ncubble.__version__)'); \
	grep -q "^## $$version . [0-9-]*$$" CHANGELOG.md || { echo "publish: CHANGELOG.md gives $$version no date"; exit 1; }; \
	test "$$(git describe --tags --exact-match)" = "v$$version" || { echo "publish: git tag v$$version first"; exit 1; }
	@$(BIN)/python -m pip install --quiet 'twine>=6'
	@$(BIN)/python -m twine check --strict dist/*
	@$(BIN)/python -m twine upload dist/*

.PHONY: chromium
chromium:
	@.ci/chromium

.PHONY: clean
clean: ## Remove what was built, and the environment
	@rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/bin/pip:
	@.ci/python $(PYTHON)
	@$(PYTHON) -m venv .venv

$(RUNTIME): pyproject.toml | .venv/bin/pip
	@echo "== environment in .venv (a minute or two the first time)"
	@$(BIN)/python -m pip install -e .
	@touch $@

$(DEV): pyproject.toml | .venv/bin/pip
	@echo "== environment in .venv with the extras dev and gpu (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet -e '.[dev,gpu]'
	@touch $@
