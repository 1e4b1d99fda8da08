# Each target is a line that a person could type. `make help` lists them.
.DEFAULT_GOAL := help
# Where rustup puts cargo, for a shell that has not been told yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
.PHONY: help demo demo-model test conformance bench bench-context chaos restarts loop dev ci golden gen fuzz prepare

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' Makefile | column -t -s '|'

demo: prepare ## builds, then shows real runs becoming memories; ends by itself
	cargo build --release --locked --package retro && cargo xtask demo

demo-model: prepare ## real runs investigated by a language model from recorded answers, without a key or a network
	cargo build --release --locked --package retro && cargo xtask demo-model

test: ## every test, on both databases
	@bash .ci/prepare tests
	@bash .ci/xtask test

conformance: prepare ## what /mcp answers, by the official suite of the Model Context Protocol; needs npm
	cargo build --locked --package retro && bash .ci/conformance

bench: ## intake beside a hand-written loop, HTTP beside the broker, lag, many due retrospectives, growth, purging
	@bash .ci/prepare tests
	cargo build --release --locked --package retro --package retro-bench
	target/release/retro-bench all

bench-context: ## what agents are told and how fast, with a million memories, beside a constant answer
	@bash .ci/prepare tests
	cargo build --release --locked --package retro --package retro-bench
	target/release/retro-bench context

SEEDS ?= 1..4
chaos: ## mixes faults at random, on both databases, by seed: `make chaos SEEDS=1..20` or `SEEDS=3,7`
	@bash .ci/prepare tests
	CHAOS_SEEDS="$(SEEDS)" cargo test --workspace --test stories -- --nocapture chaos::

RESTARTS ?= 20
restarts: ## restarts Postgres and stops processes again and again, and nobody may be told of a loss: `make restarts RESTARTS=200`
	@bash .ci/prepare tests
	RESTARTS="$(RESTARTS)" cargo test --workspace --test stories -- --nocapture looks::

loop: prepare ## plays made-up worlds whose truth is known, and says how true and how useful the memories are
	cargo build --release --locked --package retro --package retro-eval && target/release/retro-loop --world crates/tools/retro-eval/worlds/deploy

dev: prepare ## builds and runs `retro up` on a folder of its own (.dev) until Ctrl-C
	cargo run --locked --package retro -- up --data-dir .dev

ci: ## what CI runs
	bash .ci/run

golden: ## records the state of a killed program, for later versions to continue from: `make golden NAME=0002-rules`
	@bash .ci/prepare tests
	GOLDEN_RECORD="$(NAME)" cargo test --package retro --test stories -- golden::the_current_versions

gen: ## writes what is generated from the types
	cargo xtask gen

fuzz: prepare ## looks for input that breaks the laws of reading, a minute each for events and bodies
	bash .ci/fuzz 60

prepare: # what the machine lacks: a C compiler, the broker
	@bash .ci/prepare
