#!/usr/bin/env bash
# Runs a command of the README as on a machine with only git: in a fresh chroot, in a fresh clone.
# It cannot show problems of another kernel or another disk. Needs root and debootstrap.
set -euo pipefail
ROOT=$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")

usage() {
    cat <<'TEXT'
usage: tools/try-in-chroot.sh SUITE [--dir DIR] [--again] [--put FILE]... [COMMAND...]
  SUITE      bookworm or trixie (Debian 12, 13), noble (Ubuntu 24.04; needs Ubuntu's archive keyring)
  --dir DIR  where chroot and caches are kept (default: /var/tmp/bufferlab-chroot-SUITE)
  --again    go on in the chroot of the last time instead of a fresh one: how quick is the second time?
  --put FILE copy a file of this machine, a wheel for example, into dist/ of the clone
  COMMAND    run in the clone of this repository's last commit (default: ./test)
The base system and downloaded packages are kept in DIR; remove DIR when done.
TEXT
}

suite=${1:-}
case $suite in
    bookworm | trixie | noble) shift ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
esac
dir=/var/tmp/bufferlab-chroot-$suite
again=no
put=()
while [ $# -gt 0 ]; do
    case $1 in
        --dir) dir=$2 && shift 2 ;;
        --again) again=yes && shift ;;
        --put) put+=("$2") && shift 2 ;;
        -*) usage >&2 && exit 2 ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || set -- ./test

fail() { printf 'error: %s\n  where: %s\n  hint:  %s\n' "$1" "$0" "$2" >&2 && exit 3; }
[ "$(id -u)" = 0 ] || fail "a chroot needs root" "run it as root, on a machine of your own"
command -v debootstrap >/dev/null || fail "debootstrap not found" "apt-get install debootstrap"

base=$dir/base tree=$dir/tree cache=$dir/cache
mkdir -p "$cache/apt" "$cache/user" "$cache/cargo" "$cache/maven"

# Print the Debian mirror of this machine's package lists. The chroot uses it too, because it can be reached from here.
debian_mirror() {
    local url
    # shellcheck disable=SC2016  # apt's own placeholder
    url=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/*$') || true
    printf '%s\n' "${url%/}"
}

make_base() {
    local mirror options=(--variant=minbase '--include=git,ca-certificates')
    if [ "$suite" = noble ]; then
        [ -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ] ||
            fail "no keyring to check Ubuntu's packages with" "run it on Ubuntu, or install ubuntu-keyring"
        mirror=
        options+=('--components=main,universe')
    else
        mirror=$(debian_mirror)
        [ -n "$mirror" ] || fail "this machine's apt names no Debian mirror" "run it on a Debian machine"
    fi
    rm -rf "$base.part"
    debootstrap "${options[@]}" --cache-dir="$cache/apt" "$suite" "$base.part" ${mirror:+"$mirror"}
    if [ "$suite" = noble ]; then
        sed 's/ noble / noble-updates /' "$base.part/etc/apt/sources.list" >>"$base.part/etc/apt/sources.list.d/updates.list"
    else
        printf 'deb %s %s main\n' "$mirror" "$suite" "$mirror" "$suite-updates" \
            "${mirror%/debian}/debian-security" "$suite-security" >"$base.part/etc/apt/sources.list"
    fi
    rm -rf "$base.part"/var/cache/apt/archives/*.deb "$base.part"/var/lib/apt/lists/*
    mv "$base.part" "$base"
}

# Copy what this machine needs to reach the package registries to the chroot: names, certificates, pip's settings.
copy_network_settings() {
    local file
    for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /usr/local/share/ca-certificates/*.crt; do
        if [ -e "$file" ]; then cp -L "$file" "$tree$file"; fi
    done
    # Java's package makes its own list of certificates from these when it is installed, and Maven uses that list.
    chroot "$tree" update-ca-certificates >/dev/null
}

[ -d "$base" ] || make_base
if [ "$again" = no ] || [ ! -d "$tree" ]; then
    rm -rf --one-file-system "$tree"
    cp -a --reflink=auto "$base" "$tree"
    copy_network_settings
    git clone --quiet "$ROOT" "$tree/srv/bufferlab"
fi
for file in "${put[@]}"; do
    mkdir -p "$tree/srv/bufferlab/dist"
    cp "$file" "$tree/srv/bufferlab/dist/"
done
mkdir -p "$tree/root/.cache" "$tree/root/.cargo/registry" "$tree/root/.m2"

settings=()
for name in CI PIP_CERT PIP_INDEX_URL PIP_DEFAULT_TIMEOUT SSL_CERT_FILE http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done

# Separate mount and process namespaces: however this script ends, nothing stays mounted and no process stays.
started=$SECONDS
outcome=0
unshare --mount --pid --fork --kill-child bash -s -- "$tree" "$cache" "${settings[@]}" -- "$@" <<'INSIDE' || outcome=$?
set -euo pipefail
tree=$1 cache=$2
shift 2
settings=()
while [ "$1" != -- ]; do settings+=("$1") && shift; done
shift
mount --make-rprivate /
# Make the chroot a mount point: as on a real machine, / is then in the mount table, and its disk can be found.
mount --bind "$tree" "$tree"
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"
# /tmp is in memory, as in Debian 13, so that code that needs a disk and uses /tmp fails.
mount -t tmpfs tmpfs "$tree/tmp"
mount --bind "$cache/apt" "$tree/var/cache/apt/archives"
mount --bind "$cache/user" "$tree/root/.cache"
mount --bind "$cache/cargo" "$tree/root/.cargo/registry"
mount --bind "$cache/maven" "$tree/root/.m2"
exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "${settings[@]}" \
    chroot "$tree" bash -c 'cd /srv/bufferlab && exec "$@"' bash "$@" </dev/null
INSIDE
printf '%s: %s ended with %d after %d s\n' "$suite" "$*" "$outcome" "$((SECONDS - started))" >&2
exit "$outcome"
