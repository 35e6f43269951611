"""A sweep on SQLite by the nodes of a Ray cluster on this machine: the counts equal those of one host, also after
kills.

The nodes share the disk (`--share-device`), so only counts are compared.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from bufferlab.execute.fleet.cluster_address import INSTALL
from bufferlab.execute.probes.page_trace_probe import TraceWish
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.registry import open_sweep
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Overrides, load
from real.test_blocks import _counts
from support import core
from support.fake import Ended, wait_until
from support.ray_nodes import RayNodes, descendants, of_environment, ray_nodes

pytestmark = [pytest.mark.real, pytest.mark.slow]

KILLS = 5


@pytest.fixture(scope="module")
def place(disk: Path) -> Iterator[Path]:
    """Yield the experiment's folder, and set the folders that the nodes use."""
    place = disk / "fleet"
    shutil.copytree(core.ROOT / "experiments" / "hot-rows", place)
    toml = place / "experiment.toml"
    # Without this, a busy host would end a warm-up at another transaction.
    toml.write_text(re.sub(r'max_duration = "\w+"', 'max_duration = "1h"', toml.read_text()))
    yield place
    shutil.rmtree(place)


@pytest.fixture(scope="module")
def overrides() -> Overrides:
    return Overrides(profile="smoke", repetitions=4, transactions=20000, sweep=(("hot_rows", ("50%", "100%", "200%")),))


@pytest.fixture(scope="module")
def cluster(place: Path) -> Iterator[RayNodes]:
    try:
        metadata.version("ray")
    except metadata.PackageNotFoundError:
        pytest.skip(f"NOT TESTED: Ray is not installed: {INSTALL}")
    environment = {
        **core.environment(place),
        "BUFFERLAB_CACHE": str(place / "cache"),
        "PYTHONPATH": str(core.ROOT / "python"),
    }
    environment.pop("BUFFERLAB_NO_PAGE_TRACE", None)
    with ray_nodes(2, environment) as nodes:
        yield nodes


@pytest.fixture(scope="module")
def at_once(place: Path, overrides: Overrides, cluster: RayNodes) -> SweepFolder:
    """Return the sweep as one host does it, without the cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BUFFERLAB_CACHE", str(place / "cache"))
        options = SweepOptions(share_device=True, page_trace=TraceWish(by_name=True))
        outcome = run_sweep(load(str(place / "experiment.toml"), overrides), place / "at-once", options=options)
        assert outcome.failed == 0
        return outcome.folder


def start(cluster: RayNodes, place: Path, out: str, *more: str) -> subprocess.Popen[str]:
    words = ["run", str(place / "experiment.toml"), "--smoke", "--repetitions", "4", "--probe", "page-trace"]
    words += [
        "--transactions",
        "20000",
        "--sweep",
        "hot_rows=50%,100%,200%",
        "--share-device",
        "--ray",
        cluster.address,
    ]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "bufferlab", *words, "--out", str(place / out), "--json", *more],
        cwd=_trap(place), env=cluster.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _trap(place: Path) -> Path:
    """Return a folder with modules that must not be imported: Ray would import them on all nodes if the courier worked
    in it."""
    trap = place / "trap"
    trap.mkdir(exist_ok=True)
    for name in ("bufferlab", "polars", "pydantic"):
        (trap / f"{name}.py").write_text("raise ImportError('a module of the folder in which the command began')")
    return trap


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=900)
    return Ended(process.returncode, out, err)


def is_clean(cluster: RayNodes, place: Path, out: str) -> None:
    """Require that no process and no folder of the sweep is left."""

    def left() -> dict[int, str]:
        ours = of_environment("BUFFERLAB_CACHE", str(place / "cache"))
        return {pid: words for pid, words in ours.items() if "bufferlab.execute" in words}

    wait_until(lambda: not left(), f"the end of {left()}", 20)
    kept = [path for path in (place / out).rglob("*") if path.name.startswith((".tmp-", ".bufferlab-"))]
    kept += [*(place / out).glob("*.fleet"), *(place / "cache" / "fleet").glob(".tmp-*")]
    assert kept == []


def test_two_nodes_count_what_one_host_counts_run_by_run(cluster: RayNodes, place: Path, at_once: SweepFolder) -> None:
    done = ended(start(cluster, place, "two"))
    assert done.code == 0, done.err
    assert "the token and all data cross the network in clear" in done.err
    assert len(set(re.findall(r"block \d goes to (.+)", done.err))) == 2, done.err
    merged = open_sweep(Path(done.json["sweep"]))
    found, expected = _counts(merged), _counts(at_once)
    assert len(found) == 12
    assert found == expected
    assert {record.run.block for record in merged.runs() if record.page_trace() is not None} == {0}
    assert merged.other_pools() is not None
    is_clean(cluster, place, "two")
    assert cluster.environment["RAY_AUTH_TOKEN"] not in done.out + done.err


@pytest.mark.parametrize("number", range(KILLS))
def test_a_node_that_is_killed_in_a_run_loses_nothing(
    cluster: RayNodes, place: Path, at_once: SweepFolder, number: int
) -> None:
    out = f"killed-{number}"
    process = start(cluster, place, out)
    victim = cluster.nodes[-1]
    try:
        _wait_for_run(victim.pid, process)
        if number % 2:
            cluster.kill(victim)
        else:
            os.kill(cluster.raylet(victim), signal.SIGKILL)
        if number > 1:
            cluster.start_node()  # The node joins while the sweep runs.
    finally:
        done = ended(process)
    victim.wait(60)
    assert done.code == 0, done.err
    assert "it goes round again" in done.err
    assert _counts(open_sweep(Path(done.json["sweep"]))) == _counts(at_once)
    is_clean(cluster, place, out)
    cluster.nodes.remove(victim)
    if number <= 1:
        cluster.start_node()


def _wait_for_run(node: int, command: subprocess.Popen[str]) -> None:
    """Wait until a worker below a node measures; a worker's first job may be the load."""

    def measures() -> bool:
        assert command.poll() is None, command.communicate()
        below = [pid for pid in descendants(node) if b"execute.run.worker" in _command(pid)]
        return any(b"/run.db" in _maps(pid) or b"database.db" in _maps(pid) for pid in below)

    wait_until(measures, "a run on that node", 300)
    time.sleep(0.3)


