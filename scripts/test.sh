#!/usr/bin/env bash
# All checks that a change has to pass; `make test` and continuous integration.
#
#   scripts/test.sh                 all steps
#   scripts/test.sh clippy tidy     only these, in this order
#
# Licences, components, Windows and the count of instructions are built and checked beside the other steps, since one
# compiler seldom has work for every processor; their output is shown when they have ended. The end-to-end cases come
# last, so that the last line is their count. Before them, a table shows how long each step took.
set -euo pipefail
cd "$(dirname "$0")/.."

# `aside` waits for those that began beside the first.
all_steps=(format clippy doc unit tidy fuzz aside cases)
steps_aside=(deny wasm windows instructions)
# All targets share this; the rounds per target bound it too. Seeds are replayed in any case.
fuzz_seconds=30
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
# A machine that builds once needs no incremental state, and no lines for a debugger.
if [ -n "${CI:-}" ]; then export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0; fi

# Other variants of a crate than the default one are checked under the same names.
features=(--features xtask/fuzz,tidegate/wasm)

step_format() { cargo fmt --all --check; }
step_clippy() { cargo clippy --quiet --workspace --all-targets "${features[@]}" -- -D warnings; }
step_doc() { RUSTDOCFLAGS=-Dwarnings cargo doc --quiet --workspace --no-deps "${features[@]}"; }
step_unit() { cargo test --quiet --workspace "${features[@]}"; }
step_tidy() { cargo xtask tidy; }
step_fuzz() { cargo xtask fuzz --seconds "$fuzz_seconds"; }

step_deny() {
    scripts/setup.sh deny
    local deny=target/tools/bin/cargo-deny
    "$deny" --log-level warn check --hide-inclusion-graph licenses bans sources
    # The advisories are in a git repository, which not every machine can reach.
    if GIT_TERMINAL_PROMPT=0 timeout 60 "$deny" --log-level error fetch db >target/advisories.log 2>&1; then
        "$deny" --log-level warn check --disable-fetch --hide-inclusion-graph advisories
    else
        echo "deny: ADVISORIES NOT CHECKED: the advisory database cannot be fetched here:"
        tail -n 3 target/advisories.log | sed 's/^/deny:   /'
    fi
}

step_wasm() { scripts/wasm.sh; }

# The same server for Windows, under Wine; all of the cases are `scripts/windows.sh`.
step_windows() { scripts/windows.sh check; }

# A build of its own, optimized, whose instructions for a request are held against those of the table.
step_instructions() {
    cargo build --quiet --profile count --package tidegate --package tidegate-bench
    target/count/tidegate-bench instructions --table crates/tidegate-bench/instructions.tsv
}

step_aside() {
    local status=0
    wait "$aside" || status=$?
    aside=
    cat target/aside.log
    return $status
}

# The harness starts the debug build of the server, so that must be the one of this tree.
step_cases() {
    cargo build --quiet --package tidegate --package tidegate-faults --package tidegate-example \
        --features tidegate/wasm
    cargo xtask docs --check target/debug/tidegate
    step_wasm
    cases --world tidegate --tidegate target/debug/tidegate-faults --quiet tests/handlers
    cases --world tidegate --tidegate target/debug/tidegate-example --quiet tests/examples
    testkit tidegate-configurations --list tests/configurations/list.tsv --mirrors tests/configurations \
        --tidegate target/debug/tidegate --quiet
    cases --coverage --brief tests/cases tests/handlers tests/examples
    cases --world both tests/cases
}
testkit() { cargo run --quiet --package tidegate-testkit --bin "$1" -- "${@:2}"; }
cases() { testkit tidegate-cases "$@"; }

steps=("$@")
if [ $# -eq 0 ]; then steps=("${all_steps[@]}"); fi
for step in "${steps[@]}"; do
    declare -F "step_$step" >/dev/null || { echo "no step $step: ${all_steps[*]} ${steps_aside[*]}" >&2; exit 2; }
done

scripts/setup.sh test
current=none aside=
at_exit() {
    local status=$?
    [ -z "$aside" ] || kill -- "-$aside" 2>/dev/null || true
    [ $status -eq 0 ] || echo "FAILED in step: $current" >&2
}
trap at_exit EXIT
if [ $# -eq 0 ]; then
    mkdir -p target
    setsid scripts/test.sh "${steps_aside[@]}" >target/aside.log 2>&1 &
    aside=$!
fi
times=()
for step in "${steps[@]}"; do
    current=$step
    began=$SECONDS
    echo "== $step"
    if [ "$step" = cases ] && [ ${#times[@]} -gt 1 ]; then printf '%8s s  %s\n' "${times[@]}"; fi
    "step_$step"
    times+=("$((SECONDS - began))" "$step")
    [ "$step" = cases ] || echo "== $step: passed in $((SECONDS - began)) s"
done
