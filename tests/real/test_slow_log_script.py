"""A slow query log that a private server wrote, made into a script, and the script run on another private server."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest

from bufferlab.engines.servers.builds import servers_root
from support import core, innodb, prepared, slow_logs

pytestmark = [pytest.mark.real, pytest.mark.servers, pytest.mark.slow]

PRODUCTS = 2000


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
        sections = {section["name"]: section["seen"] for section in json.loads(made)["sections"]}
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
            # A binomial scatters by at most the root of its mean.
            assert abs(count - expected) < 5 * expected**0.5 + 1, (kind, count, expected)


def _call(folder: Path, *arguments: str | Path) -> str:
    done = prepared.run([*arguments], core.environment(folder), 600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _with_tables(script: Path) -> None:
    """Do by hand what docs/scripts.md asks for: the tables, and no section of a statement that failed."""
    text = re.sub(r"(?ms)^-- transaction: \w+_nowhere .*?(?=^-- transaction: |\Z)", "", script.read_text("utf-8"))
    setup = [statement.replace("shop.", "") for statement in (*slow_logs.SCHEMA[2:], *slow_logs.rows(PRODUCTS))]
    script.write_text("-- setup\n" + ";\n".join(setup) + ";\n" + text, encoding="utf-8")


def _committed(sweep: Path) -> dict[str, int]:
    """Return the transactions of the measured windows, by kind; those that end with ROLLBACK too."""
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
