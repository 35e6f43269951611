"""A shop whose two sessions run a few dozen statements, and the slow query log that a real server writes about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import innodb

SECRETS = ("alice@example.org", "s3cr3t", "O'Brien", "Zürich", "4111111111111111", "deadbeef")
"""Words from the statements' values; no digest may contain them."""

SCHEMA = (
    "DROP DATABASE IF EXISTS shop",
    "CREATE DATABASE shop DEFAULT CHARACTER SET utf8mb4",
    "CREATE TABLE shop.product (id INT PRIMARY KEY, price DECIMAL(10,2) NOT NULL, sold INT NOT NULL, name VARCHAR(40), "
    "KEY (name)) ENGINE = InnoDB",
    "CREATE TABLE shop.sale (id BIGINT AUTO_INCREMENT PRIMARY KEY, product INT NOT NULL, customer VARCHAR(60), "
    "note TEXT, code VARBINARY(16), at DATETIME NULL, KEY (product)) ENGINE = InnoDB",
)


def rows(count: int) -> list[str]:
    """Return the statements that fill the shop."""
    values = ",".join(f"({i},{100 + i * 7919 % 9900}.5,0,'thing {i}')" for i in range(1, count + 1))
    return [f"INSERT INTO shop.product VALUES {values}"]


class Client:
    """A session that sends bytes, so that statements may be in any character set."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def run(self, *statements: str | bytes) -> None:
        """Run the statements; ignore those that the server refuses."""
        for statement in statements:
            cursor = self.connection.cursor()
            try:
                cursor.execute(statement if isinstance(statement, str) else statement.decode("latin-1"))
                cursor.fetchall()
            except Exception as error:
                if "1062" not in str(error) and "1146" not in str(error):
                    raise


def play(one: Client, two: Client, rounds: int = 6) -> None:
    """Run a shop's statements in two sessions that alternate."""
    two.run("SET autocommit = 0")
    for i in range(1, rounds + 1):
        one.run("BEGIN", f"SELECT price, sold FROM product WHERE id = {i * 17 % 97 + 1} FOR UPDATE")
        two.run(f"select name\n  from product -- the name of one\n where id in ({i}, {i + 3}, {i * 5 + 1})")
        one.run(
            f"UPDATE product SET sold = sold + 1 WHERE id = {i * 17 % 97 + 1}",
            f"INSERT INTO sale (product, customer, note, code, at) VALUES ({i * 17 % 97 + 1}, 'alice@example.org', "
            f"'it''s for \"{i}\";\n\\\\ # User@Host: s3cr3t', x'deadbeef{i:02x}', NULL)",
            "COMMIT",
        )
        two.run(f"UPDATE product SET name = 'O\\'Brien {i}' WHERE id = {i}", "COMMIT" if i % 3 else "ROLLBACK")
        one.run(
            f"SELECT COUNT(*) 'Zürich', SUM(price) FROM product WHERE id BETWEEN {i} AND {i + 9} "
            "GROUP BY sold ORDER BY 1"
        )
    one.run(
        "INSERT INTO product VALUES (1, 1.0, 0, 'there already')",
        "SELECT * FROM nowhere WHERE card = 4111111111111111",
        "SHOW TABLES",
        "SET @x = 4111111111111111",
        "SELECT @x",
        "CREATE TEMPORARY TABLE mine (a INT)",
        "INSERT INTO mine VALUES (4111)",
        "DROP TEMPORARY TABLE mine",
        "SELECT /*!40001 SQL_NO_CACHE */ id FROM shop.product WHERE name LIKE '%thing 1_' LIMIT 5",
        "INSERT INTO sale (product, customer) VALUES (1, 'a'), (2, NULL), (3, 'c')",
    )
    one.connection.ping(reconnect=False)


