"""Builds learn their sites on private copies: right sites are accepted, wrong ones refused, and nothing is left
behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bufferlab.engines import registry
from bufferlab.engines.native import native
from bufferlab.engines.servers import learnt, page_sites
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.server_names import ON_PATH
from bufferlab.errors import BufferlabError, EnvironmentLackingError
from bufferlab.learn import candidates, learning
from bufferlab.learn.proof import Resident
from real.test_live_trace import copied
from support import innodb, postgres
from support.confined import NOBODY, confined
from support.core import ROOT
from support.fake import wait_until
from support.traced_servers import bpf_programs

pytestmark = pytest.mark.real

EVERY_DAY = "postgres-17"
LATER = ("postgres-18.6", "postgres-19")
CHANGERS = ("MarkBufferDirty", "MarkBufferDirtyHint")
OTHERS = [
    pytest.param(name, marks=[pytest.mark.servers, pytest.mark.slow])
    for name in ("postgres-15", "postgres-16", "postgres-18")
]
OF_MYSQL = [pytest.param(name, marks=[pytest.mark.servers, pytest.mark.slow]) for name in ("mysql-5.7", "mysql-8.0")]
IS_ROOT = os.geteuid() == 0
CALL = 0xE8
"""The first byte of a call."""


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder with a separate cache; at the end no file of a learner may be left in it."""
    with innodb.folder() as root:
        monkeypatch.setenv("BUFFERLAB_CACHE", str(root / "cache"))
        yield root
        wait_until(lambda: postgres.processes(root) == [], "its servers to end")
        assert left(root) == []
        assert [link for link in descriptors() if "bpf" in link] == []


def descriptors() -> list[str]:
    """Return the open files of this process."""
    links = []
    for one in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            links.append(os.readlink(one))
    return links


def left(root: Path) -> list[str]:
    """Return the folders of learners below a folder with a cache."""
    return [place.name for place in (root / "cache/learning").glob("*")]


def recorders() -> list[str]:
    """Return the recorders that can prove a build on this host."""
    try:
        native().live_trace_check()
    except Exception as error:
        print(f"NOT TESTED: the kernel's links do not work here: {error}")
        return ["inside"]
    return ["links", "inside"]


def shipped(build: Build) -> dict[str, Any]:
    """Return a build's entry of page_sites.toml; skip the test with a message if there is none."""
    table = tomllib.loads(registry.family(build.flavour).page_sites_table.read_text())["build"]
    digest = page_sites.text_sha256(build.binary)
    for entry in table:
        if entry["text_sha256"] == digest:
            return entry  # type: ignore[no-any-return]
    pytest.skip(f"NOT TESTED: page_sites.toml has not the build of {build.binary}")


@pytest.mark.parametrize("name", [EVERY_DAY, *OTHERS])
def test_a_build_learns_the_sites_that_a_person_found(name: str, root: Path) -> None:
    build = postgres.build(name)
    steps: list[str] = []
    outcome = learning.learn(build, steps.append)
    assert outcome.wrong == []
    assert outcome.without_writes is None
    assert outcome.entry.proof["by"] == recorders()
    assert len(steps) == 2 + len(recorders())
    for one in outcome.proofs:
        # Sessions take the times of their records themselves: two that access one page at once may be in the other
        # order.
        assert one.came_again + one.absent <= 5
        assert one.resident_pages == Resident(512, 512, 512)
    assert outcome.proofs[-1].written
    for window in outcome.proofs[-1].written.compared:
        assert window.recorded <= window.counted <= window.recorded_at_most
    learning.keep(outcome.entry, None)
    digest = page_sites.text_sha256(build.binary)
    assert learnt.of_build(digest, build.binary, by_root_alone=IS_ROOT) == outcome.entry == learning.kept(build)
    no_table = root / "table.toml"
    no_table.write_text("build = []\n")
    for in_use in (False, True) if IS_ROOT else (False,):
        known = page_sites.known(no_table, build.binary, in_use=in_use)
        assert (known and known.settings) == (outcome.entry.settings if not in_use or "links" in recorders() else None)
    ours = {tuple(site["kinds"]): site for site in outcome.entry.settings["site"] if not of_writes(site)}
    assert sorted(ours) == [("create",), ("evict",), ("get",), ("get", "read")]
    assert {site["at"] for site in outcome.entry.settings["site"] if of_writes(site)} == {*CHANGERS, "FlushBuffer"}
    for theirs in (site for site in shipped(build)["site"] if not of_writes(site)):
        # For version 15 a person chose the site of reads and, for evictions, the entry of the function that the
        # victim's function calls.
        is_same = theirs["byte"] == CALL or theirs["kinds"] == ["get"]
        assert is_same == (build.numbers[0] >= 16 or theirs["kinds"] == ["get"])
        site = ours[tuple(theirs["kinds"])]
        if not is_same:
            assert site["byte"] == CALL
            continue
        assert (site["offset"], site["byte"], site.get("inside")) == tuple(
            theirs.get(key) for key in ("offset", "byte", "inside")
        )
        # The name may have a suffix of the compiler, and the record of a read has the IOContext in place of the
        # strategy.
        assert site["at"].split(".")[0] == theirs["at"]
        assert site["fetch"][:8] == theirs["fetch"][:8]
        if theirs["kinds"] == ["get", "read"]:
            assert (site["fetch"][8:10], site["fetch"][10] != "\\9") == (["\\1", "\\0"], True)
        else:
            assert site["fetch"][8:10] == theirs["fetch"][8:10]


