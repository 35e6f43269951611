#!/usr/bin/env bash
# version: mawk 1.3.4 20200120 (Debian 12's awk, 1.3.4.20200120-3.1)
# behaviour: A whole number of 2^31 or more becomes text with six digits, also as the key of an array, and %d of printf
#   ends at 2147483647. So sectors, pages and offsets of a trace that lie beside each other become one.
#   A guess that is wrong: whole numbers are exact up to 2^53, as in other awks.
# seen:
#   > 100 sectors in a row from 2 TiB on, counted by a[$1 + 0]: 1
#   > counted by a[$1], as text: 100
#   > the first of them + 1, by print: 4.29497e+09
#   > by printf %d: 2147483647
#   > by printf %.0f: 4294967297
set -euo pipefail
self=$(realpath "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-get install -qq -y --reinstall --download-only --no-install-recommends \
    -o Dir::Cache::archives="$work" -o APT::Sandbox::User=root mawk=1.3.4.20200120-3.1 >/dev/null
dpkg -x "$work"/mawk_*.deb "$work"
awk="$work/usr/bin/mawk"

seq 4294967296 4294967395 >"$work/sectors"
tell() { echo "$1: $("$awk" "$2" "$work/sectors")"; }
{
    tell "100 sectors in a row from 2 TiB on, counted by a[\$1 + 0]" '{a[$1 + 0]} END {for (k in a) n++; print n}'
    tell "counted by a[\$1], as text" '{a[$1]} END {for (k in a) n++; print n}'
    tell "the first of them + 1, by print" 'NR == 1 {print $1 + 1}'
    tell "by printf %d" 'NR == 1 {printf "%d", $1 + 1}'
    tell "by printf %.0f" 'NR == 1 {printf "%.0f", $1 + 1}'
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
