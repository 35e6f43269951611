"""Other work of a server: each finding is a sentence with a subject and its action, and the answer says what it cannot
see."""

from __future__ import annotations

from decimal import Decimal

import pytest

from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.client import LostError, ServerError
from bufferlab.live import confounds

MYSQL: Flavour = "mysql"
MARIADB: Flavour = "mariadb"
POSTGRES: Flavour = "postgres"

NOBODY_SEES = {"may_see": True, "is_replica": False, "replicas": 0}


class Asked:
    """A server that answers by the first fitting part of a question, and answers no rows to all other questions."""

    def __init__(self, **answers: list[dict[str, object]] | Exception) -> None:
        self.answers = answers
        self.sent: list[str] = []

    def query(self, sql: str) -> list[dict[str, object]]:
        self.sent.append(sql)
        for part, answer in self.answers.items():
            if part in sql:
                if isinstance(answer, Exception):
                    raise answer
                return answer
        return []


def innodb_session(kind: str | None, words: str, **more: object) -> dict[str, object]:
    return {"id": 12, "account": "me", "command": "Query", "seconds": 30, "state": "executing", "kind": kind,
            "words": words, "stage": None, "stages": None, "done_percent": None, **more}  # fmt: skip


def postgres_session(**more: object) -> dict[str, object]:
    return {"pid": 12, "datname": "lab", "account": "me", "program": "psql", "state": "active", "seconds": None,
            "is_backup": False, "words": None, **more}  # fmt: skip


def sentences(asked: Asked, server: Flavour, **options: float) -> dict[str, str]:
    told = confounds.find(asked.query, server, **options)  # type: ignore[arg-type]
    assert len({one.kind for one in told.found}) == len(told.found), told.found
    return {one.kind: one.sentence for one in told.found}


def test_an_idle_server_has_no_confound() -> None:
    told = confounds.find(Asked(INNODB_METRICS=[{"length": 7}]).query, MYSQL)
    assert (told.found, told.not_told) == ((), ())
    told = confounds.find(Asked(may_see=[NOBODY_SEES]).query, POSTGRES)
    assert (told.found, told.not_told) == ((), ())


@pytest.mark.parametrize(
    ("row", "kind", "words"),
    [
        (
            innodb_session("definition", "ALTER TABLE"),
            "definition",
            "session 12 of me has run ALTER TABLE for 30 s: it",
        ),
        (innodb_session("definition", "ALTER\nTABLE T ADD"), "definition", "has run a statement for"),
        (innodb_session("maintenance", "ANALYZE TABLE"), "maintenance", "ANALYZE TABLE"),
        (innodb_session("backup", "BACKUP STAGE"), "backup", "BACKUP STAGE"),
        (innodb_session("dump", "SELECT /*!40001"), "backup", "as mysqldump does"),
        (innodb_session(None, "", command="Binlog Dump GTID"), "replication", "1 replicas or readers"),
        (innodb_session(None, "", account="system user", command="Slave_SQL"), "replication", "is a replica"),
    ],
)
def test_a_session_of_mysql_is_told_by_what_it_does(row: dict[str, object], kind: str, words: str) -> None:
    assert words in sentences(Asked(REGEXP=[row]), MYSQL)[kind]


def test_an_alter_table_of_mariadb_tells_how_far_it_is() -> None:
    row = innodb_session("definition", "ALTER TABLE", stage=1, stages=2, done_percent=Decimal("40.125"))
    assert "(stage 1 of 2, 40 % of it)" in sentences(Asked(REGEXP=[row]), MARIADB)["definition"]


def test_the_threads_of_mariadbs_purge_are_no_replica() -> None:
    row = innodb_session(None, "", account="system user", command="Daemon", state="InnoDB purge worker")
    assert sentences(Asked(REGEXP=[row]), MARIADB) == {}


