# Two commands are all the set-up there is: `make up` runs Vigie, `make test` checks everything.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: up test lint bench soak help lock

# The first Python that is new enough and has venv; PYTHON=… chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PY := .venv/bin/python

# Only what stands on make's own command line chooses a cluster: KUBECONFIG is exported in many shells.
given = $(if $(filter command,$(firstword $(origin $(1)))),$($(1)))

PORT ?= 8000
UP_OPTIONS = --port '$(PORT)' \
	$(if $(call given,HOST),--host '$(HOST)') $(if $(call given,HOSTS),--hosts '$(HOSTS)') \
	$(if $(call given,KUBECONFIG),--kubeconfig '$(KUBECONFIG)') $(if $(call given,CONTEXT),--context '$(CONTEXT)') \
	$(if $(call given,ACTIONS),--actions '$(ACTIONS)') $(if $(call given,POLICIES),--policies '$(POLICIES)') \
	$(if $(REDIS_URL),--redis-url '$(REDIS_URL)',$(if $(filter-out 0,$(REDIS)),--redis))

up: .venv/.run  ## Run Vigie beside the rehearsal cluster [PORT= POLICIES= REDIS=1 REDIS_URL= | KUBECONFIG= CONTEXT= ACTIONS= HOST= HOSTS=]
	@exec $(PY) manage.py up $(UP_OPTIONS)

test: .venv/.test  ## Check everything: lint, types, Python, browser modules, browser [ARGS= for pytest]
	@exec $(PY) -m tests.everything $(ARGS)

lint: .venv/.test  ## Only the static checks
	@exec $(PY) -m tests.everything --static

bench: .venv/.test  ## Print measurements, as ratios within one run
	@exec $(PY) -m pytest -m bench -q -s --timeout 1200 tests

soak: .venv/.test  ## Run maintenance on the whole product while its processes are killed at random [MINUTES=5]
	@SOAK_MINUTES='$(or $(call given,MINUTES),5)' exec $(PY) -m pytest -m soak -q -s --timeout 7200 tests/soak

lock: .venv/.test  ## Compile the lock files again (needs uv on PATH)
	uv pip compile -q --universal --python-version 3.11.0 --generate-hashes --no-header --no-annotate \
		pyproject.toml -o requirements.lock
	uv pip compile -q --universal --python-version 3.11.0 --generate-hashes --no-header --no-annotate \
		-c requirements.lock --group test pyproject.toml -o requirements-test.lock

help:  ## This list
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/  make \1\t\2/p' Makefile

.venv/.run: requirements.lock
	@$(call install,requirements.lock)
	@touch $@

.venv/.test: requirements-test.lock
	@$(call install,requirements-test.lock)
	@touch .venv/.run $@

# pip compiles to bytecode as it installs, and so does the second step for our own modules: the second start is quick.
define install
test -n "$(PYTHON)" || { echo "vigie: needs Python 3.11 or newer with its venv module (Debian: python3-venv)" >&2; exit 2; }; \
test -w . || { echo "vigie: cannot write to $$(pwd)" >&2; exit 2; }; \
echo "Installing the Python packages of $(1) into .venv with $(PYTHON) …"; \
{ test -x $(PY) || $(PYTHON) -m venv .venv; } && \
$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r $(1) && \
$(PY) -m compileall -q fleet dashboard manage.py
endef
