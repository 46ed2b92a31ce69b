# Everyday commands. Each one installs its missing requirements (scripts/setup.sh) and can be run alone.

FUZZ_SECONDS ?= 60
KILLS ?= 200
ARGUMENTS ?=

.PHONY: help run release packages test faults bench book fmt lint fuzz

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

run: ## build and start Tidegate on port 8080 with a built-in configuration
	@scripts/run.sh $(ARGUMENTS)

release: ## build Tidegate for delivery (with PGO), and print its directory
	@scripts/release.sh $(ARGUMENTS)

packages: ## packages for Debian, rpm, Windows, a static archive and images, in target/packages
	@scripts/packages.sh $(ARGUMENTS)

test: ## all checks that a change has to pass
	@scripts/test.sh $(ARGUMENTS)

faults: ## the fault cases with counts, and a caching server killed KILLS=200 times
	@scripts/faults.sh $(KILLS)

book: ## the book and the reference as web pages, in target/book
	@scripts/book.sh

bench: ## CPU time per request beside genuine nginx, as a table
	@scripts/bench.sh $(ARGUMENTS)

fmt: ## format the sources
	@scripts/setup.sh run
	@cargo fmt --all

lint: ## formatting, clippy and tidy, without running tests
	@scripts/test.sh format clippy tidy

fuzz: ## coverage-guided fuzzing with a nightly compiler, FUZZ_SECONDS=60 per target
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(ARGUMENTS)
