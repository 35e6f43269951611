"""A sweep that decides its number of blocks: when it stops, what it reports, and that its claims hold."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bufferlab.chapter import stopping
from bufferlab.chapter.analysis import Analysis
from bufferlab.errors import DataFileError, EnvironmentLackingError, SpecError
from bufferlab.execute import sweep_runs
from bufferlab.execute.progress import Standing
from bufferlab.execute.sweep import run_sweep
from bufferlab.registry import open_sweep
from bufferlab.report.build import build
from bufferlab.results.schema import StoredStop
from bufferlab.spec import Overrides, load, loads, to_toml
from bufferlab.stats.fit import Cell, Fit, fit
from bufferlab.stats.stopping import Aim, blocks_needed, is_enough
from bufferlab.units import parse_duration
from support.fake import Bench, Heard

TOOLS = Path(__file__).parents[2] / "tools"
AIM = Aim(smallest_effect=0.05)
STEPS = [("a", "b"), ("b", "c")]
AUTO = 'repetitions = "auto"\nat_most = {most}\nsmallest_effect = "5%"\n{more}'


def made(means: dict[str, float], scatter: float, blocks: int = 2, seed: int = 1) -> Fit:
    """Return a fit of drawn runs."""
    rng = np.random.default_rng(seed)
    cells: list[Cell] = [
        (point, block, mean * float(np.exp(rng.normal(0, scatter))))
        for block in range(blocks)
        for point, mean in means.items()
    ]
    return fit(cells, comparisons=[*STEPS, ("a", "c")], looks=2)


def test_two_blocks_are_enough_where_each_step_is_resolved() -> None:
    found = made({"a": 50.0, "b": 20.0, "c": 5.0}, 0.002)
    assert is_enough(found, STEPS, AIM)
    assert blocks_needed(found, STEPS, AIM, 5) == 2


def test_a_step_that_is_shown_to_be_too_small_needs_no_more_blocks() -> None:
    found = made({"a": 50.0, "b": 50.0, "c": 50.0}, 0.0005)
    assert found.step("a", "b").ci_low is not None
    assert is_enough(found, STEPS, AIM)
    assert not is_enough(found, STEPS, Aim(smallest_effect=0.0005))


def test_the_more_runs_scatter_the_more_blocks_are_needed_up_to_the_most() -> None:
    means = {"a": 50.0, "b": 46.0, "c": 42.0}
    needed = [blocks_needed(made(means, scatter), STEPS, AIM, 9) for scatter in (0.001, 0.012, 0.03, 0.5)]
    assert needed == sorted(needed)
    assert needed[0] == 2 < needed[1] < 9 == needed[-1]


def test_means_decide_only_where_a_precision_is_asked_for() -> None:
    found = made({"a": 50.0, "b": 20.0, "c": 5.0}, 0.004)
    exact = Aim(0.05, precision=0.02)
    assert is_enough(found, STEPS, AIM)
    assert not is_enough(found, STEPS, exact)
    assert blocks_needed(found, STEPS, exact, 9) > 2


def test_two_runs_that_happen_to_agree_make_no_mean_precise() -> None:
    rng, held, ends = np.random.default_rng(5), 0, []
    for _ in range(400):
        cells: list[Cell] = [("a", block, 100 * float(np.exp(rng.normal(0, 0.02)))) for block in range(5)]
        first = fit(cells[:2], comparisons=[], looks=2)
        blocks = 2 if is_enough(first, [], Aim(0.05, 0.03)) else blocks_needed(first, [], Aim(0.05, 0.03), 5)
        mean = fit(cells[:blocks], comparisons=[], looks=2).mean("a")
        held += mean.ci_low is None or mean.ci_high is None or mean.ci_low <= 100 <= mean.ci_high
        ends.append(blocks)
    assert 2 not in ends
    # 95 % less two standard errors of 1.1 %; if two runs could end the sweep, 91 % of the intervals held.
    assert held / 400 > 0.928


def test_blocks_for_a_mean_are_those_that_its_own_runs_need() -> None:
    rng, aim = np.random.default_rng(6), Aim(0.05, 0.02)
    known, reached = {"a": 1.5, "b": 0.75, "c": 0.3}, 0
    for _ in range(50):
        cells: list[Cell] = [
            (point, block, mean * float(np.exp(rng.normal(0, 0.01))))
            for block in range(5)
            for point, mean in (("a", 100.0), ("b", 50.0), ("c", 20.0))
        ]
        first = fit([cell for cell in cells if cell[1] < 2], comparisons=STEPS, looks=2, known_scatter=known)
        blocks = blocks_needed(first, STEPS, aim, 5)
        found = fit([cell for cell in cells if cell[1] < blocks], comparisons=STEPS, looks=2, known_scatter=known)
        reached += is_enough(found, STEPS, aim)
    assert reached > 40


def test_one_block_more_than_none_shows_nothing() -> None:
    found = made({"a": 50.0, "b": 20.0, "c": 5.0}, 0.004, blocks=1)
    assert not is_enough(found, STEPS, AIM)
    assert blocks_needed(found, STEPS, AIM, 5) == 5


def test_steps_that_are_zero_are_judged_by_the_largest_mean() -> None:
    rng = np.random.default_rng(3)
    drawn = [(point, block, max(0.0, mean + float(rng.normal(0, 0.0004))))
             for block in range(2) for point, mean in (("a", 0.0), ("b", 0.0), ("c", 0.9))]  # fmt: skip
    drawn[0] = ("a", 0, 0.0)
    found = fit(drawn, comparisons=[*STEPS, ("a", "c")], looks=2)
    assert found.scale == "linear"
    assert is_enough(found, STEPS, AIM)


def test_intervals_of_steps_are_wider_where_a_sweep_is_judged_twice() -> None:
    cells = [(point, block, 10.0 + point + 0.1 * ((3 * block + point) % 4)) for block in range(4) for point in range(3)]
    once, twice = (fit(cells, looks=looks) for looks in (1, 2))
    for a, b in once.comparisons:
        one, other = once.step(a, b), twice.step(a, b)
        assert (other.ci_low or 0) < (one.ci_low or 0) < (one.ci_high or 0) < (other.ci_high or 0)
    assert once.mean(0) == twice.mean(0)


@pytest.mark.parametrize("name", ["tpcc", "hot_rows"])
def test_claims_hold_at_the_stop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))
    simulated = import_module("simulate_statistics")
    of = max((one for one in simulated.recorded() if one.name.startswith(name)), key=lambda one: one.points)
    cells = simulated.stopping_row(of, 5, 17, 400)
    held, means, flat_held, flat_means, claims = (float(cells[place]) for place in (2, 3, 5, 6, 8))
    # The limits for 400 sweeps: 95 % and 5 %, with three standard errors of 1.1 %.
    assert held > 91.5
    assert flat_held > 91.5
    assert min(means, flat_means) > 91.5
    assert claims < 8.5


def bench_of(tmp_path: Path, sweep: str, *, most: int = 4, more: str = "") -> tuple[Bench, Path]:
    """Return a bench, and an experiment of the fake engine that decides its number of blocks."""
    bench = Bench(tmp_path)
    path = bench.experiment(sweep=sweep)
    path.write_text(path.read_text().replace("repetitions = 2", AUTO.format(most=most, more=more)))
    return bench, path


def test_a_sweep_stops_when_its_steps_are_resolved_and_says_so(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "40%", "80%"]')
    outcome = bench.measure(path)
    folder = open_sweep(outcome.folder.path)
    assert folder.stop
    assert folder.stop.enough
    assert len(folder.runs()) == 6
    analysis = Analysis.of(folder)
    assert stopping.reason(analysis) == "resolved"
    report = build(folder)
    assert report.data.stopped == "resolved"
    assert report.status == "ok"
    assert not any("Interrupted" in banner.text for banner in report.banners)
    assert any(limit.startswith("2 blocks of at most 4 were enough") for limit in report.limits)


def test_a_sweep_that_resolves_nothing_does_the_blocks_that_were_decided_once(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]', most=3, more='precision = "0.0001%"')
    outcome = bench.measure(path)
    folder = open_sweep(outcome.folder.path)
    assert folder.stop
    assert not folder.stop.enough
    assert folder.stop.blocks == 3
    assert len(folder.runs()) == 6
    analysis = Analysis.of(folder)
    assert stopping.reason(analysis) == "cap"
    assert "means" in stopping.said(analysis)


def test_a_resumed_sweep_keeps_to_what_was_decided(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    first = bench.measure(path)
    ended = bench.bufferlab("run", "--resume", first.folder.path, "--json")
    assert ended.code == 0, ended.err
    assert "4 of 4 runs are there; 0 to do" in ended.err
    assert ended.json["stopped"] == "resolved"


def test_chosen_blocks_are_done_whatever_they_show(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]', most=3)
    ended = bench.bufferlab("run", path, "--blocks", "1-3", "--out", bench.out, "--json")
    assert ended.code == 0, ended.err
    (folder,) = bench.out.iterdir()
    found = open_sweep(folder)
    assert len(found.runs()) == 6
    assert found.stop is None
    assert stopping.reason(Analysis.of(found)) == "fixed"


def test_a_number_of_repetitions_and_auto_replace_each_other(tmp_path: Path) -> None:
    _, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    fixed = load(path, Overrides(repetitions=3))
    assert fixed.design.most == 3
    again = load(path, Overrides(repetitions="auto", precision="3%"))
    assert (again.design.most, again.design.precision) == (4, 0.03)
    assert loads(to_toml(again), "experiment.toml").same_work(again) == []
    assert loads(to_toml(fixed), "experiment.toml").same_work(fixed) == []


@pytest.mark.parametrize("written", ['precision = "3%"', "at_most = 4", 'smallest_effect = "1%"'])
@pytest.mark.parametrize("table", ["design", "quick.design", "engines.fake.design"])
def test_an_aim_of_a_fixed_number_of_repetitions_is_refused_at_its_line(
    tmp_path: Path, written: str, table: str
) -> None:
    path = Bench(tmp_path).experiment()
    text = path.read_text().replace("repetitions = 2", f"{written}\nrepetitions = 2") if table == "design" else (
        f"{path.read_text()}\n[{table}]\n{written}\nrepetitions = 2\n"
    )  # fmt: skip
    path.write_text(text)
    key = f"{table}.{written.split(' ')[0]}"
    with pytest.raises(SpecError) as error:
        load(path)
    assert 'it belongs to repetitions = "auto"' in error.value.what
    assert error.value.where == f"{path}:{text[: text.index(written)].count(chr(10)) + 1} ({key})"
    assert error.value.hint == "leave it out, or ask for that"


def test_a_precision_that_is_asked_for_by_an_option_needs_auto(tmp_path: Path) -> None:
    _, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    for asked, fixed in ((Overrides(repetitions=3, precision="3%"), path), (Overrides(precision="3%"), None)):
        with pytest.raises(SpecError, match='it belongs to repetitions = "auto"') as error:
            load(fixed or Bench(tmp_path).experiment(), asked)
        assert error.value.where == "--precision 3%"


def test_a_number_of_repetitions_drops_the_aim_that_the_experiment_has(tmp_path: Path) -> None:
    _, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]', more='precision = "3%"')
    path.write_text(path.read_text() + '[quick.design]\nrepetitions = 2\n[full.design]\nprecision = "1%"\n'
                    'repetitions = "auto"\n')  # fmt: skip
    for fixed in (Overrides(repetitions=3), Overrides(profile="quick")):
        assert load(path, fixed).design.precision is None
        assert "at_most" not in to_toml(load(path, fixed))
    assert load(path, Overrides(profile="full")).design.precision == 0.01
    assert load(path, Overrides(repetitions="auto")).design.precision == 0.03


@pytest.mark.parametrize("wrong", ["often", "1.5", ""])
def test_repetitions_that_are_no_number_are_refused(tmp_path: Path, wrong: str) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    ended = bench.bufferlab("run", path, "--repetitions", wrong, "--out", bench.out)
    assert ended.code == 2
    assert 'neither a whole number nor "auto"' in ended.err


def test_a_dry_run_shows_the_least_and_the_most(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]', most=5)
    ended = bench.bufferlab("run", path, "--dry-run")
    assert "2 points x 2 to 5 repetitions = 4 to 10 runs" in ended.out
    times = dict(re.findall(r"^(load|measure|all) +(.+)$", ended.out, re.MULTILINE))
    assert " to " not in times["load"]
    for stage in ("measure", "all"):
        least, most = (parse_duration(text.strip()) for text in times[stage].split(" to "))
        assert least < most


def test_a_sweep_that_is_interrupted_before_its_first_look_lacks_runs_of_two_blocks_alone(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    folder = bench.measure(path).folder
    folder.write_stop(StoredStop(blocks=2, enough=None))
    shutil.rmtree(folder.runs()[-1].folder)
    report = build(open_sweep(folder.path))
    assert report.data.stopped == "interrupted"
    assert any(banner.text.startswith("Interrupted: 1 of 4 runs are missing") for banner in report.banners)
    ended = bench.bufferlab("run", "--resume", folder.path, "--json")
    assert ended.json["stopped"] == "resolved"
    assert open_sweep(folder.path).stop == folder.stop.model_copy(update={"enough": True})


def test_a_sweep_that_ends_before_its_decision_says_so_and_decides_when_it_is_resumed(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]', most=3, more='precision = "0.0001%"')

    class Ending(Heard):
        """A watcher that gets a Ctrl-C in a query of polars, which raises it, when the last run of the second block is
        shown."""

        def look(self, standing: Standing) -> None:
            if len(standing.runs) == 4:
                raise KeyboardInterrupt

    with bench.in_environment():
        outcome = run_sweep(load(path), bench.out, None, Ending())
    assert outcome.signal_number == signal.SIGINT
    report = build(open_sweep(outcome.folder.path))
    assert (report.status, report.data.stopped) == ("interrupted", "interrupted")
    (told,) = (banner.text for banner in report.banners if banner.text.startswith("Interrupted"))
    assert "had not decided yet" in told
    assert str(outcome.folder.path) in told
    assert len(bench.resume().folder.runs()) == 6
    assert build(bench.sweep()).data.stopped == "cap"


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_stop_that_cannot_be_of_this_sweep_is_refused(tmp_path: Path, blocks: int) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    if blocks == 2:  # A sweep of a fixed number of blocks has no such file.
        path = bench.experiment()
    folder = bench.measure(path).folder
    stored = '{"format": "bufferlab-sweep", "format_version": 2, "blocks": %d, "enough": true}'
    (folder.path / "stop.json").write_text(stored % blocks)
    with pytest.raises(DataFileError, match=r"stop\.json is"):
        open_sweep(folder.path)


def _damage(stop: Path, kind: str) -> None:
    stop.rmdir() if stop.is_dir() else stop.unlink()
    match kind:
        case "folder":
            stop.mkdir()
        case "pipe":
            os.mkfifo(stop)
        case "link to nothing":
            stop.symlink_to("nothing")
        case content:
            stop.write_text(content)


def test_a_stop_that_cannot_be_read_is_named_with_what_to_do_and_that_helps(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    stop = bench.measure(path).folder.path / "stop.json"
    for kind in ("folder", "pipe", "link to nothing", "{}", "{"):
        _damage(stop, kind)
        with pytest.raises(DataFileError, match=r"stop\.json (is|was) ") as error:
            open_sweep(stop.parent)
        assert error.value.where == str(stop)
        assert error.value.hint == f"remove it; bufferlab run --resume {stop.parent} decides anew"
    stop.unlink()
    assert bench.bufferlab("run", "--resume", stop.parent, "--json").json["stopped"] == "resolved"


def test_a_stop_that_this_user_may_not_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    folder, whole = bench.measure(path).folder.path, Path.open

    def refused(path: Path, *arguments: Any, **more: Any) -> Any:
        if path.name == "stop.json":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return whole(path, *arguments, **more)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(EnvironmentLackingError, match=r"stop\.json cannot be read: Permission denied") as error:
        open_sweep(folder)
    assert error.value.where == str(folder / "stop.json")
    assert "make it readable" in (error.value.hint or "")


@pytest.mark.parametrize(("key", "changed"), [("at_most", ""), ("smallest_effect", "x"), ("smallest_effect", "")])
def test_an_experiment_without_its_aim_is_refused_in_words(tmp_path: Path, key: str, changed: str) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    toml = bench.measure(path).folder.path / "experiment.toml"
    line = f'{key} = "{changed}"\n' if changed else ""
    toml.write_text(re.sub(f"{key} = .*\n", line, toml.read_text()))
    with pytest.raises(DataFileError, match=rf"experiment\.toml is damaged at {key}"):
        open_sweep(toml.parent)


def test_blocks_that_sufficed_without_failed_runs_are_judged_again_with_them(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "40%", "80%"]')
    folder = bench.measure(path).folder
    for record in folder.runs():
        if record.run.point.index == 2:
            shutil.rmtree(record.folder)
    heard = Heard()
    bench.resume(heard)
    assert [text for text in heard.said if text.startswith("2 blocks of at most 4 were enough")]
    assert bench.sweep().stop == folder.stop


def test_a_sweep_of_one_point_says_nothing_of_steps(tmp_path: Path) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%"]', most=2, more='precision = "0.0001%"')
    told = stopping.said(Analysis.of(bench.measure(path).folder))
    assert told == "After 2 blocks of at most 2, 1 of 1 mean is less precise than asked."
    path.write_text(path.read_text().replace("0.0001%", "99%").replace("at_most = 2", "at_most = 3"))
    shutil.rmtree(bench.out)
    told = stopping.said(Analysis.of(bench.measure(path).folder))
    assert told == "3 blocks of at most 3 were enough: reads per New-Order has no step to resolve."


def test_a_sweep_of_many_points_is_looked_at_after_fewer_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep_runs, "_POINTS_OF_A_LOOK", 1)
    heard = Heard()
    Bench(tmp_path).measure(Bench(tmp_path).experiment(), heard)
    assert [len(standing.runs) for standing in heard.looks] == [0, 1]


@pytest.mark.parametrize("shared", [("--blocks", "1"), ("--ray", "127.0.0.1:1")])
def test_blocks_that_hosts_share_take_no_precision(tmp_path: Path, shared: tuple[str, str]) -> None:
    bench, path = bench_of(tmp_path, 'pool_size = ["5%", "80%"]')
    ended = bench.bufferlab("run", path, "--precision", "3%", *shared, "--out", bench.out)
    assert ended.code == 2
    assert "hosts that share blocks" in ended.err
