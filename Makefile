# Shortcuts for people; `make help` lists them. The real work is in ./bufferlab, ./test and tools/.
.DEFAULT_GOAL := help
.PHONY: help setup run test lint wheel bench bench-mysql bench-storage bench-pages fmt lock

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

setup: ## install what bufferlab needs, build it, say what this host can measure
	./bufferlab doctor

run: ## the main job: how does the buffer size change this database?
	./bufferlab run buffer-size

test: ## exactly what CI runs
	./test

lint: ## style, lints, types and layers, without the tests
	./test --lint

wheel: ## a wheel for any Linux on x86-64 since glibc 2.28, and the source distribution, in dist/
	tools/build-wheel

bench: ## what loading, driving and recording cost; docs/benchmarks.md has results
	cargo bench --locked -p bufferlab-drive --bench sqlite

bench-mysql: ## the MySQL client and loader beside sysbench (needs mariadb-server-core, sysbench, socat)
	PYTHONPATH=python .venv/bin/python benches/mysql_client.py

bench-storage: ## random reads beside fio, and what a block trace costs them (needs root, fio)
	PYTHONPATH=python .venv/bin/python benches/random_read_fio.py --seconds 2
	PYTHONPATH=python .venv/bin/python benches/block_trace_cost.py

bench-pages: ## what a page trace costs SQLite, MySQL 5.7 and 8.0, and PostgreSQL 17
	PYTHONPATH=python .venv/bin/python benches/page_trace_cost.py
	PYTHONPATH=python .venv/bin/python benches/page_trace_cost.py --server mysql-5.7 mysql-8.0 postgres-17

fmt: ## put Rust and Python into the project's format
	cargo fmt --all
	.venv/bin/ruff check --fix-only --quiet
	.venv/bin/ruff format --quiet

# One resolution serves Python 3.11 and later (--universal writes the markers); uv only resolves, pip installs.
LOCK = uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--no-emit-find-links --custom-compile-command "make lock"

lock: ## write the five lock files anew (needs uv: pip install uv)
	$(LOCK) pyproject.toml --group build --upgrade -o requirements.lock
	$(LOCK) pyproject.toml --group build --group dev --upgrade -c requirements.lock -o requirements-dev.lock
	$(LOCK) --group build --group wheel --upgrade -c requirements.lock -o requirements-wheel.lock
	$(LOCK) pyproject.toml --extra pdf --upgrade -c requirements.lock -o requirements-pdf.lock
	$(LOCK) --group mutate --upgrade -o requirements-mutate.lock
