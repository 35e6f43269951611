#!/usr/bin/env bash
# version: fio-genzipf of fio 3.33 (Debian 12, 3.33-3)
# behaviour: The tool says how skewed fio's draws of blocks are, so that people size a cache by it. Asked with `-p` for
#   the cache that serves 90 % of the hits, it says 0.000MB. In its table the rows are shares of the blocks that its own
#   draws touched, here 9 % of the data set, not of the data set; and the column "Size" is the number of hits times
#   the block size, not what the row's blocks take: 909 MB beside the row whose blocks take 10 MB.
#   A guess that is wrong: "Top 10 %" is a tenth of the data set, Size is the cache that holds it, and `-p` adds it up.
# seen:
#   > 90.00% of hits satisfied in 0.000MB of cache
#   > Top  10.00%	 88.76%		 88.76%		  232686	908.93M
#   > blocks touched: 24710 of 262144
#   > blocks of that row: 2471, 9.7 MiB, 88.8 % of the hits
#   > hits of the hottest tenth of the data set: 100.0 %
#   > 90 % of the hits are of 3339 blocks, 13.0 MiB
set -euo pipefail
self=$(realpath "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
apt-get install -qq -y --reinstall --download-only --no-install-recommends \
    -o Dir::Cache::archives="$work" -o APT::Sandbox::User=root fio=3.33-3 >/dev/null
dpkg -x "$work"/fio_3.33-3_*.deb "$work/root"

genzipf() { "$work/root/usr/bin/fio-genzipf" -t zipf -i 1.2 -b 4096 -g 1 "$@"; }

{
    genzipf -p 90 | grep satisfied
    genzipf -o 10 | grep '^Top'
    # The hits of each touched block, hottest first.
    genzipf -c -o 1000000 | awk -F', ' -v blocks=262144 '$1 ~ /^[0-9]+$/ {hits += $2; sum[++touched] = hits}
        END {row = int(touched / 10)
            printf "blocks touched: %d of %d\n", touched, blocks
            printf "blocks of that row: %d, %.1f MiB, %.1f %% of the hits\n", row, row / 256, 100 * sum[row] / hits
            tenth = int(blocks / 10) < touched ? int(blocks / 10) : touched
            printf "hits of the hottest tenth of the data set: %.1f %%\n", 100 * sum[tenth] / hits
            for (need = 1; sum[need] < 0.9 * hits; need++) {}
            printf "90 %% of the hits are of %d blocks, %.1f MiB\n", need, need / 256}'
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
