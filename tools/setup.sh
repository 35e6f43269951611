# shellcheck shell=bash
# Finds or installs what bufferlab needs, for ./bufferlab and ./test; sourced, never run by itself.
# System packages come from the distribution, Python packages from requirements*.lock, crates from Cargo.lock.
# It never runs sudo unasked and never fetches a compiler by another way than the distribution's packages.

# Exit code 3: the environment lacks something (docs/exit-codes.md has the codes).
readonly LACKING=3

say() { printf 'bufferlab: %s\n' "$*" >&2; }

# told WHAT ABOUT COMMAND...: says what runs and about how long it takes, then how long it took.
told() {
    local started=$SECONDS outcome=0
    say "$1 (about $2)"
    shift 2
    "$@" || outcome=$?
    [ "$outcome" != 0 ] || say "done in $((SECONDS - started)) s"
    return "$outcome"
}

# with_clock COMMAND...: runs a silent command; on a terminal a clock shows that it still runs, unless the compiler
# shows its own progress there.
with_clock() {
    local clock outcome=0
    [ -t 2 ] && [ -z "$NATIVE_JOB" ] || {
        "$@"
        return
    }
    tick "$SECONDS" &
    clock=$!
    "$@" || outcome=$?
    kill "$clock" 2>/dev/null || true
    wait "$clock" 2>/dev/null || true
    printf '\r\033[K' >&2
    return "$outcome"
}

# tick SINCE: a clock on the last line, until it is killed or this shell ends. It holds no lock of the shell.
tick() {
    exec 8<&- 9<&-
    while sleep 1 && kill -0 $$ 2>/dev/null; do printf '\r  %d s ' "$((SECONDS - $1))" >&2; done
}

# lack WHAT HINT: ends with exit code 3, in the three lines of every bufferlab error.
lack() {
    printf 'error: %s\n  where: setting up %s\n  hint:  %s\n' "$1" "$ROOT" "$2" >&2
    exit "$LACKING"
}

# version_at_least HAVE WANT: dotted numbers, compared as numbers.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# --- The distribution's packages -------------------------------------------------------------------

have_apt() { command -v apt-get >/dev/null && command -v apt-cache >/dev/null; }

APT_LISTS_FRESH=no
# The lists on a machine just made are empty or name versions that are gone; once per call is enough.
refresh_apt_lists() {
    [ "$APT_LISTS_FRESH" = no ] || return 0
    APT_LISTS_FRESH=yes
    [ "$(id -u)" = 0 ] || return 0
    told "reading the distribution's package lists (apt-get update)" "5 s" \
        with_clock apt-get -qq -o DPkg::Lock::Timeout=120 update >&2 || say "apt-get update failed; going on with the lists there are"
}

# A new machine may have no lists at all; asking them about a package then proves nothing.
have_apt_lists() { [ -n "$(apt_candidate gcc)" ]; }

# apt_candidate PACKAGE: the version apt would install, upstream part only; nothing when there is none.
apt_candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p'
}

# install_packages WHY PACKAGE...: as root installs; otherwise says what to run, or asks on a terminal.
install_packages() {
    local why=$1 command
    shift
    # --no-remove: a machine's own packages are never removed to make room for ours.
    command="apt-get install -y --no-install-recommends --no-remove $*"
    have_apt || lack "$why: not found, and this system has no apt-get" \
        "install the equivalent of these Debian packages, then run the command again: $*"
    refresh_apt_lists
    if [ "$(id -u)" = 0 ]; then
        # shellcheck disable=SC2086  # the words of the command
        told "installing $why: $command" "$(about_packages $#)" with_clock quietly $command || {
            tail -n 15 "$APT_LOG" >&2
            lack "apt-get could not install $why" "see $APT_LOG, or install by hand: $command"
        }
        return
    fi
    if [ -t 0 ] && [ -t 2 ] && command -v sudo >/dev/null; then
        local answer=
        read -r -p "bufferlab: $why missing. Run 'sudo $command'? [y/N] " answer || true
        case $answer in
            y | Y | yes)
                # shellcheck disable=SC2086  # the words of the command
                sudo $command >&2 || lack "apt-get could not install $why" "install by hand: $*"
                return
                ;;
        esac
    fi
    lack "$why: not found" "sudo apt-get update && sudo $command"
}

# quietly APT-COMMAND...: what it prints goes to a log, and it asks nothing.
quietly() {
    DEBIAN_FRONTEND=noninteractive "$@" -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 </dev/null >"$APT_LOG" 2>&1
}

# about_packages COUNT: how long apt takes for them, by what was measured: 14 s for five, 40 s for a browser with Maven.
about_packages() { printf '%d s' "$((5 + 3 * $1))"; }

# --- Compiler, Python, Rust ------------------------------------------------------------------------

