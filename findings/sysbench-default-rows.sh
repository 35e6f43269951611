#!/usr/bin/env bash
# version: sysbench 1.0.20 (Debian 12, 1.0.20+ds-5)
# behaviour: The default distribution of rows, `special`, gives three draws in four to one hundredth of a table, as
#   its help says: the middle one. The rest is no even spread: it is bell-shaped around the same middle, and the first
#   and the last quarter of the table are hardly read: a pool of half the table holds what such a run reads.
#   A guess that is wrong: the other quarter of the draws is uniform, so that all of the table is read.
# seen:
#   > draws of rows 1 to 100,000: 200000
#   > in the middle hundredth: 76.1 %
#   > elsewhere in the middle half: 23.8 %
#   > in the first and the last quarter: 0.1 %
#   > with --rand-type=uniform, in those quarters: 50.1 %
set -euo pipefail
self=$(realpath "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-get install -qq -y --reinstall --download-only --no-install-recommends \
    -o Dir::Cache::archives="$work" -o APT::Sandbox::User=root sysbench=1.0.20+ds-5 >/dev/null
for package in "$work"/*.deb; do
    dpkg -x "$package" "$work/root"
done
export LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu"

cat >"$work/draw.lua" <<'LUA'
function thread_init() out = io.open(os.getenv("DRAWN"), "w") end
function event() out:write(sysbench.rand.default(1, 100000), "\n") end
function thread_done() out:close() end
LUA
draw() {
    DRAWN="$work/drawn" "$work/root/usr/bin/sysbench" "$work/draw.lua" "$@" \
        --rand-seed=1 --threads=1 --events=200000 --time=0 run >/dev/null
}

{
    draw
    awk '$1 > 49500 && $1 <= 50500 {middle++; next} $1 > 25000 && $1 <= 75000 {half++; next} {outer++}
        END {print "draws of rows 1 to 100,000: " NR
            printf "in the middle hundredth: %.1f %%\n", 100 * middle / NR
            printf "elsewhere in the middle half: %.1f %%\n", 100 * half / NR
            printf "in the first and the last quarter: %.1f %%\n", 100 * outer / NR}' "$work/drawn"
    draw --rand-type=uniform
    awk '$1 <= 25000 || $1 > 75000 {outer++}
        END {printf "with --rand-type=uniform, in those quarters: %.1f %%\n", 100 * outer / NR}' \
        "$work/drawn"
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
