#!/usr/bin/env bash
# version: pidstat of sysstat 12.6.1 (Debian 12, 12.6.1-1) on Linux 6.18.44 with ext4
# behaviour: kB_wr/s of a process that writes 8 KiB at random places of a buffered file is tens of times what the process
#   and the device write. pidstat takes it from write_bytes of /proc/PID/io, where the kernel adds the whole folio of the
#   page cache as soon as a byte of it changes (mm/page-writeback.c, folio_account_dirtied). ext4 has large folios of
#   regular files since Linux 6.16; a file that was laid out by large writes is in folios of hundreds of KiB. Of the folio
#   only the changed blocks are written. Dropped from the cache and read at random, the same file is in small folios,
#   and kB_wr/s is right.
#   A guess that is wrong: write_bytes is off by the rest of a page of 4 KiB at most.
# seen:
#   > laid out by large writes: kB_wr/s is 20 times the bytes of the calls or more
#   > the device wrote at most 3 times the bytes of the calls
#   > dropped from the cache and read at random: kB_wr/s is at most 2 times the bytes of the calls
set -euo pipefail
export TMPDIR=/var/tmp # /tmp may be memory
self=$(realpath "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-get install -qq -y --reinstall --download-only --no-install-recommends \
    -o Dir::Cache::archives="$work" -o APT::Sandbox::User=root sysstat=12.6.1-1 >/dev/null
dpkg -x "$work"/sysstat_12.6.1-1_*.deb "$work/root"

# Lays the file out (or reads it at random), then writes 8 KiB a hundred times a second for 6 s: 800 KiB a second.
cat >"$work/change.py" <<'PYTHON'
import os, random, sys, time

draw, blocks = random.Random(1), 32768
with open(sys.argv[1], "r+b" if sys.argv[2] == "read" else "w+b", buffering=0) as file:
    if sys.argv[2] == "read":
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        for _ in range(20_000):
            os.pread(file.fileno(), 8192, 8192 * draw.randrange(blocks))
    else:
        for _ in range(256):
            file.write(bytes(1 << 20))
    os.fsync(file.fileno())
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(600):
        os.pwrite(file.fileno(), b"x" * 8192, 8192 * draw.randrange(blocks))
        time.sleep(0.01)
    os.fsync(file.fileno())
PYTHON

disk=$(stat -c %Hd:%Ld "$work")
written_kib() { awk '{print int($7 / 2)}' "/sys/dev/block/$disk/stat"; }

# changed HOW: prints pidstat's kB_wr/s over the bytes of the calls, and the KiB that the device wrote meanwhile.
changed() {
    local before times
    coproc change { exec python3 "$work/change.py" "$work/file" "$1"; }
    local pid=$change_PID
    read -r -u "${change[0]}" _
    before=$(written_kib)
    echo >&"${change[1]}"
    times=$(LC_ALL=C "$work/root/usr/bin/pidstat" -d -p "$pid" 1 5 | awk '/^Average/ && /python3/ {print $5 / 780}')
    wait "$pid"
    echo "$times $(($(written_kib) - before))"
}
is() { awk "BEGIN {exit !($1)}"; }

{
    read -r times wrote < <(changed write)
    is "$times >= 20" && echo "laid out by large writes: kB_wr/s is 20 times the bytes of the calls or more" ||
        echo "laid out by large writes: $times times"
    is "$wrote <= 3 * 4800" && echo "the device wrote at most 3 times the bytes of the calls" || echo "the device: $wrote KiB"
    read -r times wrote < <(changed read)
    is "$times <= 2" && echo "dropped from the cache and read at random: kB_wr/s is at most 2 times the bytes of the calls" ||
        echo "dropped and read at random: $times times"
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
