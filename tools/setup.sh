# shellcheck shell=bash
# Finds or installs what bufferlab needs, for ./bufferlab and ./test; sourced, never run by itself.
# System packages come from the distribution, Python packages from requirements*.lock, crates from Cargo.lock.
# It runs sudo only after asking, and gets compilers only from the distribution's packages.

# Exit code 3: the environment lacks something (docs/exit-codes.md has the codes).
readonly LACKING=3

say() { printf 'bufferlab: %s\n' "$*" >&2; }

# told WHAT ABOUT COMMAND...: prints what the command does and about how long it takes, runs it, and prints how long it
# took.
told() {
    local started=$SECONDS outcome=0
    say "$1 (about $2)"
    shift 2
    "$@" || outcome=$?
    [ "$outcome" != 0 ] || say "done in $((SECONDS - started)) s"
    return "$outcome"
}

# with_clock COMMAND...: runs a command that prints nothing. On a terminal, a count of seconds shows that it still runs,
# unless the compiler shows its progress there.
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

# tick SINCE: shows the seconds since SINCE on the last line, until it is killed or this shell ends. Closes the shell's
# lock files.
tick() {
    exec 8<&- 9<&-
    while sleep 1 && kill -0 $$ 2>/dev/null; do printf '\r  %d s ' "$((SECONDS - $1))" >&2; done
}

# lack WHAT HINT: prints the three lines that every bufferlab error has, and ends with exit code 3.
lack() {
    printf 'error: %s\n  where: setting up %s\n  hint:  %s\n' "$1" "$ROOT" "$2" >&2
    exit "$LACKING"
}

# version_at_least HAVE WANT: whether version HAVE is at least WANT. The parts between dots are compared as numbers.
version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# --- The distribution's packages -------------------------------------------------------------------

have_apt() { command -v apt-get >/dev/null && command -v apt-cache >/dev/null; }

APT_LISTS_FRESH=no
# Update apt's package lists, once per call of the script. On a new machine they are empty or name versions that no
# longer exist.
refresh_apt_lists() {
    [ "$APT_LISTS_FRESH" = no ] || return 0
    APT_LISTS_FRESH=yes
    [ "$(id -u)" = 0 ] || return 0
    told "reading the distribution's package lists (apt-get update)" "5 s" \
        with_clock apt-get -qq -o DPkg::Lock::Timeout=120 update >&2 || say "apt-get update failed; going on with the lists there are"
}

# Whether apt has package lists. A new machine may have none; then a package that is not found may still exist.
have_apt_lists() { [ -n "$(apt_candidate gcc)" ]; }

# apt_candidate PACKAGE: prints the upstream part of the version that apt would install; nothing if there is none.
apt_candidate() {
    apt-cache policy "$1" 2>/dev/null | sed -n 's/^  Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p'
}

