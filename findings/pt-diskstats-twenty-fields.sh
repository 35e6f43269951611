#!/usr/bin/env bash
# version: percona-toolkit 3.2.1 (Debian 12's 3.2.1-1), pt-diskstats
# behaviour: Lines of /proc/diskstats with 20 fields, as Linux writes them from 5.5 on (flushes), are left out without a
#   word: the report is empty, and the exit code is 0. Debian 12 itself has Linux 6.1. Lines of 14 fields (up to 4.17)
#   and of 18 fields (discards) give the same rows.
#   A guess that is wrong: further fields at the end of a line are ignored, so that all three give the same rows.
# seen:
#   > 14 fields: 2 rows, 100.0 reads a second, exit code 0
#   > 18 fields: 2 rows, 100.0 reads a second, exit code 0
#   > 20 fields: 0 rows, no reads a second, exit code 0
set -euo pipefail
self=$(realpath "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-get install -qq -y --reinstall --download-only --no-install-recommends \
    -o Dir::Cache::archives="$work" -o APT::Sandbox::User=root percona-toolkit=3.2.1-1 >/dev/null
dpkg -x "$work"/percona-toolkit_*.deb "$work"

# samples FIELD...: a second apart, 100 reads and 50 writes more each time; the fields are put behind the first 14.
samples() {
    local place
    for place in 0 1 2 3; do
        echo "254 0 vda $((1000 + 100 * place)) 0 $((16000 + 1600 * place)) $((2000 + 200 * place))" \
            "$((500 + 50 * place)) 0 $((8000 + 800 * place)) $((3000 + 300 * place))" \
            "0 $((2500 + 250 * place)) $((5000 + 500 * place)) $*"
        echo "TS $((1700000000 + place)).000000000 2023-11-14 22:13:$((20 + place))"
    done | sed 's/ *$//'
}

report() {
    local name=$1 outcome=0
    shift
    samples "$@" >"$work/$name"
    perl "$work/usr/bin/pt-diskstats" --group-by sample --iterations 3 --interval 1 "$work/$name" \
        </dev/null >"$work/$name.out" 2>&1 || outcome=$?
    awk -v name="$name" -v code="$outcome" '$2 == "vda" {rows++; reads = $3}
        END {print name " fields: " rows + 0 " rows, " (rows ? reads : "no") " reads a second, exit code " code}' \
        "$work/$name.out"
}
{
    report 14
    report 18 5 0 40 7
    report 20 5 0 40 7 9 11
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
