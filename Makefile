# What people and CI run. `make` alone lists the targets.

.DEFAULT_GOAL := help
.PHONY: help setup build install uninstall demo test test-agents fuzz-api bench bench-landing bench-peers bench-memory bench-strategy fuzz soak compose-test check-deploy lint fmt sqlx sqlx-check advisories measure release

# The queries are checked against the cache in .sqlx, not against whatever DATABASE_URL happens to name.
export SQLX_OFFLINE := true

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install git, a C compiler, Python, Postgres and nats-server where missing
	@scripts/setup.sh

build: ## Build every program
	@cargo build --workspace --bins

install: setup ## Install the programs, manual pages and completions below PREFIX (default ~/.local)
	@scripts/install-programs.sh

uninstall: ## Take away what `make install` installed below PREFIX
	@scripts/install-programs.sh remove

demo: setup build ## Run the example feature from submit to its merged history
	@scripts/demo.sh

# Most of what tests do is to wait for processes: twice as many at once as there are processors keep these busy.
test: export SETUP_FOR = tests
test: setup build ## Run all tests, with real servers and a real browser
	@at_once=$$(( 2 * $$(getconf _NPROCESSORS_ONLN) )); \
	if cargo nextest --version >/dev/null 2>&1; then cargo nextest run --workspace --test-threads $$at_once; \
	else RUST_TEST_THREADS=$$at_once cargo test --workspace; fi

test-agents: setup ## Run the tests with real agents, which are installed from npm and PyPI (4 GB), and a scripted model
	@scripts/test-agents.sh

bench: setup ## Measure against the targets; RUNS=5 takes turns five times (default 1)
	@cargo build --release --bins -p ralph-bench -p ralph-coordinator -p ralph-worker -p ralph-tests
	@target/release/ralph-bench all --runs $(or $(RUNS),1)

bench-landing: setup ## Measure landings with a gate of 10 s (GATE_S=…) on 8 slots and on one, against their targets
	@cargo build --release --bins -p ralph-bench -p ralph-coordinator -p ralph-worker -p ralph-tests
	@target/release/ralph-bench only landing --gate-s $(or $(GATE_S),10)

bench-peers: setup ## Measure beside other task queues, as one more system of a harness (DIR=…; RUNS, ONLY and PEERS_DIR are its own)
	@cargo build --release --bins -p ralph-bench -p ralph-coordinator
	@scripts/bench-peers.py $(or $(DIR),../shared/bench/peers)

bench-memory: setup build ## Score recall on public histories (DIR=…) against BM25 and counted tags; EMBEDDINGS="URL MODEL"
	@scripts/bench-memory.py $(or $(DIR),../shared/bench/memory) $(if $(EMBEDDINGS),--embeddings $(EMBEDDINGS))

bench-strategy: ## Compare the strategies on 10,000 simulated tasks of each population; no servers needed (SEED=1)
	@cargo run --release --quiet -p ralph-bench -- strategy --seed $(or $(SEED),1)

fuzz: ## Feed hostile texts to what reads agents; FUZZ_SECONDS=60 (needs nightly and `cargo install cargo-fuzz`)
	@cargo +nightly fuzz run sigils -- -dict=fuzz/sigils.dict -max_len=4096 -max_total_time=$(or $(FUZZ_SECONDS),60)

fuzz-api: setup build ## Fuzz the HTTP API through its own OpenAPI document; FUZZ_EXAMPLES=20, FUZZ_SEED=1
	@scripts/schemathesis.sh

soak: setup build ## Kill and halt workers 60 times while they do a feature of 30 tasks; RALPH_SOAK_ROUNDS=10, RALPH_SOAK_SEED=1
	@cargo test -p ralph-tests --test main_job -- --ignored --exact soak::long --nocapture

compose-test: setup ## Run docker-compose.yml in containers, from submit to Complete, with killed workers (Linux, root)
	@scripts/compose-test.sh

check-deploy: ## Check Compose files, Kubernetes manifests, rules and dashboards, with tools from PyPI, npm and Debian (no cluster)
	@scripts/check-deploy.sh

lint: setup ## Check format, lints, links, migrations, documentation, licences and the query cache
	scripts/measure.py --check
	scripts/migrations.sh
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings -A rustdoc::private-intra-doc-links' cargo doc --workspace --no-deps --document-private-items --quiet
	scripts/cargo-deny.sh --all-features check bans licenses sources
	scripts/sqlx.sh --check

fmt: ## Format the code
	@cargo fmt --all

sqlx: setup ## Write the query cache in .sqlx anew
	@scripts/sqlx.sh

sqlx-check: setup ## Fail if the query cache is out of date
	@scripts/sqlx.sh --check

advisories: ## Look for known vulnerabilities (fetches RustSec's list from GitHub)
	@scripts/cargo-deny.sh --all-features check advisories

measure: ## Print the figures of the code: lines, folders, circles of modules, long functions, dead links
	@scripts/measure.py

release: setup ## Build archives of the programs for this machine, with checksums and lists of components, and container images
	@scripts/release.sh