def settings(name: str, log: Path) -> list[str]:
    """Return the statements that make a server of this name log every statement to `log`."""
    made = [
        f"SET GLOBAL slow_query_log_file = '{log}'",
        "SET GLOBAL log_output = 'FILE'",
        "SET GLOBAL long_query_time = 0",
    ]
    if name in ("mysql-8.0", "mysql-9"):
        made.append("SET GLOBAL log_slow_extra = 1")
    if name.startswith("mariadb"):
        made.append("SET GLOBAL log_slow_verbosity = 'query_plan,explain'")
    return [*made, "SET GLOBAL slow_query_log = 1"]


def record(name: str, place: innodb.Place, log: Path, *, rounds: int = 6, count: int = 200) -> bytes:
    """Run the shop on a private server; return the log that the server wrote. `log` must be in a folder of the server's
    user."""
    import pymysql

    def connect(**options: Any) -> Any:
        return pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=None, **options)

    with place.server() as server:
        root = connect()
        cursor = root.cursor()
        for statement in (*SCHEMA, *rows(count), *settings(name, log)):
            cursor.execute(statement)
        root.commit()
        sessions = [Client(connect(database="shop", charset="utf8mb4")) for _ in range(2)]
        play(sessions[0], sessions[1], rounds)
        latin = Client(connect(database="shop", charset="latin1"))
        latin.run("INSERT INTO sale (product, customer, note) VALUES (7, 'Z\xfcrich', 's3cr3t')")
        for session in (*sessions, latin):
            session.connection.close()
        cursor.execute("SET GLOBAL slow_query_log = 0")
        root.close()
    return log.read_bytes()


MONITORS = "SELECT VARIABLE_VALUE FROM {} WHERE VARIABLE_NAME = 'Innodb_rows_read'"


def serve_clients(root: Any, connect: Any, log: Path, *, is_mariadb: bool) -> None:
    """Run an application, a connection pool and a monitor on a server that logs every statement.

    `root` is the connection that sets the server up, `connect` opens another.
    """
    make = Client(root)
    make.run("CREATE DATABASE shop DEFAULT CHARACTER SET utf8mb4")
    make.run("CREATE TABLE shop.article (id INT PRIMARY KEY, price INT, code VARBINARY(16), flags BIGINT, KEY (code))")
    make.run("CREATE TABLE shop.stock (article INT PRIMARY KEY, left_over INT)")
    values = ",".join(f"({i},{i * 7 % 90},UNHEX(LPAD(HEX({i}),32,0)),{i})" for i in range(1, 61))
    make.run(f"INSERT INTO shop.article VALUES {values}")
    make.run("INSERT INTO shop.stock SELECT id, 100 FROM shop.article")
    make.run("CREATE FUNCTION shop.price_of(a INT) RETURNS INT READS SQL DATA RETURN a + 1")
    root.commit()
    make.run(*settings("mariadb" if is_mariadb else "mysql-5.7", log))
    application, off, monitor = (Client(connect(database=name)) for name in ("shop", "shop", None))
    for article in (2, 9, 30):
        application.run("SELECT 1", f"UPDATE stock SET left_over = left_over - 1 WHERE article = {article}", "ROLLBACK")
    application.run(f"SELECT id FROM article WHERE code = 0x{5:032x}", "SELECT id FROM article WHERE id = 0x0a")
    application.run("SELECT id FROM article WHERE id = 0x1b", "SELECT id FROM article WHERE flags & 0x04 = 0x04")
    application.run("SELECT price_of(4)", "SELECT shop.price_of(5)")
    for article, end in ((5, "ROLLBACK"), (6, "COMMIT")):
        off.run(f"SELECT left_over FROM stock WHERE article = {article}")
        off.run(f"UPDATE stock SET left_over = 7 WHERE article = {article}", end)
    table = "information_schema.GLOBAL_STATUS" if is_mariadb else "performance_schema.global_status"
    for number in range(1, 4):
        joined = f"shop.article a JOIN shop.stock s ON s.article = a.id WHERE a.id = {number}"
        monitor.run(MONITORS.format(table), f"SELECT a.price FROM {joined}")
    monitor.run("SELECT COUNT(*) FROM mysql.user")
    for client in (application, off, monitor):
        client.connection.close()
    make.run("SET GLOBAL slow_query_log = 0")
