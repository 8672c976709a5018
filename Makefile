# Every target works on a fresh clone: the virtual environment is made on first use and reused after that.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
# Where pytest may not keep the test modules that it has rewritten, every worker rewrites all of them in every run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo learn-demo features-demo test test-long test-all seconds tables check bench docs notebooks lint types imports wheel platform-wheel dist clean

demo: $(STAMP)
	$(BIN)/pellucid demo --output demo-report

# Two minutes of training, then the table and pictures of matches: on DIR in HPatches layout, or else on photographs held out and warped.
HELD_OUT := chelsea,coffee,rocket
features-demo: $(STAMP)
	$(BIN)/pellucid train-descriptor features-demo/run --minutes 2 --exclude $(HELD_OUT)
	$(BIN)/pellucid eval-descriptor $(if $(DIR),$(DIR),--photographs $(HELD_OUT)) --weights features-demo/run \
		--pictures features-demo --json features-demo/table.json --markdown features-demo/table.md

# Every contract, oracle and law; CONTRIBUTING.md has the table of what each set guards. A file stays with one process: two would compile
# the same kernels at the same time.
test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The other cases of the same tests (tests/sampled.py); CI runs both.
test-long: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "long and not slow and not gpu"

# All of it, and what is slow: training, processes, compilers, studies, benchmarks, whole corpora.
test-all: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not gpu"

# What each test function costs: from this, tests/sampled.py decides how many cases the default run takes. Without a cache, so that the
# compiler's time is seen.
seconds: $(STAMP)
	rm -rf build/seconds
	NUMBA_CACHE_DIR=$(CURDIR)/build/seconds $(BIN)/python -m pytest -n 2 --dist loadfile -p tests.measured -m "not slow and not gpu"

# The page that is generated from the transforms' declarations and the rows of tests/cases.py.
tables: $(STAMP)
	$(BIN)/python -m tests.gradient_table
	$(BIN)/python -m pellucid_bench.coverage

# The documentation site, in site/: built without a network, warnings are errors, every link is followed.
docs: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --clean
	$(BIN)/python -m pellucid_bench.site.check site

# examples/notebooks: pages of the guide, run from top to bottom.
notebooks: $(STAMP)
	$(BIN)/python -m pellucid_bench.site.notebooks

check: test test-long lint types imports wheel

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

# Build the wheel, install it into a clean environment and import it there.
wheel: $(STAMP)
	rm -rf build/wheel build/venv && mkdir -p build/wheel
	$(BIN)/python -m build --wheel --outdir build/wheel . > build/wheel.log
	$(PYTHON) -m venv build/venv
	build/venv/bin/pip install --quiet --disable-pip-version-check -c constraints.txt build/wheel/*.whl
	build/venv/bin/python -c "import pellucid; print('wheel ok:', pellucid.__version__)"
	build/venv/bin/pellucid --help > /dev/null

# A wheel for this Python and Linux on this architecture, with machine code for each LEVEL, so that nobody waits for a compiler.
LEVELS ?= x86-64-v3 x86-64-v4
platform-wheel: $(STAMP)
	rm -rf build/kernels && mkdir -p build/kernels
	for level in $(LEVELS); do $(BIN)/pellucid warmup --export build/kernels --processor $$level || exit 1; done
	PELLUCID_KERNELS=$(CURDIR)/build/kernels $(BIN)/python -m build --wheel --outdir build/platform-wheel . > build/wheel.log

# What is released: sdist and wheel, their metadata and contents checked; a bill of materials and the hashes of all of it, signed where
# SIGN names a key of gpg. The time of the last commit stands for the time of building, so that two builds have equal bytes.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct 2>/dev/null || echo 1577836800)
dist: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt twine
	mkdir -p build && rm -rf dist && $(BIN)/python -m build --outdir dist . > build/dist.log
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python -m pellucid_bench.contents dist
	$(BIN)/python -m pellucid_bench.sbom dist
	test -z "$(SIGN)" || gpg --local-user "$(SIGN)" --armor --detach-sign dist/SHA256SUMS

# The peers are extras of the benchmark alone.
bench: $(STAMP)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]' -e benchmarks
	$(BIN)/pellucid bench overhead

# Learned ranges on scikit-learn's digits, and on a rotation whose right width is known.
learn-demo: $(STAMP)
	$(BIN)/pellucid learn demo --output learn-demo

$(STAMP): pyproject.toml benchmarks/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	# Benchmarks and studies: commands of a checkout, no part of the wheel. Their peers come with `make bench` alone.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e benchmarks
	# An oracle for colours and tensor classes; without it those tests are skipped. Its wheel pins a build of torch, hence --no-deps.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps torchvision==0.28.0 || true
	touch $@

clean:
	rm -rf $(VENV) build dist demo-report learn-demo features-demo site