# What the set-up itself needs, asked for in one go: one question, one apt-get.
find_system_tools() {
    local wanted=()
    command -v cc >/dev/null || wanted+=(gcc)
    # A compiler without the C library's headers cannot build the bundled SQLite.
    [ -e /usr/include/stdio.h ] || wanted+=(libc6-dev)
    # Cargo trusts only the system's certificates.
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -n "${SSL_CERT_FILE:-}" ] || wanted+=(ca-certificates)
    find_python || wanted+=(python3 python3-venv)
    if ! find_rust; then
        choose_rust_packages
        wanted+=("${RUST_PACKAGES[@]}")
    fi
    [ "${#wanted[@]}" -gt 0 ] || return 0

    install_packages "a compiler, Python or Rust" "${wanted[@]}"
    find_python || lack "no Python >= 3.11 that can make a virtual environment" \
        "install Python 3.11 or newer with its venv module and put it on PATH"
    find_rust || lack "no Rust >= $(rust_wanted) with cargo" "$(rust_hint)"
}

# PYTHON: the first interpreter new enough that can also make a virtual environment.
find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            PYTHON=$(command -v "$candidate")
            return
        fi
    done
    return 1
}

# The lowest Rust is said once, in Cargo.toml.
rust_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml"; }

# Puts a Rust new enough on PATH: the one there is, ~/.cargo/bin, or a distribution's versioned one.
find_rust() {
    local dir
    for dir in "" "$HOME/.cargo/bin" $(printf '%s\n' /usr/lib/rust-*/bin | sort -rV); do
        if rust_works "$dir"; then
            [ -z "$dir" ] || PATH=$dir:$PATH
            return
        fi
    done
    return 1
}

# rust_works DIR: cargo and rustc in DIR (or on PATH) both run and are new enough.
rust_works() {
    local have
    have=$(PATH=${1:+$1:}$PATH cargo --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] || return 1
    version_at_least "$have" "$(rust_wanted)" || return 1
    have=$(PATH=${1:+$1:}$PATH rustc --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] || return 1
    version_at_least "$have" "$(rust_wanted)"
}

# RUST_PACKAGES: what the distribution calls a Rust new enough.
choose_rust_packages() {
    local suffix want
    want=$(rust_wanted)
    have_apt || lack "no Rust >= $want with cargo" "$(rust_hint)"
    refresh_apt_lists
    # Debian stable keeps a current Rust for its browsers (-web); Ubuntu has one package per version.
    for suffix in "" -web $(apt-cache pkgnames rustc- | sed -n 's/^rustc\(-1\.[0-9]*\)$/\1/p' | sort -rV); do
        if version_at_least "$(apt_candidate "rustc$suffix")" "$want" && [ -n "$(apt_candidate "cargo$suffix")" ]; then
            RUST_PACKAGES=("rustc$suffix" "cargo$suffix")
            return
        fi
    done
    lack "no Rust >= $want with cargo, and none among this system's packages" "$(rust_hint)"
}

rust_hint() {
    local update=
    [ "$(id -u)" = 0 ] || ! have_apt || update="run 'sudo apt-get update' and try again; else "
    printf '%sinstall Rust >= %s with cargo by your own means (rustup, say), put it on PATH, then run the command again' \
        "$update" "$(rust_wanted)"
}

# --- The virtual environment and the extension -----------------------------------------------------