def of_writes(site: Mapping[str, Any]) -> bool:
    """Return whether changed or written pages pass a site."""
    return bool(page_sites.WRITES & {*site["kinds"]})


@pytest.mark.parametrize(
    "name",
    [
        EVERY_DAY,
        pytest.param(ON_PATH, marks=pytest.mark.slow),
        *OTHERS,
        *(pytest.param(name, marks=[pytest.mark.servers, pytest.mark.slow]) for name in LATER),
    ],
)
def test_the_proposed_places_of_changes_and_writes_record_what_those_record_that_a_person_found(name: str) -> None:
    build = postgres.build(name)
    theirs = [site for site in shipped(build)["site"] if of_writes(site)]
    told = json.loads(native().page_site_proposals(str(build.binary)))
    ours = [site for site in told["sites"] if of_writes(site)]
    assert told["without_writes"] is None
    assert [site["at"] for site in ours] == [site["at"] for site in theirs]
    assert ours == told["sites"][-len(ours) :], "the others keep their numbers without them"
    for site, other in zip(ours, theirs, strict=True):
        assert (site["kinds"], site["fetch"][:10], site["inside"]) == (other["kinds"], other["fetch"][:10], None)
        # A person chose the read of the state, of 3 to 5 bytes. The test comes next, or after a `not` of 2 bytes.
        assert 0 <= site["offset"] - other["offset"] <= (7 if site["at"] == "MarkBufferDirtyHint" else 0)