# install_packages WHY PACKAGE...: installs packages as root. Other users are asked on a terminal; else it prints what
# to run.
install_packages() {
    local why=$1 command
    shift
    # --no-remove: apt must not remove other packages to install ours.
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

# quietly APT-COMMAND...: runs apt without questions; its output goes to a log.
quietly() {
    DEBIAN_FRONTEND=noninteractive "$@" -qq -o DPkg::Lock::Timeout=120 -o Dpkg::Use-Pty=0 </dev/null >"$APT_LOG" 2>&1
}

# about_packages COUNT: prints about how long apt takes to install that many packages. Measured: 14 s for five, 40 s for
# a browser with Maven.
about_packages() { printf '%d s' "$((5 + 3 * $1))"; }

# --- Compiler, Python, Rust ------------------------------------------------------------------------

# Find what the set-up itself needs. One apt-get, with one question, installs all that is missing.
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

# Set PYTHON to the first interpreter that is new enough and can make a virtual environment.
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

# Print the lowest supported version of Rust. Only Cargo.toml states it.
rust_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml"; }

# Put a Rust that is new enough on PATH: that of PATH, of ~/.cargo/bin, or of a distribution's package of one version.
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

# rust_works DIR: whether cargo and rustc in DIR (or on PATH) both run and are new enough.
rust_works() {
    local have
    have=$(PATH=${1:+$1:}$PATH cargo --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] || return 1
    version_at_least "$have" "$(rust_wanted)" || return 1
    have=$(PATH=${1:+$1:}$PATH rustc --version 2>/dev/null | cut -d' ' -f2) && [ -n "$have" ] || return 1
    version_at_least "$have" "$(rust_wanted)"
}

# Set RUST_PACKAGES to the distribution's packages of a Rust that is new enough.
choose_rust_packages() {
    local suffix want
    want=$(rust_wanted)
    have_apt || lack "no Rust >= $want with cargo" "$(rust_hint)"
    refresh_apt_lists
    # Debian stable has a recent Rust to build its browsers (-web); Ubuntu has one package per version.
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

# Print a hash of the extension's sources. It is of their contents, not times, so a new checkout of the same tree does
# not rebuild.
native_stamp() {
    (cd "$ROOT" && find crates Cargo.toml Cargo.lock .cargo pyproject.toml -type f -print0 | sort -z |
        xargs -0 sha256sum | sha256sum | cut -d' ' -f1)
}

# Print a text that identifies the environment. It has the folder's path and the interpreter, because an environment
# works neither in a moved folder nor with a new Python.
environment_stamp() {
    printf '%s %s %s\n' "$(sha256sum <"$ROOT/$1" | cut -d' ' -f1)" "$VENV" "$(readlink -f "$VENV/bin/python" || true)"
}

# Print the stamp of what build_native would build now. Only the core that users run is optimised across crates (LTO).
built_stamp() { printf '%s%s\n' "$(native_stamp)" "${CARGO_PROFILE_RELEASE_LTO:+ lto=$CARGO_PROFILE_RELEASE_LTO}"; }

# native_is_built: whether the extension was built from these sources. Tests accept the extension that users run, too.
native_is_built() {
    ls "$ROOT"/python/bufferlab/_native*.so >/dev/null 2>&1 || return 1
    is_stamped native "$(native_stamp)" || is_stamped native "$(built_stamp)"
}

is_stamped() { [ -f "$VENV/.stamp-$1" ] && [ "$(cat "$VENV/.stamp-$1")" = "$2" ]; }

# setup LOCK-FILE: makes $VENV with bufferlab and exactly the packages of the lock file.
setup() {
    local lock=$1 name=${1%.lock}
    VENV=$ROOT/.venv
    APT_LOG=${TMPDIR:-/tmp}/bufferlab-apt-$(id -u).log
    # The lock on descriptor 9 keeps two commands from building at once. It is closed below.
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

# environment_is_made LOCK NAME: whether the packages are installed. Those for tests include those for users, in the
# same versions.
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

# begin_native LOCK: starts the compiler before pip installs the Python packages, of which it needs only maturin.
begin_native() {
    # Stop without cargo: maturin would otherwise download a compiler.
    command -v cargo >/dev/null || lack "no cargo on PATH" "$(rust_hint)"
    make_venv
    told "installing maturin" "3 s" install_locked <(entry_of maturin "$ROOT/$1") ||
        lack "pip could not install maturin of $1" "the lines above say why; a package index must be reachable"
    told "fetching the crates of Cargo.lock" "15 s" with_clock fetch_crates ||
        lack "cargo could not fetch the crates of Cargo.lock" "the lines above say why: no way to the crate registry, or a Cargo.lock older than a Cargo.toml"
    say "building the Rust core, whose SQLite is compiled from source (about $(about_build))"
    # Of the sources that it compiles: they may change meanwhile.
    NATIVE_STAMP=$(built_stamp) NATIVE_SINCE=$SECONDS
    # maturin gets its own process group, so that end_native also ends the compilers that it starts.
    set -m
    compile &
    set +m
    NATIVE_JOB=$!
}

# end_native: ends the compiler when this shell ends. Scripts that set another EXIT trap must end their jobs themselves.
NATIVE_JOB=
end_native() { [ -z "$NATIVE_JOB" ] || kill -- "-$NATIVE_JOB" 2>/dev/null || true; }
trap end_native EXIT

# entry_of PACKAGE LOCK: prints a package's lines of a lock file, with the hashes.
entry_of() { sed -n "/^$1==/,/[^\\\\]\$/p" "$2"; }

# build_native: waits for the compiler, then installs what it built.
build_native() {
    [ -n "$NATIVE_JOB" ] || return 0
    wait "$NATIVE_JOB" && install_native || {
        say "the Rust core did not build; the compiler's words are above"
        exit 70
    }
    NATIVE_JOB=
    say "built the Rust core in $((SECONDS - NATIVE_SINCE)) s"
    printf '%s\n' "$NATIVE_STAMP" >"$VENV/.stamp-native"
}

fetch_crates() (cd "$ROOT" && cargo fetch --quiet --locked --target "$(rustc -vV | sed -n 's/^host: //p')" >&2)

# Build the extension with maturin. That takes some minutes, and maturin's output shows the progress.
compile() (
    cd "$ROOT"
    export PATH=$VENV/bin:$PATH VIRTUAL_ENV=$VENV PYO3_PYTHON=$VENV/bin/python
    exec maturin develop --release --locked --skip-install >&2
)

# Install the built extension with pip, which runs maturin from PATH. --no-deps: pip must not install packages other
# than those of the lock file.
install_native() (
    cd "$ROOT"
    export PATH=$VENV/bin:$PATH VIRTUAL_ENV=$VENV PYO3_PYTHON=$VENV/bin/python
    exec python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . >&2
)

# about_build: prints about how long a build takes: four minutes of one core, or a quarter of that if dependencies are
# built.
about_build() {
    local seconds=$((240 / $(nproc)))
    [ ! -d "$ROOT/target/release/deps" ] || seconds=$((seconds / 4))
    printf '%d s on an idle machine with %d cores' "$seconds" "$(nproc)"
}
