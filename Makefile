# Two commands matter: `make demo` and `make test`. Each does all the set-up it needs.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
READY := .venv/.ready-for-the-demo

.PHONY: test static torture mutants test-compose test-alerts test-units sbom pythons check demo docs install format lint types types-of-sources types-of-tests types-of-modules layers lock images pictures vectors bench clean

# tests/harness/turns.py says who runs what, and when: what takes longest first.
# One more than there are processors: browsers and servers that are waited for leave them idle.
WORKERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')
PYTEST = $(BIN)/python -m pytest -n $(WORKERS)

# Compiled modules are kept, whatever the shell says: tests start hundreds of processes, and pytest rewrites each test.
unexport PYTHONDONTWRITEBYTECODE

# What needs no test runs beside the tests, and is told when they are done: they wait for servers and browsers at times.
STATIC := build/static.log
test: install
	@mkdir -p build
	@$(MAKE) --no-print-directory --jobs=2 --keep-going --output-sync=target static >$(STATIC) 2>&1 & static=$$!; \
	trap 'kill $$static 2>/dev/null' INT TERM; \
	$(PYTEST); tests=$$?; \
	wait $$static; others=$$?; cat $(STATIC); \
	[ $$tests = 0 ] || echo "make test: the tests failed (above)"; \
	[ $$others = 0 ] || echo "make test: what is checked beside them failed (above)"; \
	exit $$((tests | others))

static: lint layers types-of-sources types-of-tests types-of-modules

# What takes too long for each day: many more lives, kills and requests.
torture: install
	ASKANCE_TORTURE=1 $(PYTEST) -rP --figures docs/security/torture.json \
		tests/server/ledger/test_ledger_machine.py tests/server/ledger/test_crashes.py tests/server/ledger/test_faults.py \
		tests/server/ledger/test_full_disk.py tests/server/ledger/test_room_kills.py \
		tests/server/ledger/test_power.py tests/server/ledger/test_races.py tests/server/ledger/test_races_embedded.py \
		tests/server/ledger/test_upgrade_postgres.py tests/server/test_short_memory.py \
		tests/server/test_description.py tests/server/test_rest_machine.py tests/server/test_live_spectator.py tests/server/core/test_liars.py \
		tests/server/core/test_forged_exports.py \
		tests/client/test_client_kills.py tests/client/test_wallet_damage.py tests/client/test_wallet_upgrade.py \
		tests/protocol/test_steps.py tests/protocol/test_query_trees.py tests/e2e/test_random_studies.py tests/e2e/test_canaries.py

# Would the tests notice? A sample of small changes of the sources, each of which a test has to fail on.
mutants: install
	$(BIN)/python -m tests.mutation $(MUTANTS)

# Both images built and every profile brought up in real containers: a Docker engine, or root on Debian.
test-compose: install
	$(BIN)/python -m tests.e2e.compose.real $(COMPOSE)

# The rules of docs/operate/alerts.yml in Prometheus itself: what is installed, or Debian's package, unpacked for this.
test-alerts: install
	$(BIN)/python -m tests.e2e.alerts.real $(ALERTS)

# What docs/operate.md says to type under systemd, done there: root on Debian, with podman.
test-units: install
	$(BIN)/python -m tests.e2e.units.real $(UNITS)

# What both images install, with licences and hashes, as this environment has it: build/sbom.
sbom: install
	mkdir -p build/sbom
	$(BIN)/python deploy/sbom.py server/requirements.txt --name askance-server >build/sbom/server.cdx.json
	$(BIN)/python deploy/sbom.py client/requirements.txt --name askance-client >build/sbom/client.cdx.json

# The tests that finish soon, in each Python from 3.11 to 3.14 that this machine has; PYTHONS="/path/to/python …" names more.
pythons: install
	$(BIN)/python -m tests.pythons $(TESTS)

# The fast subset: everything static, and the tests that finish in moments.
check: lint types layers
	$(PYTEST) -q -m "not slow"

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "askance needs Python 3.11 or later: make PYTHON=/path/to/python3.11")'
	@echo "Installing into .venv all that the tests need, once: it takes minutes." >&2
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r constraints.txt >&2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@ $(READY)

# A part of the lock: the base installation, and what puts this tree into it. Words go to standard error, because what the
# demo prints may be read by a program.
$(READY): pyproject.toml demo-requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "askance needs Python 3.11 or later: make PYTHON=/path/to/python3.11")'
	@echo "Installing into .venv what the demo needs, once; make test installs the rest when it is wanted." >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r demo-requirements.txt >&2
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . >&2
	@echo "Installed. The demo begins." >&2
	@touch $@

format: install
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

lint: install
	$(BIN)/ruff format --check
	$(BIN)/ruff check

# Sources strictly, tests in standard mode, JavaScript by its comments.
types: types-of-sources types-of-tests types-of-modules

types-of-sources: install
	$(BIN)/basedpyright

types-of-tests: install
	$(BIN)/basedpyright -p tests/pyrightconfig.json

types-of-modules: install
	$(BIN)/python -m tests.harness.typescript

layers: install
	$(BIN)/lint-imports --no-cache

# The header is left out because it would name the resolver's options of one machine.
# `dev` has all extras but `notebooks`, which brings Jupyter.
lock: install
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --extra dev \
		--generate-hashes --no-emit-index-url --no-header --upgrade pyproject.toml --output-file constraints.txt
	$(MAKE) --no-print-directory images

# What the demo and each image install: parts of the lock, because pip takes hashes from requirements only.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-header --no-annotate --constraints constraints.txt
images: install
	$(COMPILE) --group pyproject.toml:device --output-file client/requirements.txt
	$(COMPILE) --extra postgres pyproject.toml --output-file server/requirements.txt
	echo hatchling | $(COMPILE) - --output-file build-requirements.txt
	printf 'editables\nhatchling\n' | $(COMPILE) pyproject.toml - --output-file demo-requirements.txt

demo: $(READY)
	@$(BIN)/askance demo $(DEMO)

# The site of docs/, in build/site. A warning fails, but not with --quiet. The variable silences an advertisement.
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "The site is in build/site: open index.html there."

# The pictures of the documents that are drawn.
pictures: install
	$(BIN)/python -m website.pictures

vectors: install
	$(BIN)/python -m tests.vectors.generate

# Speed and growth, within twenty minutes: docs/performance.md and the file that it is made from.
bench: install
	$(BIN)/python benchmarks/bench.py $(BENCH)

clean:
	rm -rf .venv build dist .hypothesis .pytest_cache .ruff_cache
