#!/usr/bin/env bash
# version: MariaDB 10.11.19 with MyRocks (Debian 12: mariadb-server-core, mariadb-plugin-rocksdb 1:10.11.19-0+deb12u1);
#   PyMySQL 1.2.4
# behaviour: MyRocks keeps the filter and the index of each file in its block cache (the default). The cache has shards,
#   and one of these blocks is larger than a shard of a small cache: it is never kept. Each select by key then reads
#   both again, also of a row that it has just read.
#   A guess that is wrong: a select whose row is not cached reads one block of 4 KiB, and a second one reads nothing.
# seen:
#   > in a cache of 32 MiB: 300 selects of 300 rows read above 500 KiB each; the same again: above 500 KiB each
#   > in a cache of 32 MiB, filter and index apart: 300 selects of 300 rows read below 9 KiB each; the same again: nothing
set -euo pipefail
umask 022
self=$(realpath "$0") work=$(mktemp -d) server=
stop() {
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null || :
    server=
}
trap 'stop; rm -rf "$work"' EXIT
as=()
mkdir "$work/debs" "$work/data"
if [ "$(id -u)" = 0 ]; then # The server refuses to run as root.
    as=(setpriv --reuid=nobody --regid=nogroup --clear-groups --)
    chmod 711 "$work"
    chown nobody "$work/data"
fi
python3 -m pip install -q --root-user-action=ignore --no-deps --target "$work/packages" pymysql==1.2.4
version=1:10.11.19-0+deb12u1
(cd "$work/debs" && apt-get -qq download "mariadb-server-core=$version" "mariadb-plugin-rocksdb=$version" \
    libsnappy1v5 liburing2 libzstd1 liblz4-1 libaio1 libpmem1 libndctl6 libdaxctl1 libkmod2 2>>"$work/log")
for package in "$work"/debs/*.deb; do dpkg -x "$package" "$work/server"; done
share=$work/server/usr/share/mysql

# start OPTION...: starts a server on a socket alone, without accounts.
start() {
    LD_LIBRARY_PATH=$work/server/usr/lib/x86_64-linux-gnu "${as[@]}" "$work/server/usr/sbin/mariadbd" --no-defaults \
        --datadir="$work/data" --socket="$work/data/socket" --skip-networking --skip-grant-tables \
        --lc-messages-dir="$share" --character-sets-dir="$share/charsets" \
        --plugin-dir="$work/server/usr/lib/mysql/plugin" --plugin-load-add=ha_rocksdb.so \
        --rocksdb-use-direct-reads=ON --rocksdb-block-cache-size=32M \
        "--rocksdb-default-cf-options=compression=kNoCompression;bottommost_compression=kNoCompression;block_based_table_factory={block_align=1;filter_policy=bloomfilter:10:false}" \
        "$@" >>"$work/log" 2>&1 &
    server=$!
}
cat >"$work/ask.py" <<'PYTHON'
import sys
import time
from contextlib import suppress
from pathlib import Path

import pymysql

socket, process, what = sys.argv[1:4]
for _ in range(600):
    with suppress(pymysql.OperationalError):
        connection = pymysql.connect(unix_socket=socket, user="root", autocommit=True)
        break
    time.sleep(0.1)
cursor = connection.cursor()


def read_bytes():
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def each(rows):
    before = read_bytes()
    for row in rows:
        cursor.execute(f"SELECT f FROM shop.t WHERE id = {row}")
        cursor.fetchall()
    return (read_bytes() - before) / len(rows)


def said(size):
    if size > 500 << 10:
        return "above 500 KiB each"
    return "nothing" if size < 50 else "below 9 KiB each" if size < 9 << 10 else f"{size:.0f} bytes each"


if what == "load":
    cursor.execute("CREATE DATABASE shop")
    cursor.execute("CREATE TABLE shop.t (id INT PRIMARY KEY, f CHAR(60)) ENGINE = RocksDB CHARACTER SET latin1")
    for first in range(0, 700_000, 5_000):
        rows = ",".join(f"({row}, REPEAT('x', 60))" for row in range(first, first + 5_000))
        cursor.execute(f"INSERT INTO shop.t VALUES {rows}")
    cursor.execute("SET GLOBAL rocksdb_force_flush_memtable_now = 1")
    cursor.execute("SET GLOBAL rocksdb_compact_cf = 'default'")
else:
    rows = [row * 613 % 700_000 for row in range(300)]
    print(f"in a cache of 32 MiB{what}: 300 selects of 300 rows read {said(each(rows))};"
          f" the same again: {said(each(rows))}")
PYTHON
# try OPTION WHAT: the process that reads is the server itself, behind setpriv, which becomes it.
try() {
    start "$1"
    PYTHONPATH="$work/packages" python3 "$work/ask.py" "$work/data/socket" "$server" "$2"
    stop
}

{
    try --rocksdb-cache-index-and-filter-blocks=ON load
    try --rocksdb-cache-index-and-filter-blocks=ON ""
    try --rocksdb-cache-index-and-filter-blocks=OFF ", filter and index apart"
} >"$work/seen"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