def _content(path: Path) -> bytes:
    """Return a file's content; nothing if the file is gone meanwhile, as Ray's own files may be."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _command(pid: int) -> bytes:
    return _content(Path(f"/proc/{pid}/cmdline"))


def _maps(pid: int) -> bytes:
    """Return the names of the files that a process maps."""
    found = b""
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            found += os.readlink(entry).encode() + b"\n"
    except OSError:
        pass
    return found


def test_a_command_that_is_stopped_is_continued(cluster: RayNodes, place: Path, at_once: SweepFolder) -> None:
    process = start(cluster, place, "stopped")
    assert process.stderr is not None
    said = ""
    while " is home" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    done = ended(process)
    assert done.code == 130, done.err
    (folder,) = (place / "stopped").glob("*.fleet")
    assert f"--resume {folder} --ray {cluster.address}" in done.err
    again = _resumed(cluster, folder)
    assert again.code == 0, again.err
    assert _counts(open_sweep(Path(again.json["sweep"]))) == _counts(at_once)
    is_clean(cluster, place, "stopped")


def _resumed(cluster: RayNodes, folder: Path) -> Ended:
    command = [sys.executable, "-m", "bufferlab", "run", "--resume", str(folder), "--ray", cluster.address, "--json"]
    done = subprocess.run(command, env=cluster.environment, capture_output=True, text=True, check=False, timeout=900)
    return Ended(done.returncode, done.stdout, done.stderr)


def test_a_command_that_is_killed_leaves_no_process_and_is_continued(
    cluster: RayNodes, place: Path, at_once: SweepFolder
) -> None:
    process = start(cluster, place, "gone")
    _wait_for_run(cluster.nodes[-1].pid, process)
    process.kill()
    process.communicate(timeout=60)

    def left() -> dict[int, str]:
        ours = of_environment("BUFFERLAB_CACHE", str(place / "cache"))
        return {pid: words for pid, words in ours.items() if "bufferlab.execute" in words}

    wait_until(lambda: not left(), f"the end of {left()}", 30)
    (folder,) = (place / "gone").glob("*.fleet")
    again = _resumed(cluster, folder)
    assert again.code == 0, again.err
    assert _counts(open_sweep(Path(again.json["sweep"]))) == _counts(at_once)
    is_clean(cluster, place, "gone")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"RAY_AUTH_MODE": ""}, "Ray runs what anybody sends"),
        ({"RAY_AUTH_TOKEN": "0" * 64}, "no Ray 2.60 with our token answers"),
    ],
)
def test_no_token_and_another_token_are_refused(
    cluster: RayNodes, place: Path, change: dict[str, str], what: str
) -> None:
    other = RayNodes(cluster.place, {**cluster.environment, **change}, cluster.port)
    done = ended(start(other, place, "refused"))
    assert (done.code, "Traceback" in done.err) == (3, False), done.err
    assert what in done.err


def test_a_cluster_that_asks_for_no_token_is_refused(cluster: RayNodes, place: Path) -> None:
    open_to_all = RayNodes(cluster.place / "open", {**cluster.environment, "RAY_AUTH_MODE": "disabled"})
    open_to_all.place.mkdir()
    try:
        open_to_all.start_head()
        done = ended(start(RayNodes(cluster.place, cluster.environment, open_to_all.port), place, "open"))
        assert done.code == 3, done.err
        assert "the cluster answers without a token" in done.err
    finally:
        open_to_all.end()


_FILL = """
import ray, sys, time
ray.init(address=sys.argv[1], configure_logging=False, log_to_driver=False)
kept = []
try:
    for _ in range(40):
        kept.append(ray.put(b"x" * 4_000_000))
finally:
    print("full", flush=True)
    sys.stdin.read()
"""


def test_a_full_object_store_hinders_nothing(cluster: RayNodes, place: Path, at_once: SweepFolder) -> None:
    filler = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", _FILL, cluster.address],
        env=cluster.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert filler.stdout is not None
        assert "full" in filler.stdout.readline()
        done = ended(start(cluster, place, "full"))
        assert done.code == 0, done.err
        assert _counts(open_sweep(Path(done.json["sweep"]))) == _counts(at_once)
    finally:
        filler.kill()
        filler.communicate()  # communicate() also closes the pipes.


def test_the_token_is_in_no_file_and_on_no_command_line(cluster: RayNodes, place: Path, at_once: SweepFolder) -> None:
    """This test runs last, and checks Ray's logs and the folders of the sweeps above."""
    assert _who_tells(cluster, place) == []


def _who_tells(cluster: RayNodes, place: Path) -> list[str]:
    """Return the files and command lines that contain the token: those of Ray, of the sweep, and of all processes."""
    token = cluster.environment["RAY_AUTH_TOKEN"].encode()
    files = [path for root in (cluster.place, place) for path in root.rglob("*") if path.is_file()]
    return [str(path) for path in files if token in _content(path)] + [
        str(entry) for entry in Path("/proc").iterdir() if entry.name.isdigit() and token in _command(int(entry.name))
    ]