# Sources of the extension, as one hash. Contents, not times: another checkout of the same tree does not rebuild.
native_stamp() {
    (cd "$ROOT" && find crates Cargo.toml Cargo.lock .cargo pyproject.toml -type f -print0 | sort -z |
        xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}

# The folder's own path and the interpreter are in the stamp: a moved folder or a new Python needs a new environment.
environment_stamp() {
    printf '%s %s %s\n' "$(sha256sum <"$ROOT/$1" | cut -d' ' -f1)" "$VENV" "$(readlink -f "$VENV/bin/python" || true)"
}

# The stamp of what build_native would make now. Only the core that users run is optimised across its crates.
built_stamp() { printf '%s%s\n' "$(native_stamp)" "${CARGO_PROFILE_RELEASE_LTO:+ lto=$CARGO_PROFILE_RELEASE_LTO}"; }

# native_is_built: the extension is of these sources; the one that users run will do for tests too.
native_is_built() {
    ls "$ROOT"/python/bufferlab/_native*.so >/dev/null 2>&1 || return 1
    is_stamped native "$(native_stamp)" || is_stamped native "$(built_stamp)"
}

is_stamped() { [ -f "$VENV/.stamp-$1" ] && [ "$(cat "$VENV/.stamp-$1")" = "$2" ]; }

# setup LOCK-FILE: afterwards $VENV/bin holds bufferlab with exactly the packages of the lock file.
setup() {
    local lock=$1 name=${1%.lock}
    VENV=$ROOT/.venv
    APT_LOG=${TMPDIR:-/tmp}/bufferlab-apt-$(id -u).log
    # Two commands started together must not build into each other; descriptor 9 is closed again below.
    exec 9<"$ROOT/pyproject.toml"
    if ! flock --nonblock 9; then
        say "waiting for another command that sets bufferlab up or builds it"
        flock 9
    fi
    if ! environment_is_made "$lock" "$name" || ! native_is_built; then
        find_system_tools
        native_is_built || begin_native "$lock"
        make_environment "$lock" "$name"
        build_native
    fi
    exec 9<&-
}

# environment_is_made LOCK NAME: the packages are there. Those of tests hold those of users, in the same versions.
environment_is_made() {
    is_stamped "$2" "$(environment_stamp "$1")" ||
        { [ "$2" = requirements ] && is_stamped requirements-dev "$(environment_stamp requirements-dev.lock)"; }
}

make_environment() {
    local lock=$1 name=$2
    if environment_is_made "$lock" "$name"; then return; fi
    make_venv
    told "installing the Python packages of $lock" "20 s" with_clock install_locked "$ROOT/$lock" ||
        lack "pip could not install the packages of $lock" "the lines above say why; a package index must be reachable"
    environment_stamp "$lock" >"$VENV/.stamp-$name"
}

# install_locked LOCK: Python compiles a module when it is first imported; to compile all takes longer than to unpack.
install_locked() {
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r "$1" >&2
}

make_venv() {
    if [ ! -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1 ||
        ! grep -qsF "$VENV" "$VENV/bin/activate"; then
        rm -rf "$VENV"
        told "making the virtual environment ${VENV#"$ROOT/"} with $("$PYTHON" --version)" "5 s" \
            with_clock "$PYTHON" -m venv "$VENV"
    fi
}

# begin_native LOCK: starts the compiler, which needs no Python package but maturin, before pip has the others.
begin_native() {
    # Without cargo, maturin would fetch a compiler by itself: stop here instead.
    command -v cargo >/dev/null || lack "no cargo on PATH" "$(rust_hint)"
    make_venv
    [ -x "$VENV/bin/maturin" ] || told "installing maturin" "3 s" install_locked <(entry_of maturin "$ROOT/$1") ||
        lack "pip could not install maturin of $1" "the lines above say why; a package index must be reachable"
    told "fetching the crates of Cargo.lock" "15 s" with_clock fetch_crates ||
        lack "cargo could not fetch the crates of Cargo.lock" "the lines above say why: no way to the crate registry, or a Cargo.lock older than a Cargo.toml"
    say "building the Rust core, whose SQLite is compiled from source (about $(about_build))"
    NATIVE_SINCE=$SECONDS
    # A group of its own, so that end_native reaches the compilers too.
    set -m
    compile &
    set +m
    NATIVE_JOB=$!
}

# end_native: ends a compiler that this shell would leave behind; scripts with a trap of their own end their jobs.
NATIVE_JOB=
end_native() { [ -z "$NATIVE_JOB" ] || kill -- "-$NATIVE_JOB" 2>/dev/null || true; }
trap end_native EXIT

# entry_of PACKAGE LOCK: the package's lines of a lock file, with its hashes.
entry_of() { sed -n "/^$1==/,/[^\\\\]\$/p" "$2"; }

# build_native: waits for the compiler, then installs what it built.
build_native() {
    local stamp
    [ -n "$NATIVE_JOB" ] || return 0
    stamp=$(built_stamp)
    wait "$NATIVE_JOB" && install_native || {
        say "the Rust core did not build; the compiler's words are above"
        exit 70
    }
    NATIVE_JOB=
    say "built the Rust core in $((SECONDS - NATIVE_SINCE)) s"
    printf '%s\n' "$stamp" >"$VENV/.stamp-native"
}

fetch_crates() (cd "$ROOT" && cargo fetch --quiet --locked --target "$(rustc -vV | sed -n 's/^host: //p')" >&2)

# Built by maturin, whose output shows the progress of some minutes.
compile() (
    cd "$ROOT"
    export PATH=$VENV/bin:$PATH VIRTUAL_ENV=$VENV PYO3_PYTHON=$VENV/bin/python
    exec maturin develop --release --locked --skip-install >&2
)

# pip finds it built, keeps to the lock file (--no-deps) and looks for maturin on PATH.
install_native() (
    cd "$ROOT"
    export PATH=$VENV/bin:$PATH VIRTUAL_ENV=$VENV PYO3_PYTHON=$VENV/bin/python
    exec python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . >&2
)

# about_build: four minutes of one core for everything, a quarter of that where the crates of others are built.
about_build() {
    local seconds=$((240 / $(nproc)))
    [ ! -d "$ROOT/target/release/deps" ] || seconds=$((seconds / 4))
    printf '%d s on an idle machine with %d cores' "$seconds" "$(nproc)"
}
