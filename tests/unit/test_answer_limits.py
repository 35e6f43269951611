"""The limits of a report's answer: a database that grows, and a sweep over servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.chapter.analysis import Analysis
from bufferlab.report import answer
from support.synthetic import MIB, Sweep, build


@pytest.mark.parametrize(
    ("loaded_mib", "growth_mib", "said"),
    [(10, 1, True), (10, 0, False), (170, 5, False)],
    ids=["since the load and in the window", "before the window alone", "hardly since the load"],
)
def test_a_database_that_keeps_growing_is_named_with_its_sizes(
    tmp_path: Path, loaded_mib: int, growth_mib: int, *, said: bool
) -> None:
    sweep = Sweep(database_bytes=loaded_mib * MIB, growth_bytes=growth_mib * MIB)
    found = [text for text in answer.limits(Analysis.of(build(tmp_path, sweep))) if "database grow" in text]
    assert len(found) == said
    assert all("from 10 MiB as loaded to 13 MiB at a window's end" in text for text in found)


def test_a_sweep_over_servers_and_pools_gives_the_command_that_compares_servers(tmp_path: Path) -> None:
    pools = Analysis.of(build(tmp_path, Sweep()))
    assert not any("--between" in text for text in answer.limits(pools))
    points = tuple(
        replace(point, swept={**point.swept, "server": f"postgres-{17 + point.index % 2}"}) for point in pools.points
    )
    servers = replace(pools, points=points)
    (said,) = (text for text in answer.limits(servers) if "--between" in text)
    assert said.endswith(f"bufferlab compare {pools.sweep.path} --between server=postgres-17 server=postgres-18")
    assert not any("--between" in text for text in answer.limits(replace(servers, axis="server")))