def places(settings: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Return the sites that both a person and names alone find on MySQL: all but those found by the count of gets."""
    return sorted(
        (site["kinds"], site["offset"], site["byte"], site["fetch"])
        for site in settings["site"]
        if site["kinds"] != ["get"] or site["at"] == "buf_page_get_gen"
    )


@pytest.mark.parametrize("name", OF_MYSQL)
def test_a_build_of_mysql_learns_the_places_that_a_person_found(name: str, root: Path) -> None:
    build = innodb.build(name)
    steps: list[str] = []
    outcome = learning.learn(build, steps.append)
    assert outcome.wrong == []
    assert outcome.entry.proof["by"] == recorders(), steps
    for one in outcome.proofs:
        assert one.came_again + one.absent <= 5
        # The question for the list moves a few pages itself. The cleaner keeps 100 of 512 frames free, and more just
        # after a round: 376 to 512 pages were seen.
        assert one.resident_pages.both > 0.9 * one.resident_pages.listed > 300
    learning.keep(outcome.entry, None)
    assert learnt.of_build(page_sites.text_sha256(build.binary), build.binary) == outcome.entry
    ours, theirs = outcome.entry.settings, shipped(build)
    assert [ours[name] for name in ("fields", "modes_if_in_pool")] == [theirs["fields"], theirs["modes_if_in_pool"]]
    assert places(ours) == places(theirs)
    assert {kind for site in ours["site"] for kind in site["kinds"]} == {"get", "read", "create", "evict", "prefetch"}
    assert not any(map(candidates.is_unknown, ours["site"]))


def of_kinds(settings: dict[str, Any], *kinds: str) -> dict[str, Any]:
    (site,) = (site for site in settings["site"] if site["kinds"] == list(kinds))
    return site  # type: ignore[no-any-return]


def evictions_of_dropped_pages(settings: dict[str, Any], build: Build) -> None:
    """Move the site to the other function that takes pages out of the table of pages: InvalidateBuffer."""
    victim = of_kinds({"site": shipped(build)["site"]}, "evict")["offset"]
    rest = [site for site in settings["site"] if site["offset"] != victim]
    assert len(rest) == len(settings["site"]) - 1
    assert any(site["kinds"] == ["evict"] for site in rest)
    settings["site"] = rest


def creations_with_another_register(settings: dict[str, Any], build: Build) -> None:
    of_kinds(settings, "create")["fetch"][4] = "%cx"


def reads_with_fork_and_block_exchanged(settings: dict[str, Any], build: Build) -> None:
    fetch = of_kinds(settings, "get", "read")["fetch"]
    fetch[3], fetch[4] = fetch[4], fetch[3]


def gets_of_what_is_8_bytes_further(settings: dict[str, Any], build: Build) -> None:
    fetch = of_kinds(settings, "get")["fetch"]
    for place in range(5):
        distance, register = fetch[place].split("(")
        fetch[place] = f"+{int(distance) + 8}({register}"


def gets_without_a_strategy(settings: dict[str, Any], build: Build) -> None:
    of_kinds(settings, "get")["fetch"][8:10] = ["%sp", "+0(%sp)"]


WRONG: list[tuple[Callable[[dict[str, Any], Build], None], str]] = [
    (evictions_of_dropped_pages, "of kind evict were recorded"),
    (creations_with_another_register, "pages differ between the trace's pool and the 512 that the server lists"),
    (reads_with_fork_and_block_exchanged, "pages differ between the trace's pool and the 512 that the server lists"),
    (gets_of_what_is_8_bytes_further, "gets are of pages that the trace has not in the pool"),
    (gets_without_a_strategy, "of the gets show that they have no ring"),
]


def plant(
    monkeypatch: pytest.MonkeyPatch, build: Build, change: Callable[[dict[str, Any], Build], None]
) -> dict[str, Any]:
    """Change the proposed sites of a build; return the build."""
    lesson = registry.family(build.flavour).lesson
    assert lesson
    settings = candidates.proposed(build.binary, build.binary, lesson)
    change(settings, build)
    monkeypatch.setattr(candidates, "proposed", lambda binary, original, lesson: settings)
    return settings


@pytest.mark.parametrize(
    ("change", "told"),
    [WRONG[0], WRONG[1], *(pytest.param(*one, marks=pytest.mark.slow) for one in WRONG[2:])],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_wrong_sites_are_refused(
    change: Callable[[dict[str, Any], Build], None], told: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = postgres.build(EVERY_DAY)
    plant(monkeypatch, build, change)
    outcome = learning.learn(build, print)
    assert any(told in one for one in outcome.wrong), outcome.wrong
    assert outcome.wrong[0].startswith(f"by the recorder {recorders()[0]}, ")
    assert len(outcome.proofs) == 1, "no code is put into a server at wrong places"
    assert outcome.entry.proof["by"] == []
    assert learnt.of_build(page_sites.text_sha256(build.binary), build.binary) is None
    assert learning.told(outcome)["status"] == "refused"


def reads_of_other_registers(settings: dict[str, Any], build: Build) -> None:
    of_kinds(settings, "read")["fetch"][:2] = ["%cx", "%si"]


def evictions_where_pages_are_got(settings: dict[str, Any], build: Build) -> None:
    got = next(site for site in settings["site"] if site.get("tries"))["tries"][-1]
    name = got["registers"][0]
    fetch = [f"+0({name})", f"+4({name})", "\\0", "\\0"]
    of_kinds(settings, "evict").update(offset=got["offset"], byte=got["byte"], fetch=fetch)


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (reads_of_other_registers, "pages differ between the trace's pool and the "),
        (evictions_where_pages_are_got, "of kind evict were recorded"),
    ],
    ids=["reads", "evictions"],
)
def test_wrong_sites_of_mysql_are_refused(
    change: Callable[[dict[str, Any], Build], None], told: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if recorders() == ["inside"]:
        pytest.skip("NOT TESTED: only the kernel's links are safe at a wrong place")
    build = innodb.build("mysql-5.7")
    plant(monkeypatch, build, change)
    outcome = learning.learn(build, print)
    assert any(told in one for one in outcome.wrong), outcome.wrong
    assert [one.by for one in outcome.proofs] == ["links"], "no code is put into a server at wrong places"
    assert outcome.entry.proof["by"] == []


@pytest.mark.slow
def test_evictions_that_are_not_for_want_of_room_are_refused_where_a_table_is_dropped(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = postgres.build(EVERY_DAY)
    monkeypatch.setattr(candidates, "with_evictions", lambda settings, victims: settings)
    wrong = learning.learn(build, print).wrong
    assert any(
        one.startswith(f"by the recorder {recorders()[0]}, load with DROP: ") and "of kind evict" in one
        for one in wrong
    )


@pytest.mark.slow
def test_a_place_8_bytes_further_is_refused_whatever_the_server_does_then(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = postgres.build(EVERY_DAY)

    def further(settings: dict[str, Any], build: Build) -> None:
        site = of_kinds(settings, "get")
        site["offset"] += 8
        site["byte"] = build.binary.read_bytes()[site["offset"]]
        site.pop("inside", None)

    plant(monkeypatch, build, further)
    try:
        wrong = learning.learn(build, print).wrong
    except BufferlabError as error:
        wrong = [error.what]
    print(wrong)
    assert wrong


def test_a_server_that_cannot_list_its_pages_is_refused_with_the_way_to_help_it(root: Path) -> None:
    build = copied(postgres.build(EVERY_DAY), root)
    files = [file for file in (root / "build").rglob("pg_buffercache*") if file.is_file() or file.is_symlink()]
    assert files
    for file in files:
        file.unlink()
    with pytest.raises(EnvironmentLackingError) as refused:
        learning.learn(build, print)
    assert refused.value.what.startswith("this build cannot be learnt: its server cannot list the pages in its pool: ")
    assert refused.value.where == str(build.binary)
    assert "postgresql-contrib" in str(refused.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        "recording which evictions", "comparing by code",
        # The test lists all programs of the kernel.
        pytest.param("comparing by the kernel's links", marks=pytest.mark.alone),
    ],
)  # fmt: skip
def test_a_killed_learner_leaves_no_server_and_the_next_one_removes_its_folder(step: str, root: Path) -> None:
    if "links" in step and recorders() == ["inside"]:
        pytest.skip("NOT TESTED: the kernel's links do not work here")
    before = bpf_programs() if "links" in step else set()
    build = postgres.build(EVERY_DAY)
    with subprocess.Popen(
        [sys.executable, "-m", "bufferlab", "learn", str(build.binary)], stderr=subprocess.PIPE, text=True
    ) as learner:  # fmt: skip
        assert learner.stderr
        told = next(line for line in learner.stderr if step in line)
        assert told
        wait_until(lambda: len(postgres.processes(root)) > 3, "its server")
        if "links" in step:
            wait_until(lambda: bool(bpf_programs() - before), "its programs in the kernel")
        learner.send_signal(signal.SIGKILL)
        assert learner.wait(30) == -signal.SIGKILL
    wait_until(lambda: postgres.processes(root) == [], "its server to end")
    if "links" in step:
        wait_until(lambda: bpf_programs() <= before, "its programs in the kernel to end")
    (killed,) = left(root)
    assert not (root / "cache/learnt").exists()
    outcome = learning.learn(build, print)
    assert outcome.wrong == []
    assert killed not in left(root)


@pytest.mark.slow
@pytest.mark.skipif(not IS_ROOT or not shutil.which("setpriv"), reason="NOT TESTED: a chroot needs root")
def test_a_user_without_rights_learns_a_build_from_inside_alone(root: Path) -> None:
    build = copied(postgres.build(EVERY_DAY), root)
    subprocess.run(["chown", "-R", "65534:65534", str(root)], check=True)
    command = [sys.executable, "-m", "bufferlab", "learn", str(build.binary), "--json"]
    told = confined(root, {**os.environ, "PYTHONPATH": str(ROOT / "python")}, NOBODY, *command)
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["proved_by"] == ["inside"]
    digest = page_sites.text_sha256(build.binary)
    assert learnt.of_build(digest, build.binary) is not None
    with pytest.raises(EnvironmentLackingError, match="could be written by others than root"):
        learnt.of_build(digest, build.binary, by_root_alone=True)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_learner_leaves_nothing(number: signal.Signals, root: Path) -> None:
    build = postgres.build(EVERY_DAY)
    with subprocess.Popen(
        [sys.executable, "-m", "bufferlab", "learn", str(build.binary)], stderr=subprocess.PIPE, text=True
    ) as learner:  # fmt: skip
        assert learner.stderr
        assert any("comparing by code" in line for line in learner.stderr)
        wait_until(lambda: len(postgres.processes(root)) > 3, "its server")
        learner.send_signal(number)
        assert learner.wait(60) in (130, 143)
        assert "interrupted" in learner.stderr.read()
    assert postgres.processes(root) == []
    assert left(root) == []
