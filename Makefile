# `make` lists what there is; each target sets the machine up first.
DEMO ?= demo-study
PYTHON := .venv/bin/python
BIGIRON := .venv/bin/bigiron
export PATH := $(PATH):$(HOME)/.cargo/bin
# Where it is set, pytest would compile all tests each time.
unexport PYTHONDONTWRITEBYTECODE
C_SOURCES = $(wildcard guest/*.c guest/*/*.c plugin/*.c plugin/*/*.c src/bigiron/workloads/*.c src/bigiron/workloads/*/*.c tests/agent/*.c)
C_HEADERS = $(wildcard guest/*/*.h plugin/*/*.h src/bigiron/workloads/*.h src/bigiron/workloads/*/*.h tests/*.h)

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev setup-aarch64 setup-ppc64le demo test check lint lint-python lint-types lint-rust lint-c wheel qemu-wheel as-root fresh docs book

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what is missing; afterwards the command is .venv/bin/bigiron
	@./setup.sh

setup-dev: ## the same, and the Python packages of make lint, check and docs
	@./setup.sh dev

setup-aarch64: ## the same, and what virtual machines of aarch64 need
	@./setup.sh aarch64

setup-ppc64le: ## the same, and what virtual machines of ppc64le need (bigiron case hotplug-rcu)
	@./setup.sh ppc64le

demo: setup ## compare open1 on Debian's kernels 6.1 and 6.12: the main job, in a few minutes
	$(BIGIRON) demo -o $(DEMO)

test: ## every test, the slow ones too; building a whole kernel is left out (pytest -m build)
	@./setup.sh test
	@# One more than there are cores, as some tests wait: more yet would only take the caches from each other.
	$(PYTHON) -m pytest -n $$(($$(nproc) + 1)) --maxprocesses 9 --dist loadfile --no-loadscope-reorder -m 'not build'
	cargo test --manifest-path sim/Cargo.toml

check: ## lint, and the quick tests, which need no virtual machine, no network and no root: in a minute
check: lint
	@# A process of tests for each core: threads of libraries would only take the cores from each other.
	POLARS_MAX_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) -m pytest -q -n auto --dist loadfile \
		--hypothesis-profile=few -m 'not needs_more and not slow and not build'

lint: setup-dev ## ruff, mypy, what may import what, words and spelling, clippy, and the C compiler's warnings
	@$(MAKE) --no-print-directory --jobs --output-sync=target lint-python lint-types lint-rust lint-c

lint-python:
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	.venv/bin/lint-imports --no-logo
	$(PYTHON) tools/words.py
	$(PYTHON) tools/prose.py
	git ls-files -z | xargs -0 .venv/bin/codespell
	for script in setup.sh .ci/run tools/*.sh; do bash -n $$script || exit; done

lint-types:
	$(PYTHON) -m mypy

lint-rust:
	cargo fmt --manifest-path sim/Cargo.toml --check
	cargo clippy --manifest-path sim/Cargo.toml --all-targets --features python -- --deny warnings

lint-c: build/linted-c
	clang -target bpfel -Wall -Wextra -Werror -idirafter /usr/include/$$(gcc -print-multiarch) -fsyntax-only bpf/*.bpf.c

# All of them take ten seconds: only those that have changed, or all if a header or this file has.
build/linted-c: $(C_SOURCES) $(C_HEADERS) Makefile
	gcc -Wall -Wextra -Werror -fsyntax-only -iquote guest -iquote guest/workload -iquote guest/tasks -iquote guest/probes -iquote plugin $(if $(filter-out %.c,$?),$(C_SOURCES),$?)
	@mkdir -p build && touch $@

wheel: setup ## the package for machines without a compiler, in dist/ (docs/howto/install.md)
	$(PYTHON) tools/wheel.py

qemu-wheel: as-root setup ## a QEMU for machines whose distribution has none that will do, in dist/; as root
	$(PYTHON) -B tools/qemu_wheel.py

as-root:
	@[ $$(id -u) = 0 ] || { echo "make: only root can change roots, which is how QEMU is compiled" >&2; exit 1; }

fresh: ## make demo and make test in a new Debian made of packages; RELEASE=trixie: of another release
	@tools/fresh.sh all $(RELEASE)

docs: setup-dev ## make the outputs in README and docs/ again; PAGE=docs/howto/ci.md: of one page; CHECK=1: change nothing
	$(PYTHON) tools/cli_reference.py $(if $(CHECK),--check)
	$(PYTHON) tools/docs.py $(if $(CHECK),--check) $(PAGE)

book: setup-dev ## docs/ as pages with a search, in book/
	$(PYTHON) -m mkdocs build --quiet
