# shellcheck shell=bash
# Runs the steps of ./test one after the other, keeps going when one fails, and prints one summary.
# Also finds the tools that only tests need. Sourced after tools/setup.sh.

LOG=$(mktemp)
UNTESTED=$(mktemp)
BESIDE_LOGS=$(mktemp -d)
trap 'end_jobs; rm -rf "$LOG" "$UNTESTED" "$BESIDE_LOGS"' EXIT
SUMMARY=()
FAILED_STEPS=0
TESTS_PASSED=0
TESTS_FAILED=0
TESTS_SKIPPED=0

# step NAME COMMAND...: runs the command and notes how it ended and how long it took.
step() {
    local name=$1 started=$SECONDS outcome=ok
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" || outcome=FAILED
    [ "$outcome" = ok ] || FAILED_STEPS=$((FAILED_STEPS + 1))
    note "$name" "$outcome" "$((SECONDS - started)) s"
}

# begin NAME COMMAND...: starts a step in parallel with those that follow, as a process group. `ended` prints its output
# and result.
declare -A BESIDE
begin() {
    local name=$1
    shift
    set -m
    "$@" >"$BESIDE_LOGS/$name" 2>&1 &
    set +m
    BESIDE[$name]="$! $*"
}

end_jobs() {
    local job
    for job in $(jobs -p); do kill -- "-$job" 2>/dev/null || true; done
}

# ended NAME: waits for a step that `begin` started. The seconds in the summary are those of this wait.
ended() {
    local name=$1
    step "$name" wait_for "$name"
}

wait_for() {
    local outcome=0
    printf '%s\n' "${BESIDE[$1]#* }"
    wait "${BESIDE[$1]%% *}" || outcome=$?
    cat "$BESIDE_LOGS/$1"
    return $outcome
}

# tests NAME COMMAND...: runs a step whose output says how many tests ran, and counts them.
tests() {
    local name=$1
    shift
    step "$name" with_log "$@"
    count_tests "$name"
}

# ended_tests NAME: does the same as `ended`, for a step whose output says how many tests ran, and counts them.
ended_tests() {
    ended "$1"
    cp "$BESIDE_LOGS/$1" "$LOG"
    count_tests "$1"
}

# count_tests NAME: adds the log's numbers of tests to the totals. A step that ran no test fails.
count_tests() {
    local name=$1
    # cargo prints the numbers once per test program, pytest once.
    local passed failed skipped unable
    # A Rust test that cannot run here prints "skipped: REASON", and cargo counts it as passed.
    unable=$(unable_in_log | wc -l)
    passed=$(($(count_in_log passed) - unable))
    failed=$(count_in_log failed)
    skipped=$(($(count_in_log skipped) + $(count_in_log ignored) + unable))
    TESTS_PASSED=$((TESTS_PASSED + passed))
    TESTS_FAILED=$((TESTS_FAILED + failed + $(count_in_log errors) + $(count_in_log error)))
    TESTS_SKIPPED=$((TESTS_SKIPPED + skipped))
    reasons_in_log >>"$UNTESTED"
    if [ $((passed + failed)) = 0 ] && [ "${#KEPT[@]}" = 0 ]; then
        FAILED_STEPS=$((FAILED_STEPS + 1))
        note "$name" FAILED "ran no test"
    fi
}

with_log() { "$@" 2>&1 | tee "$LOG"; }

# count_in_log WORD: prints the sum of the numbers before WORD in the last lines of cargo test or pytest.
count_in_log() {
    sed 's/\x1b\[[0-9;]*m//g' "$LOG" | grep -E '^test result: |^=+ .* in [0-9.]+s' |
        grep -oE "[0-9]+ $1\b" | awk '{ sum += $1 } END { print sum + 0 }' || true
}

# reasons_in_log: prints a line "NUMBER REASON" for each reason of skipped tests, from pytest -ra and from the Rust
# tests.
reasons_in_log() {
    # If outcomes are stored, told_of_parts prints pytest's reasons.
    [ "${#KEPT[@]}" -gt 0 ] ||
        sed 's/\x1b\[[0-9;]*m//g' "$LOG" | sed -nE 's/^SKIPPED \[([0-9]+)\] [^:]+(:[0-9]+)?: /\1 /p'
    unable_in_log | sed 's/^/1 /'
}

# unable_in_log: prints the first reason of each Rust test that printed "skipped: REASON".
unable_in_log() {
    awk '/^---- .* stdout ----$/ { said = 0 } sub(/^skipped: /, "") && !said++' "$LOG"
}

