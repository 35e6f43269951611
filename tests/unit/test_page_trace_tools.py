"""Tools and benchmarks of page traces: what they repeat, what counts as agreement, and the tables that they print."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from bufferlab.results.page_traces import CountedAccesses, PageTrace
from support.core import ROOT


@pytest.fixture(autouse=True)
def _tools(monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("tools", "benches"):
        monkeypatch.syspath_prepend(str(ROOT / folder))


def trace(gets: tuple[int, int, int], reads: tuple[int, int, int] = (10, 10, 0), **more: Any) -> PageTrace:
    """Return a trace that was compared and not kept: counts recorded, counted, and recorded at the edges."""
    counts = [
        CountedAccesses(kind=kind, counter=counter, recorded=numbers[0], counted=numbers[1], at_edges=numbers[2])
        for kind, counter, numbers in (
            ("get + get_if_in_pool", "page_gets", gets),
            ("read", "innodb_pages_read", reads),
        )
    ]
    return PageTrace(**{"status": "dropped", "counts": counts, "set_up_us": 12_000.0, **more})


@pytest.mark.parametrize(
    ("server", "gets", "reads", "agrees"),
    [
        ("mysql-5.7", (10_000, 10_000, 0), (10, 10, 0), True),
        ("mysql-5.7", (10_000, 10_005, 0), (10, 11, 0), True),
        ("mysql-5.7", (10_000, 9_996, 0), (11, 10, 0), True),
        ("mysql-5.7", (10_000, 10_006, 0), (10, 10, 0), False),
        ("mysql-5.7", (10_000, 10_000, 0), (10, 12, 0), False),
        ("mysql-5.7", (10_000, 10_900, 900), (10, 10, 0), True),
        ("mysql-5.7", (10_000, 9_000, 900), (10, 10, 0), False),
        ("mariadb-11.4", (10_000, 10_030, 0), (2_000, 2_002, 0), True),
        ("mariadb-11.4", (10_000, 10_031, 0), (2_000, 2_002, 0), False),
        ("mariadb-11.4", (10_000, 10_000, 0), (2_000, 2_003, 0), False),
        ("postgres-17", (10_000, 10_000, 0), (10, 10, 0), True),
        ("postgres-17", (10_000, 10_001, 0), (10, 10, 0), False),
        ("postgres-17", (10_000, 10_001, 1), (10, 10, 0), True),
    ],
)
def test_a_build_agrees_within_what_its_engine_may_miss(
    server: str, gets: tuple[int, int, int], reads: tuple[int, int, int], agrees: bool
) -> None:
    tool = importlib.import_module("page_trace_builds")
    runs = [tool.Traced(400.0, trace((10_000, 10_000, 0), (2_000, 2_000, 0))), tool.Traced(500.0, trace(gets, reads))]
    cells = tool.row(tool.Turn(server, "own", 2, 3000), runs)
    assert len(cells) == len(tool._HEAD)
    assert (cells[0], cells[2], cells[-1]) == (server, "400, 500", "yes" if agrees else "no")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"status": "failed", "reason": "no"}, "no: no"),
        ({"lost": 1}, "no"),
        ({"status": "failed", "reason": "the limit", "counts": []}, "no: the limit"),
    ],
)
def test_a_trace_that_is_not_whole_agrees_with_nothing(bad: dict[str, Any], why: str) -> None:
    tool = importlib.import_module("page_trace_builds")
    runs = [tool.Traced(400.0, trace((9, 9, 0))), tool.Traced(400.0, trace((9, 9, 0), **bad))]
    assert tool.row(tool.Turn("mysql-5.7", "own", 2, 9), runs)[-1] == why


def test_builds_that_are_done_stay_and_one_that_failed_or_was_broken_off_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = importlib.import_module("page_trace_builds")
    ran: list[tuple[str, str]] = []

    def traced(turn: Any) -> Any:
        ran.append((turn.server, turn.rights))
        if len(ran) == 3:
            raise KeyboardInterrupt
        return "0 of 1 runs: no server" if turn.server == "mysql-8.0" else [tool.Traced(400.0, trace((9, 9, 0)))]

    monkeypatch.setattr(tool, "traced", traced)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    asked = ["tool", str(tmp_path / "folder"), "--builds", "mysql-8.0", "postgres-17", "--runs", "1"]
    monkeypatch.setattr("sys.argv", asked)
    with pytest.raises(KeyboardInterrupt):
        tool.main()
    with (tmp_path / "folder" / "state.jsonl").open("a") as file:
        file.write('{"turn": {"server": "mys')  # A full disk may leave such a half line.
    assert tool.main() == 1
    again = [("mysql-8.0", "own"), ("mysql-8.0", "nobody"), ("postgres-17", "nobody")]
    assert ran == [("mysql-8.0", "own"), ("postgres-17", "own"), ("mysql-8.0", "nobody"), *again]
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert [row.strip("| ").split(" | ")[2] for row in rows] == ["0 of 1 runs: no server", "400"] * 2
    assert [row.strip("| ").split(" | ")[-1] for row in rows] == ["no", "yes"] * 2


def test_only_root_can_run_as_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = importlib.import_module("page_trace_builds")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("sys.argv", ["tool", str(tmp_path)])
    with pytest.raises(SystemExit) as refused:
        tool.main()
    assert refused.value.code == 2


def test_a_join_costs_the_difference_of_its_pairs() -> None:
    bench = importlib.import_module("page_trace_join")
    plain = [bench.Joined(200.0 + pair, 1_200_000) for pair in range(4)]
    for more_ns, verdict in ((15.0, "met"), (15.5, "missed")):
        traced = [bench.Joined(one.cpu_ns + more_ns, one.gets, 2) for one in plain]
        head, line, row = bench.table("postgres-17", plain, traced)
        cells = row.strip("| ").split(" | ")
        assert len(cells) == head.count("|") - 1 == line.count("|") - 1
        difference = f"{more_ns:.2f}"
        assert cells[:5] == ["postgres-17", "4", "1,200,000", "201.5", f"{201.5 + more_ns:.1f}"]
        assert cells[6:] == [f"{difference} ({difference}-{difference})", "8", verdict]