def test_old_transactions_the_history_list_and_the_load_of_the_pool_are_told() -> None:
    asked = Asked(
        trx_started=[{"id": 5, "seconds": 7200, "rows_modified": 0, "account": "app", "command": "Sleep"}],
        INNODB_METRICS=[{"length": 1_234_567}],
        load_status=[{"variable_name": "Innodb_buffer_pool_load_status", "value": "Loaded 100/200 pages"}],
        metadata_locks=[{"id": 6, "account": "backup", "type": "SHARED"}],
    )
    told = sentences(asked, MYSQL, long_s=60)
    assert told["long_transaction"].startswith(
        "session 5 of app has had a transaction open for 7,200 s and is idle in it"
    )
    assert "1,234,567 undo logs behind" in told["history_list"]
    assert "Loaded 100/200 pages" in told["pool_load"]
    assert told["backup"].startswith("session 6 of backup holds the lock of a backup")
    assert any(">= 60" in sql for sql in asked.sent)


def test_a_transaction_that_no_session_has_is_a_prepared_one() -> None:
    row = {"id": 0, "seconds": 100, "rows_modified": 3, "account": None, "command": None}
    assert sentences(Asked(trx_started=[row]), MYSQL)["long_transaction"].startswith("a prepared transaction")


def test_a_missing_right_is_said_once_and_the_rest_is_told() -> None:
    denied = ServerError("1227", "Access denied; you need (at least one of) the PROCESS privilege(s)")
    asked = Asked(
        INNODB_TRX=denied, INNODB_METRICS=denied, metadata_locks=ServerError("1142", "SELECT command denied"), REGEXP=[]
    )
    told = confounds.find(asked.query, MYSQL)
    assert [one.remedy for one in told.not_told] == [
        "GRANT PROCESS ON *.* TO the account",
        "GRANT SELECT ON performance_schema.* TO the account",
    ]


def test_a_lost_connection_is_the_callers() -> None:
    with pytest.raises(LostError):
        confounds.find(Asked(INNODB_TRX=LostError("Lost connection")).query, MYSQL)


def test_what_postgres_does_besides_is_told() -> None:
    progress = {"kind": "maintenance", "words": "VACUUM", "pid": 7, "datname": "lab", "relation": "orders",
                "phase": "scanning heap", "done": 12, "whole": 400, "account": None, "is_automatic": True}  # fmt: skip
    index = {**progress, "kind": "definition", "words": "CREATE INDEX", "pid": 8, "relation": None, "whole": 0,
             "account": "me", "is_automatic": False}  # fmt: skip
    asked = Asked(
        may_see=[{"may_see": True, "is_replica": False, "replicas": 2}],
        pg_stat_progress=[progress, index],
        pg_stat_activity=[
            postgres_session(pid=8, seconds=500.0),
            postgres_session(program="pg_dump", is_backup=True, seconds=20.0),
            postgres_session(pid=13, state="idle in transaction", seconds=3600.0),
        ],
        pg_replication_slots=[
            {"name": "old", "type": "physical", "active": False, "wal_status": "extended",
             "held_transactions": 5_000_000, "kept_bytes": Decimal(3 << 30)},
            {"name": "new", "type": "physical", "active": True, "wal_status": "reserved",
             "held_transactions": None, "kept_bytes": Decimal(1000)},
        ],
    )  # fmt: skip
    told = sentences(asked, POSTGRES)
    assert told["maintenance"].startswith("autovacuum runs VACUUM on orders (scanning heap, 12 of 400 blocks)")
    assert told["definition"].startswith("session 8 of me runs CREATE INDEX on a table of the database lab")
    assert told["backup"].startswith("session 12 of me is pg_dump")
    assert told["long_transaction"].startswith("session 13 of me has had a transaction open for 3,600 s and is idle")
    assert "old is not used by anybody: it keeps 3 GiB of log" in told["slot"]
    assert told["replication"].startswith("2 replicas")


def test_a_role_that_may_not_see_others_is_told_so() -> None:
    told = confounds.find(Asked(may_see=[{**NOBODY_SEES, "may_see": False}]).query, POSTGRES)
    assert [one.remedy for one in told.not_told] == ["GRANT pg_monitor TO the role"]


def test_names_cannot_write_to_the_terminal() -> None:
    row = innodb_session("definition", "ALTER TABLE", account="\x1b[31mme")
    assert "\x1b" not in sentences(Asked(REGEXP=[row]), MYSQL)["definition"]
