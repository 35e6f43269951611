"""Refusals of `run --ray` before it asks Ray: no Ray, another version, no token, no cluster; and which modules import
Ray."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from bufferlab import spec
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute.fleet import cluster_address
from bufferlab.execute.fleet.cluster_address import parse_address, require_somebody, require_token
from bufferlab.execute.fleet.fleet_sweep import run_on_cluster
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.node_options import NodeOptions
from bufferlab.execute.progress import Silent
from bufferlab.execute.sweep import SweepOptions
from support.core import ROOT
from support.fake import Bench, is_alive, wait_until


@pytest.fixture
def experiment(bench: Bench) -> spec.Experiment:
    return spec.load(bench.experiment())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


@pytest.mark.parametrize("text", ["auto", "local", "ray://a:1", "a", "a:0", "a:99999", ":1", "a b:1", "a:1:2", "-", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="not the address of a cluster's head"):
        parse_address(text)


def test_a_token_that_lacks_is_empty_or_may_be_read_by_others_is_refused(tmp_path: Path) -> None:
    mode = {"RAY_AUTH_MODE": "token", "HOME": str(tmp_path)}
    token = tmp_path / ".ray" / "auth_token"
    for environ, what in (
        ({}, "Ray runs what anybody sends"),
        ({"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": "t"}, "Ray runs what anybody sends"),
        (mode, "the cluster's token cannot be read: No such file"),
    ):
        with pytest.raises(EnvironmentLackingError, match=what):
            require_token(environ)
    token.parent.mkdir()
    for text, bits, what in (("\n", 0o600, "is empty"), ("t", 0o644, "others may read")):
        token.write_text(text)
        token.chmod(bits)
        with pytest.raises(EnvironmentLackingError, match=what) as refused:
            require_token(mode)
        assert refused.value.hint
    token.chmod(0o600)
    require_token(mode)
    require_token({**mode, "RAY_AUTH_TOKEN_PATH": str(token)})
    require_token({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t"})


def test_nobody_at_the_address_is_said_within_its_bound() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with pytest.raises(
            EnvironmentLackingError, match="nobody listens at the cluster's address: Connection refused"
        ):
            require_somebody("127.0.0.1", port, 1.0)


def test_a_token_that_is_no_file_or_another_users_is_refused(tmp_path: Path) -> None:
    pipe, others = tmp_path / "pipe", tmp_path / "others"
    os.mkfifo(pipe, 0o600)
    others.write_text("t")
    others.chmod(0o600)
    os.chown(others, 12345, 12345)
    for path, what in ((pipe, "this is no file"), (others, "the file is another user's, who may read the cluster's")):
        with pytest.raises(EnvironmentLackingError, match=what):
            require_token({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(path)})


@pytest.mark.parametrize(
    ("ours", "others", "what"),
    [
        ("exit 0", "exit 1", None),
        ("exit 1", "exit 1", "no Ray 2.60 with our token answers"),
        ("sleep 9", "exit 1", "no Ray 2.60 with our token answers"),
        ("exit 0", "exit 0", "the cluster answers without a token"),
        ("exit 0", "sleep 9", "whether the cluster works without a token was not to be told within 0.5 s"),
        ("exit 0", "kill -9 $$", "whether the cluster works without a token was not to be told"),
    ],
)
def test_a_cluster_must_know_our_token_and_refuse_to_work_without(
    monkeypatch: pytest.MonkeyPatch, ours: str, others: str, what: str | None
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    asked: list[tuple[Mapping[str, str], subprocess.Popen[bytes]]] = []

    def question(address: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        shell = ours if environ["RAY_AUTH_MODE"] == "token" else others
        asked.append((environ, subprocess.Popen(["sh", "-c", shell])))
        return asked[-1][1]

    monkeypatch.setattr(cluster_address, "_question", question)
    if what is None:
        cluster_address.require_token_asked_for("h:1", 5.0)
    else:
        with pytest.raises(EnvironmentLackingError, match=what):
            cluster_address.require_token_asked_for("h:1", 0.5)
    assert "RAY_AUTH_TOKEN" not in asked[1][0]
    assert all(process.returncode is not None for _, process in asked), "no question is left"


def test_a_question_tells_its_command_line_no_token_and_ends_with_its_asker(tmp_path: Path) -> None:
    """Ray is not needed: the test checks the process that becomes it."""
    package = tmp_path / "ray" / "scripts"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "scripts.py").write_text("import time\ntime.sleep(60)\n")
    code = (
        "import os, sys, time\n"
        "from bufferlab.execute.fleet.cluster_address import _question\n"
        "question = _question('h:1', dict(os.environ))\n"
        "time.sleep(1)\n"
        "print(question.pid, open(f'/proc/{question.pid}/cmdline').read(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / "python")])
    environ = {**os.environ, "PYTHONPATH": path, "RAY_AUTH_TOKEN": "s3cret"}
    done = subprocess.run([sys.executable, "-P", "-c", code], env=environ, capture_output=True, text=True, check=False)
    pid, words = done.stdout.split(" ", 1)
    assert "health-check" in words
    assert "s3cret" not in words
    wait_until(lambda: not is_alive(int(pid)), "the end of the question", 10)


@pytest.mark.parametrize(
    ("version", "what", "hint"),
    [
        (None, "Ray is not installed here", "pip install 'bufferlab[fleet]'"),
        ("2.59.1", "Ray 2.59.1 is installed here, and bufferlab knows Ray 2.60", "on every node"),
        ("3.0.0", "Ray 3.0.0 is installed", "on every node"),
    ],
)
def test_no_ray_and_another_ray_are_refused_with_what_to_install(
    experiment: spec.Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str | None,
    what: str,
    hint: str,
) -> None:
    def told(name: str) -> str:
        if version is None:
            raise metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(cluster_address.metadata, "version", told)
    with pytest.raises(EnvironmentLackingError, match=what) as refused:
        run_on_cluster(experiment, tmp_path / "runs", "127.0.0.1:6379", Silent(), SweepOptions())
    assert hint in str(refused.value.hint)
    assert not (tmp_path / "runs").exists()


def test_a_server_that_runs_already_is_no_work_for_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bufferlab.execute.fleet.fleet_sweep.require_cluster", lambda address: [])
    url = spec.Overrides(engine="mysql", set_knobs=(("server", "mysql://me@db.example/lab"),))
    with pytest.raises(SpecError, match="all nodes would measure the one server"):
        run_on_cluster(spec.load("hot-rows", url), tmp_path, "h:1", Silent(), SweepOptions())


def test_the_command_refuses_what_cannot_be_and_names_what_to_do(bench: Bench, tmp_path: Path) -> None:
    experiment = bench.experiment()
    gathering = Gathering.create(tmp_path, spec.load(experiment), range(2), NodeOptions())
    for arguments, code, what in (
        (("run", experiment, "--ray", "auto", "--out", bench.out), 2, "not the address of a cluster's head"),
        (("run", "--resume", gathering.path), 2, "this sweep was begun on a cluster"),
        (("run", experiment, "--resume", gathering.path, "--ray", "h:1"), 2, "a resumed sweep is run as it was begun"),
        (("run", "--resume", bench.root, "--ray", "h:1"), 2, "no sweep of a cluster is in this folder"),
        (("run", "--resume", gathering.path, "--ray", "h:1", "--out", bench.out), 2, "exclude each other"),
        (("run", "--resume", gathering.path, "--ray", "h:1", "--share-device"), 2, "is run as it was begun"),
        (("run", "--resume", gathering.path, "--ray", "h:1", "--no-page-trace"), 2, "is run as it was begun"),
        (("run", "--resume", gathering.path, "--ray", "h:1", "--probe", "block-trace"), 2, "is run as it was begun"),
        (("run", "--resume", gathering.path, "--ray", "h:1", "--dry-run"), 0, ""),
    ):
        ended = bench.bufferlab(*arguments)
        assert (ended.code, "Traceback" in ended.err) == (code, False), ended.err
        assert what in ended.err


def test_nothing_imports_ray_but_one_file_and_that_only_in_the_courier() -> None:
    package = ROOT / "python" / "bufferlab"
    importing = [
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if any(line.lstrip().startswith(("import ray", "from ray")) for line in path.read_text().splitlines())
    ]
    assert importing == ["execute/fleet/ray_cluster.py"]
    code = (
        "import sys, bufferlab, bufferlab.cli.run, bufferlab.execute.fleet.fleet_sweep, bufferlab.execute.fleet.node\n"
        "bufferlab.read\n"
        "sys.exit('ray' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-P", "-c", code], env=bench_environment(), check=False).returncode == 0


def bench_environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "python")}
