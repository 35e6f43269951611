"""What people expect of every command line: versions, corrections, completion, manual pages."""

from __future__ import annotations

import re
import subprocess
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from bufferlab import __version__, catalog
from bufferlab.cli import doctor, version
from bufferlab.cli.app import COMMANDS
from support.core import ROOT
from support.fake import Bench


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_names_core_sqlite_and_the_commit(bench: Bench, option: str) -> None:
    ended = bench.bufferlab(option)
    assert ended.code == 0
    told = dict(line.split(" ", 1) for line in ended.out.splitlines())
    assert told["bufferlab"] == told["core"] == __version__
    assert re.fullmatch(r"3\.\d+\.\d+", told["SQLite"])
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    if head.returncode == 0:
        assert head.stdout.startswith(told["commit"].rstrip("+"))


def test_a_package_tells_the_commit_that_it_was_built_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib/site-packages/bufferlab"
    package.mkdir(parents=True)
    monkeypatch.setattr(version, "_PACKAGE", package)
    monkeypatch.setattr(version, "BUILT_FROM", package / "commit.txt")
    assert "commit unknown" in version.version_text()
    (package / "commit.txt").write_text("0123456789ab\n")
    assert "commit 0123456789ab\n" in version.version_text()


@pytest.mark.parametrize("given", [("--server", "/\udcff"), ("--duration", "\udcff"), ("--set", "rows=\udcff")])
def test_a_value_that_is_no_utf_8_is_refused(bench: Bench, given: tuple[str, str]) -> None:
    ended = bench.bufferlab("run", "hot-rows", "--engine", "mysql", "--dry-run", *given)
    assert ended.code == 2
    assert "not UTF-8" in ended.err


@pytest.mark.parametrize("engine", ["mysql", "postgres", "mariadb"])
@pytest.mark.parametrize(
    "server",
    [
        "mysql://[@h/d",
        "postgres://me@h/lab?passwd=s3cret",
        "mysql://me@h/lab?pw=s3cret",
        f"mysql://me@{'a' * 64}/lab",
        f"postgres://me@{'a' * 64}/lab",
        f"/{'a' * 300}",
        f"/{'a/' * 3000}",
    ],
)
def test_a_server_that_cannot_be_is_refused_before_anything_is_planned(bench: Bench, engine: str, server: str) -> None:
    ended = bench.bufferlab("run", "hot-rows", "--engine", engine, "--server", server, "--json")
    assert ended.code in (2, 3)
    assert "s3cret" not in ended.out + ended.err
    planned = bench.bufferlab("run", "hot-rows", "--engine", engine, "--server", server, "--dry-run", "--json")
    assert planned.code == (3 if server.startswith("/") else 2)
    assert "s3cret" not in planned.out + planned.err


@pytest.mark.parametrize(
    ("typed", "meant"), [("runn", "run"), ("repport", "report"), ("docter", "doctor"), ("lst", "list")]
)
def test_a_mistyped_command_is_corrected(bench: Bench, typed: str, meant: str) -> None:
    ended = bench.bufferlab(typed)
    assert ended.code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'?" in ended.err


@pytest.mark.parametrize(
    ("typed", "offered", "kept_back"),
    [
        ("ru", {"run"}, {"report"}),
        ("run buf", {"buffer-size"}, {"noise"}),
        ("run --engine m", {"mysql", "mariadb"}, {"sqlite"}),
        ("run --server mysql-", {"mysql-5.7", "mysql-8.0"}, {"mariadb-10.11"}),
        ("run buffer-size --set p", {"pool_size=", "page_size=", "patience="}, {"shared_buffers=", "io_mode="}),
        ("run buffer-size --engine mysql --sweep flush_m", {"flush_method="}, {"flush_neighbors="}),
        ("run buffer-size --sweep io_mode=", {"io_mode=direct", "io_mode=buffered"}, {"io_mode=mmap"}),
        ("run mistyped --set hot", {"hot_rows="}, {"pool_size="}),
        ("engines fetch postgres-1", {"postgres-15"}, {"mysql-5.7"}),
        ("list m", {"metrics"}, {"load"}),
    ],
)
def test_the_shell_completes_names(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, typed: str, offered: set[str], kept_back: set[str]
) -> None:
    words = f"bufferlab {typed}"
    monkeypatch.setenv("_BUFFERLAB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    ended = bench.bufferlab()
    names = {line.partition(",")[2] for line in ended.out.splitlines()}
    assert offered <= names
    assert not kept_back & names


def test_doctor_fails_where_no_experiment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._experiments().ok
    monkeypatch.setattr(catalog, "builtin_experiments", dict)
    missing = doctor._experiments()
    assert (missing.ok, missing.needed) == (False, True)
    assert "install bufferlab again" in str(missing.hint)


@pytest.fixture
def manual(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return import_module("manual")


def test_every_command_has_a_manual_page_with_all_its_options(manual: ModuleType, tmp_path: Path) -> None:
    pages = {file.stem: file.read_text() for file in manual.write(tmp_path)}
    assert {f"bufferlab-{name}" for name in COMMANDS} < set(pages)
    assert "bufferlab-cache-prune" in pages
    run = pages["bufferlab-run"].replace("\\-", "-")
    assert ".B --engine TEXT\nUse another engine than the experiment's." in run
    assert "--smoke" not in run
    assert ".BR bufferlab-run (1)\n" in pages["bufferlab"].replace("\\-", "-")
    for text in pages.values():
        assert [line for line in text.splitlines() if line.startswith("'")] == []


def test_a_packages_readme_has_no_link_that_needs_the_repository(
    manual: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = import_module("wheel_source")
    text = source.standing_alone((ROOT / "README.md").read_text())
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "experiments/buffer-size/figures" not in text
    assert "docs/installing.md" in text
    assert source.standing_alone("[a](https://a.org) [b](b.md#c)") == "[a](https://a.org) b"
