"""MariaDB's storage engines: their settings, one budget of memory, the same rows for all, and the chapter on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bufferlab import spec
from bufferlab.engines.innodb import option_file, storage_engines, storage_engines_chapter
from bufferlab.engines.innodb.storage_engines import STORAGE_ENGINES
from bufferlab.engines.servers.memory_limit import MemoryLimit
from bufferlab.errors import SpecError
from bufferlab.plan import Plan, estimated_facts, make, needed_data
from bufferlab.report.build import build as build_report
from bufferlab.spec import Overrides
from support.synthetic import MIB, Sweep, Truth, build
from support.synthetic_innodb import Depth, Innodb

ENGINES = ("innodb", *STORAGE_ENGINES)


def planned(**overrides: Any) -> Plan:
    wanted = spec.load("hot-rows", Overrides(engine="mariadb", **overrides))
    return make(wanted, estimated_facts(wanted))


@pytest.mark.parametrize("name", STORAGE_ENGINES)
def test_another_storage_engine_gets_its_own_variables_and_innodb_idles(name: str) -> None:
    engine = STORAGE_ENGINES[name]
    knobs = {"storage_engine": name, "page_size": 16384, "pool_size": 64 * MIB, "memory_limit": "pool",
             "lru_scan_depth": 100}  # fmt: skip
    found = option_file.server_settings("mariadb", "10.11.19", knobs)
    assert found["default_storage_engine"] == engine.sql_name
    assert {value for key, value in found.items() if key.startswith("innodb_")} == {str(8 * MIB)}
    assert {found[variable] for variable in engine.blocks} == {"16384"}
    kept = engine.beside_cache_bytes + storage_engines.BESIDE_CACHE_BYTES
    assert int(found[engine.cache]) <= engine.cache_share * (64 * MIB - kept)


def test_in_one_budget_innodb_leaves_room_for_connections_too() -> None:
    knobs = {"storage_engine": "innodb", "page_size": 16384, "pool_size": 64 * MIB, "memory_limit": "pool"}
    assert option_file.server_settings("mariadb", "10.11.19", knobs)["innodb_buffer_pool_size"] == str(48 * MIB)
    without = {**knobs, "memory_limit": "off"}
    assert option_file.server_settings("mariadb", "10.11.19", without)["innodb_buffer_pool_size"] == str(64 * MIB)


@pytest.mark.parametrize(
    ("name", "asked_kib", "has_kib"),
    [("aria", 4, 8), ("aria", 16, 16), ("aria", 64, 32), ("myisam", 64, 16), ("rocksdb", 64, 64)],
)
def test_a_size_of_block_that_an_engine_lacks_is_replaced_and_said(name: str, asked_kib: int, has_kib: int) -> None:
    engine = STORAGE_ENGINES[name]
    assert engine.block_size_bytes(asked_kib << 10) == has_kib << 10
    assert engine.job(asked_kib << 10)["block_size_bytes"] == has_kib << 10
    notes = storage_engines.notes(engine, {"page_size": asked_kib << 10})
    assert ("page_size" in notes) == (asked_kib != has_kib)


def test_every_storage_engine_reads_the_same_rows_and_innodbs_settings_stay_with_innodb() -> None:
    swept = (("storage_engine", ENGINES), ("hot_rows", ("50%", "200%")), ("layout", ("scattered",)))
    points = planned(sweep=swept, set_knobs=(("page_size", "16k"),)).points
    rows = {(point.swept["storage_engine"], point.swept["hot_rows"]): point.parameters["hot_rows"] for point in points}
    for share in ("50%", "200%"):
        assert len({rows[name, share] for name in ENGINES}) == 1
    for point in points:
        assert ("lru_scan_depth" in point.settings) == (point.swept["storage_engine"] == "innodb")
    wanted = spec.load("hot-rows", Overrides(engine="mariadb", sweep=swept))
    engines = {dict(data.knobs)["storage_engine"] for data in needed_data(wanted)}
    assert engines == {"innodb"}, "shares refer to InnoDB's table alone"


def test_work_in_transactions_is_refused_where_there_are_none() -> None:
    wanted = spec.load("buffer-size", Overrides(engine="mariadb", set_knobs=(("storage_engine", "aria"),)))
    with pytest.raises(SpecError, match="storage_engine = aria has no transactions, and tpcc needs them") as refused:
        make(wanted, estimated_facts(wanted))
    assert "storage_engine=rocksdb" in str(refused.value.hint)


@pytest.mark.parametrize("name", ENGINES)
def test_a_budget_without_room_for_a_cache_is_refused(name: str) -> None:
    knobs = (("storage_engine", name), ("memory_limit", "pool"), ("pool_size", "24MiB"))
    with pytest.raises(SpecError, match="memory_limit = pool with pool_size = 24 MiB leaves no room") as refused:
        planned(set_knobs=knobs, sweep=(("hot_rows", ("1000",)),))
    assert "32 MiB or more" in str(refused.value.hint)


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_by_the_pool_is_what_the_server_takes_at_rest_and_the_pool_besides(
    tmp_path: Path, version: Any
) -> None:
    used, limit = (
        ("memory.usage_in_bytes", "memory.limit_in_bytes") if version == 1 else ("memory.current", "memory.max")
    )
    files = "total_active_file {}\ntotal_inactive_file {}\n" if version == 1 else "active_file {}\ninactive_file {}\n"

    def takes(held_mib: int, cached_mib: int) -> None:
        (tmp_path / used).write_text(str((held_mib + cached_mib) * MIB))
        (tmp_path / "memory.stat").write_text(files.format(cached_mib * MIB, 0))

    group = MemoryLimit.asked({"memory_limit": "pool", "pool_size": 64 * MIB})
    assert group
    assert group.hint == "ask for a larger pool_size"
    group._group, group._version = tmp_path, version
    takes(70, 5)
    group.begin()
    assert int((tmp_path / limit).read_text()) == 134 * MIB == group.actual_bytes
    takes(120, 9)
    assert group.taken() == {
        "memory_limit_bytes": 134 * MIB, "memory_at_rest_bytes": 70 * MIB, "memory_held_bytes": 120 * MIB,
        "memory_page_cache_bytes": 9 * MIB,
    }  # fmt: skip
    assert MemoryLimit.asked({"memory_limit": "off"}) is None
    fixed = MemoryLimit.asked({"memory_limit": 200 * MIB})
    assert fixed
    assert fixed.hint.startswith("ask for a larger memory_limit")


@dataclass(frozen=True)
class Rows(Depth):
    """A number of hot rows on a storage engine, whose reads begin above `knee` rows."""

    hot_rows: int = 1000
    engine: str = "innodb"

    @classmethod
    def at(cls, hot_rows: int, engine: str, knee: int) -> Rows:
        reads = max(0.0, 1 - knee / hot_rows)
        return cls("64MiB", reads, 0.0, 0.0, hot_rows=hot_rows, engine=engine)


@dataclass(frozen=True)
class Stored(Innodb):
    """MariaDB with its tables in any storage engine."""

    version: str = "10.11.19"
    asked_pool: str = "64MiB"
    axis: str = "hot_rows"

    def swept(self, truth: Truth) -> dict[str, str]:
        assert isinstance(truth, Rows)
        return {"hot_rows": str(truth.hot_rows), "storage_engine": truth.engine}

    def workload(self, truth: Truth) -> dict[str, Any]:
        assert isinstance(truth, Rows)
        return {"name": "hot_rows", "hot_rows": truth.hot_rows, "rows": 1_000_000, "layout": "scattered"}

    def settings(self, sweep: Sweep, truth: Truth) -> tuple[dict[str, str], dict[str, Any]]:
        assert isinstance(truth, Rows)
        asked, actual = super().settings(sweep, truth)
        memory = {"limit": 134, "at_rest": 70, "held": 120, "page_cache": 9}
        facts = {f"memory_{name}_bytes": mib * MIB for name, mib in memory.items()}
        more = {"storage_engine": truth.engine, "memory_limit": "pool"}
        return {**asked, **more}, {**actual, **more, **facts}

    def changes(self, sweep: Sweep, truth: Truth, common: Mapping[str, float]) -> dict[str, float]:
        assert isinstance(truth, Rows)
        found = super().changes(sweep, truth, common)
        return {**found, "server_read_bytes": 4096 * truth.reads_per_new_order * sweep.transactions}


def sweep_of(tmp_path: Path, knees: Mapping[str, int]) -> Any:
    rows = (1000, 2000, 3000, 4000, 4500)
    truths = [Rows.at(hot_rows, name, knee) for name, knee in knees.items() for hot_rows in rows]
    return build(tmp_path, Sweep(
        truths=truths, kind=Stored(), experiment="hot-rows", engine="mariadb", page_size_bytes=16384,
        workload={"connections": 8, "zipf": 0},
    ))  # fmt: skip


def test_the_chapter_ranks_storage_engines_by_the_rows_that_the_memory_holds(tmp_path: Path) -> None:
    report = build_report(sweep_of(tmp_path, {"innodb": 2500, "rocksdb": 3500, "aria": 900, "myisam": 9000}))
    tables = {block.id: block for section in report.sections for block in section.blocks if hasattr(block, "rows")}
    knees = {row.cells[0]: row.cells for row in tables["storage-engine-knees"].rows}
    ranked = list(knees)
    assert [name.split()[-1] for name in ranked[:2]] == ["rocksdb", "innodb"]
    assert any(cells[2] == "no knee between 1,000 and 4,500 rows" for cells in knees.values()), knees
    assert any(cells[2] == "below 1,000 rows" for cells in knees.values()), knees
    innodb = next(cells for name, cells in knees.items() if name.endswith("innodb"))
    assert 2_400 < float(innodb[2].split()[0].replace(",", "")) < 2_600
    # A cache of single rows: 64 MiB divided by 188 bytes of a row and 56 bytes of overhead.
    whole = 64 * MIB / (188 + 56)
    assert innodb[4] == f"{100 * float(innodb[2].split()[0].replace(',', '')) / whole:.1f} %"
    memory = {row.cells[0]: row.cells for row in tables["memory-division"].rows}
    assert memory["rocksdb"][1:3] == ("134 MiB", "70 MiB")
    assert memory["rocksdb"][-3:] == ("9 MiB", "50 MiB", "5 MiB")
    assert {row.cells[0] for row in tables["not-comparable"].rows} == {"rocksdb", "aria", "myisam"}
    assert "With InnoDB as it is, storage engine innodb holds most hot rows" in report.answer
    assert "storage engine rocksdb holds most" in report.answer


def test_the_chapter_is_not_there_without_another_storage_engine(tmp_path: Path) -> None:
    from bufferlab.chapter.analysis import Analysis

    sweep = build(tmp_path, Sweep(truths=[Rows.at(1000, "innodb", 2500)], kind=Innodb(), engine="mysql",
                                  experiment="hot-rows", page_size_bytes=16384))  # fmt: skip
    assert storage_engines_chapter.compared(Analysis.of(sweep)) is None