# RUST_TESTS: the command of the Rust tests. It uses the dependencies that were built for the extension. In our crates,
# debug assertions and checks of integer overflow are on.
RUST_TESTS=(cargo test --release --quiet --locked --workspace)
for crate in "$ROOT"/crates/*/ "$ROOT"/tools/probe-programs/; do
    crate=$(basename "$crate") level=1
    # These two are not optimised: that is half of the compiler's work, and their tests wait for disks, sockets and
    # processes.
    case $crate in bufferlab-drive | bufferlab-probe) level=0 ;; esac
    crate=profile.release.package.$crate
    RUST_TESTS+=(--config "$crate.debug-assertions=true" --config "$crate.overflow-checks=true" --config "$crate.opt-level=$level")
done

# rust_tests: builds all Rust tests at idle priority, then runs those that may run in parallel with other steps.
rust_tests() {
    (chrt --idle --pid 0 "$BASHPID" || true; exec "${RUST_TESTS[@]}" --no-run) &&
        run_rust_tests -- --skip alone::
}

# rust_tests_alone: runs the tests in modules named `alone`, which must not run in parallel with other steps.
rust_tests_alone() { run_rust_tests --tests -- alone::; }

# run_rust_tests OPTION... -- FILTER...: runs Rust tests and prints their output, without the list of those that passed
# and without test programs that have no test.
run_rust_tests() {
    "${RUST_TESTS[@]}" --no-fail-fast "$@" --show-output |
        awk '/^successes:$/ { listed = 1 } /^(failures:|test result:|---- )/ { listed = 0 }
            /^running / { empty = $2 == 0 }
            !empty && !(listed && /^(    .*|successes:)?$/)'
}

note() { SUMMARY+=("$(printf '%-14s %-8s %s' "$1" "$2" "$3")"); }

# Print the summary. CI reads its last line.
print_summary() {
    printf '\n== summary\n'
    printf '%s\n' "${SUMMARY[@]}"
    [ "${#KEPT[@]}" = 0 ] || told_of_parts || FAILED_STEPS=$((FAILED_STEPS + 1))
    if [ -s "$UNTESTED" ]; then
        printf 'could not be tested here:\n'
        awk '{ n = $1; sub(/^[0-9]+ (NOT TESTED: )?/, ""); tests[$0] += n }
            END { for (reason in tests) printf "%6d  %s\n", tests[reason], reason }' "$UNTESTED" | sort -k2
    fi
    if [ $((TESTS_PASSED + TESTS_FAILED)) -gt 0 ]; then
        printf '%d passed, %d failed, %d skipped\n' "$TESTS_PASSED" "$TESTS_FAILED" "$TESTS_SKIPPED"
    fi
    [ "$FAILED_STEPS" = 0 ]
}

# --- Parts of ./test --all -------------------------------------------------------------------------

# KEPT: pytest's options to run a part of the tests and store the outcomes (tests/support/parts.py); () without --all.
KEPT=()

is_part() { [[ $1 =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]] && [ "${1%/*}" -le "${1#*/}" ]; }

keep_outcomes() { KEPT=("--outcomes=$ROOT/target/test-parts/$(tree_state)" "--part=$1"); }

# tree_state: prints a hash of the present contents of all files that git has or would add.
tree_state() {
    git ls-files -z --cached --others --exclude-standard | sort -zu |
        xargs -0 sh -c 'for file; do [ ! -f "$file" ] || sha256sum "$file"; done' sh | sha256sum | cut -c 1-12
}

# told_of_parts: prints the stored outcomes of all tests for this state of the tree.
told_of_parts() { PYTHONPATH=$ROOT/tests python -m support.parts "${KEPT[0]#*=}" "${KEPT[1]}"; }

# --- Tools that only tests need --------------------------------------------------------------------

# Find rustfmt and clippy, which must have the compiler's version.
find_rust_tools() {
    local version wanted=()
    find_rust || lack "no Rust >= $(rust_wanted) with cargo" "$(rust_hint)"
    # rustup has its own versions, and a distribution's tools do not work with its compiler.
    ! command -v rustup >/dev/null && have_apt || return 0
    have_apt_lists || refresh_apt_lists
    version=$(rustc --version | cut -d' ' -f2 | cut -d. -f1,2)
    cargo fmt --version >/dev/null 2>&1 || wanted+=("$(same_version "$version" rustfmt rustfmt-web "rustfmt-$version")")
    cargo clippy --version >/dev/null 2>&1 ||
        wanted+=("$(same_version "$version" rust-clippy rust-clippy-web "rust-$version-clippy")")
    # shellcheck disable=SC2068  # an empty word is a tool that no package holds
    set -- ${wanted[@]:-}
    [ $# = 0 ] || install_packages "rustfmt or clippy" "$@"
}

# same_version VERSION PACKAGE...: prints the first package that apt offers in that version; nothing if there is none.
same_version() {
    local version=$1 package
    shift
    for package in "$@"; do
        case $(apt_candidate "$package") in
            "$version".*) printf '%s\n' "$package" && return ;;
        esac
    done
}

# has_rust_tool fmt|clippy: whether the tool can run. If not, the summary says why its step did not run.
has_rust_tool() {
    if cargo "$1" --version >/dev/null 2>&1; then return; fi
    if command -v rustup >/dev/null; then
        note "cargo $1" FAILED "missing: run 'rustup component add ${1/fmt/rustfmt}'"
        FAILED_STEPS=$((FAILED_STEPS + 1))
    else
        note "cargo $1" "not run" "$1 not available for this toolchain: lint step not run"
    fi
    return 1
}

# Find the programs that tests use: a browser for the HTML report, loop devices for full and read-only disks, make for
# the Makefile, sysstat to compare the samplers with, and Maven to download database servers. Only slow tests need
# poppler, which reads PDFs, and pgbouncer.
find_test_tools() {
    local wanted=()
    command -v chromium >/dev/null && command -v chromedriver >/dev/null || wanted+=(chromium chromium-driver)
    command -v mkfs.ext4 >/dev/null || [ -x /sbin/mkfs.ext4 ] || wanted+=(e2fsprogs)
    command -v losetup >/dev/null || [ -x /sbin/losetup ] || wanted+=(util-linux)
    command -v mount >/dev/null || wanted+=(mount)
    command -v make >/dev/null || wanted+=(make)
    command -v iostat >/dev/null || wanted+=(sysstat)
    command -v mvn >/dev/null || wanted+=(maven)
    if [ -z "$slow" ]; then
        command -v pdftotext >/dev/null || wanted+=(poppler-utils)
        command -v pgbouncer >/dev/null || wanted+=(pgbouncer)
    fi
    [ "${#wanted[@]}" = 0 ] || install_packages "what the tests need" "${wanted[@]}"
}
