# Everyday commands. Each one installs what it misses (scripts/setup.sh) and can be run alone.

FUZZ_SECONDS ?= 60
KILLS ?= 200
ARGUMENTS ?=

.PHONY: help run release test faults bench fmt lint fuzz

help: ## this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

run: ## build and start Tidegate on port 8080 with a built-in configuration
	@scripts/run.sh $(ARGUMENTS)

release: ## build Tidegate as it is meant to be delivered, and print where it is
	@scripts/release.sh $(ARGUMENTS)

test: ## every check that decides whether a change may go in
	@scripts/test.sh $(ARGUMENTS)

faults: ## the list of faults with counts, and a caching server killed KILLS=200 times
	@scripts/faults.sh $(KILLS)

bench: ## the table of CPU per request beside genuine nginx
	@scripts/bench.sh $(ARGUMENTS)

fmt: ## format the sources
	@scripts/setup.sh run
	@cargo fmt --all

lint: ## formatting, clippy and tidy, without running tests
	@scripts/test.sh format clippy tidy

fuzz: ## coverage-guided fuzzing where a nightly compiler is, FUZZ_SECONDS=60 per target
	@scripts/fuzz.sh $(FUZZ_SECONDS) $(ARGUMENTS)
