"""A slow query log that a private server wrote, made into a script, and the script run on another private server."""

from __future__ import annotations

import json
import re
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

from bufferlab.engines.servers.fetched import servers_root
from bufferlab.slow_log import make_script
from support import core, innodb, prepared, slow_logs

pytestmark = [pytest.mark.real, pytest.mark.slow]

PRODUCTS = 2000


@pytest.mark.servers
@pytest.mark.parametrize("name", ["mysql-5.7", "mariadb-11.4"])
def test_the_script_of_a_servers_own_log_runs_with_its_weights_and_shows_no_value(name: str) -> None:
    with innodb.folder() as folder:
        place = innodb.Place(innodb.build(name), folder).initialise()
        log = folder / "slow.log"
        log.write_bytes(slow_logs.record(name, place, place.home / "slow.log", rounds=12, count=PRODUCTS))
        for inner in ("out", "data", "cache"):
            (folder / inner).mkdir(mode=0o711)
        (folder / "cache" / "servers").symlink_to(servers_root())
        script = folder / "mine.sql"
        made = _call(folder, "script-from-slow-log", log, "-o", script, "--json")
        sections = {section["name"]: section["kind"]["count"] for section in json.loads(made)["sections"]}
        _with_tables(script)
        places = ("--out", folder / "out", "--data-dir", folder / "data", "--share-device")
        asked = ("--engine", name.split("-")[0], "--server", name, "--quick", "--repetitions", "1",
                 "--sweep", "pool_size=20MiB")  # fmt: skip
        told = _call(folder, "run", script, *asked, "--transactions", "600", "--no-page-trace", *places)
        (sweep,) = (folder / "out").iterdir()
        assert stat.S_IMODE((sweep / "experiment.toml").stat().st_mode) == 0o600
        shown = told + "".join(path.read_text("utf-8") for path in sweep.rglob("*.html"))
        for secret in slow_logs.SECRETS:
            assert secret not in shown
        counts = _committed(sweep)
        total, seen = sum(counts.values()), sum(count for kind, count in sections.items() if kind in counts)
        assert total >= 600
        for kind, count in counts.items():
            expected = total * sections[kind] / seen
            # A binomial count's standard deviation is at most the root of its mean.
            assert abs(count - expected) < 5 * expected**0.5 + 1, (kind, count, expected)


JOINED = "SELECT a.price FROM article a JOIN stock s ON s.article = a.id WHERE a.id = ?"
ONE = "UPDATE stock SET left_over = left_over - ? WHERE article = ?"
LEFT_OVER = "SELECT left_over FROM stock WHERE article = ?; UPDATE stock SET left_over = ? WHERE article = ?"


@pytest.mark.parametrize("name", innodb.EVERY_DAY)
def test_of_a_servers_own_log_the_applications_statements_are_taken_and_find_their_rows(name: str) -> None:
    with innodb.folder() as folder:
        place = innodb.Place(innodb.build(name), folder).initialise()
        log = place.home / "slow.log"
        with place.server() as server:

            def connect(**options: Any) -> Any:
                return pymysql.connect(unix_socket=str(server.socket), user="root", autocommit=None, **options)

            with closing(connect()) as root:
                slow_logs.serve_clients(root, connect, log, is_mariadb=name.startswith("mariadb"))
                made = make_script([log])
                (choices,) = re.findall(
                    r"v1 choose\(:seen,(.*)\)\nSELECT id FROM article WHERE id = :v1;", made.script.text
                )
                with root.cursor() as cursor:
                    cursor.execute("PREPARE asked FROM 'SELECT id FROM shop.article WHERE id = ?'")
                    for choice, expected in zip(choices.split(","), (0x0A, 0x1B), strict=True):
                        cursor.execute(f"SET @v1 = {choice}")
                        cursor.execute("EXECUTE asked USING @v1")
                        assert cursor.fetchall() == ((expected,),)
        kinds = {(s.weight, s.kind.frame, "; ".join(s.kind.digests)) for s in made.script.sections}
        assert kinds == {
            (3, "", ONE), (3, "", JOINED), (2, "", "SELECT id FROM article WHERE id = ?"),
            (2, "", "SELECT price_of(?)"), (1, "ROLLBACK", LEFT_OVER), (1, "COMMIT", LEFT_OVER),
            (1, "", "SELECT id FROM article WHERE code = ?"), (1, "", "SELECT id FROM article WHERE flags & ? = ?"),
        }  # fmt: skip
        left_out = dict(made.left_out)
        assert (left_out["of another schema"], left_out["of the client, which name no table"]) == (4, 3)
        assert made.statements_in_script + sum(left_out.values()) == made.statements
        assert len(made.notes) == 3


def _call(folder: Path, *arguments: str | Path) -> str:
    done = prepared.run([*arguments], core.environment(folder), 600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _with_tables(script: Path) -> None:
    """Do the manual steps of docs/scripts.md: add the tables, and remove the section of a failed statement."""
    text = re.sub(r"(?ms)^-- transaction: \w+_nowhere .*?(?=^-- transaction: |\Z)", "", script.read_text("utf-8"))
    setup = [statement.replace("shop.", "") for statement in (*slow_logs.SCHEMA[2:], *slow_logs.rows(PRODUCTS))]
    script.write_text("-- setup\n" + ";\n".join(setup) + ";\n" + text, encoding="utf-8")


def _committed(sweep: Path) -> dict[str, int]:
    """Return the transactions of the measured windows, by kind, including those that end with ROLLBACK."""
    import polars as pl

    counts: dict[str, int] = {}
    for file in sweep.glob("runs/*/samples.parquet"):
        frame = pl.read_parquet(file).filter(
            pl.col("metric").is_in(["transactions_committed", "transactions_rolled_back"]) & (pl.col("subject") != "")
        )
        for subject, growth in (
            frame.group_by("metric", "subject")
            .agg(pl.col("count").max() - pl.col("count").min())
            .select("subject", "count")
            .iter_rows()
        ):
            counts[subject] = counts.get(subject, 0) + growth
    return {kind: count for kind, count in counts.items() if re.match(r"t\d+_", kind)}
