"""A dump as a script's data: the contents of its head, refusals of an experiment, the keys of data, and what is
kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bufferlab import marked, spec
from bufferlab.engines.behaviour import EngineFailure
from bufferlab.engines.postgres import programs, restore
from bufferlab.engines.servers import child_process, data_folder
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.dump_head import DumpHead, read_head
from bufferlab.engines.servers.restoring import Dump, RoomWatch, require_restorable
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute.data import leftovers
from bufferlab.execute.data.datasets import Datasets
from bufferlab.execute.run.jobs import load_workload
from bufferlab.execute.sweep import SweepOptions, run_sweep
from bufferlab.plan import estimated_facts, needed_data, points_of, stored_workload
from bufferlab.spec import Experiment, Overrides, to_toml
from bufferlab.spec.experiment import DumpFile as SpecDump
from support.fake import Bench, Heard

HEAD = b"-- MySQL dump 10.13  Distrib 5.7.22, for Linux (x86_64)\n--\n-- Host: localhost    Database: shop\n--\n"
TAIL = b"\n-- Dump completed on 2026-11-25 12:00:00\n"
MARIADB = b"/*M!999999\\- enable the sandbox mode */ \n-- MariaDB dump 10.19-11.4.5-MariaDB, for Linux (x86_64)\n--\n"


def of_mysql(version: str = "5.7.22-log", *, head: bytes = HEAD, tail: bytes = TAIL) -> bytes:
    rows = b"CREATE TABLE `t` (`a` int);\nINSERT INTO `t` VALUES (1);\n"
    return head + b"-- Server version\t" + version.encode() + b"\n\n" + rows + tail


def of_postgres(version: str = "15.6", *, form: int = 1, archive: tuple[int, int] = (1, 15)) -> bytes:
    def number(value: int) -> bytes:
        return b"\0" + value.to_bytes(4, "little")

    def text(value: str) -> bytes:
        return number(len(value)) + value.encode()

    compression = b"\1" if archive >= (1, 15) else number(6)
    head = b"PGDMP" + bytes([*archive, 0, 4, 8, form]) + compression + number(1) * 7
    # bufferlab leaves a table of contents that it cannot read to pg_restore.
    return head + text("shop") + text(version) + text("16.1 (Debian 16.1-1)") + b"\1" * 100


def written(folder: Path, text: bytes, name: str = "app.sql") -> Path:
    path = folder / name
    path.write_bytes(text)
    return path


@pytest.mark.parametrize(
    ("text", "head"),
    [
        (of_mysql(), DumpHead("mysql", "5.7.22-log", "5.7.22-log")),
        (of_mysql("11.4.5-MariaDB", head=MARIADB), DumpHead("mariadb", "11.4.5-MariaDB", "11.4.5-MariaDB")),
        (of_mysql("8.0.36", head=MARIADB), DumpHead("mysql", "8.0.36", "8.0.36")),
        (of_mysql(tail=b"-- Dump completed\n"), DumpHead("mysql", "5.7.22-log", "5.7.22-log")),
        (of_postgres(), DumpHead("postgres", "15.6", "16.1 (Debian 16.1-1)")),
        (of_postgres("14.1", archive=(1, 14)), DumpHead("postgres", "14.1", "16.1 (Debian 16.1-1)")),
    ],
)
def test_a_dump_tells_its_server(text: bytes, head: DumpHead, tmp_path: Path) -> None:
    assert read_head(written(tmp_path, text)) == head


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        (b"--\n-- PostgreSQL database dump\n--\n", "a plain pg_dump", "-Fc"),
        (b"--\n-- PostgreSQL database cluster dump\n--\n", "a plain pg_dump", "-Fc"),
        (bytes(257) + b"ustar", "an archive of tar", "-Fc"),
        (of_postgres(form=3), "not pg_dump's custom format", "-Fc"),
        (of_postgres()[:40], "header is damaged", "again"),
        (b"PGDMP\1\x0f\0\4\xff\1" + b"\xff" * 200, "header is damaged", "again"),
        (b"\x1f\x8bxx", "is compressed", "unpack"),
        ("-- MySQL dump".encode("utf-16"), "UTF-16", "--result-file"),
        (b"", "is empty", "again"),
        (b"SELECT 1;\n", "neither a mysqldump nor", "mysqldump"),
        (b"\xef\xbb\xbf" + of_mysql(), "byte order mark", "--result-file"),
        (b"mysqldump: [Warning] Using a password can be insecure.\n" + of_mysql(), "a message of its tool", "2>"),
        (b"mariadb-dump: Error: 'Access denied'\n" + of_mysql(), "a message of its tool", "2>"),
        (of_mysql()[len(HEAD) :].split(b"\n\n", 1)[1].replace(TAIL, b""), "--skip-comments or --compact", "without"),
        (b"\n/*!50503 SET character_set_client = utf8mb4 */;\nCREATE TABLE `t` (", "--skip-comments or", "without"),
        (b"\n/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;\n", "--skip-comments or", "without"),
        (of_mysql(tail=b"INSERT INTO `t` VALUES (1"), "was cut short", "again"),
        (of_mysql(tail=TAIL + b"DROP TABLE x;\n"), "was cut short", "again"),
        (HEAD + b"SELECT 1;\n" + TAIL, "does not tell its server's version", "--skip-comments"),
        (of_mysql("9" * 5000), "does not tell its server's version", "--skip-comments"),
    ],
)
def test_what_is_no_dump_that_can_be_restored_is_refused_by_name(
    text: bytes, what: str, hint: str, tmp_path: Path
) -> None:
    with pytest.raises(SpecError) as raised:
        read_head(written(tmp_path, text))
    assert what in raised.value.what
    assert hint in str(raised.value.hint)


def test_a_folder_a_pipe_and_nothing_are_no_dumps(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, what in ((tmp_path, "folder"), (tmp_path / "pipe", "regular file"), (tmp_path / "none", "No such file")):
        with pytest.raises(SpecError, match=what):
            read_head(path)


@pytest.mark.parametrize(
    ("head", "server", "what"),
    [
        (("mysql", "5.7.22"), ("mysql", "5.7.44"), None),
        (("mysql", "5.7.44"), ("mysql", "5.7.22"), None),
        (("mysql", "5.6.1"), ("mysql", "8.0.33"), None),
        (("mysql", "8.4.0"), ("mysql", "8.0.33"), "newer than the server"),
        (("mariadb", "11.8.1-MariaDB"), ("mariadb", "11.4.5"), "newer than the server"),
        (("mysql", "5.7.22"), ("mariadb", "10.11.6"), "the server is MariaDB"),
        (("postgres", "15.18"), ("postgres", "15.2"), None),
        (("postgres", "17.2"), ("postgres", "15.18"), "newer than the server"),
    ],
)
def test_a_dump_of_another_family_or_a_newer_server_is_refused(
    head: tuple[str, str], server: tuple[str, str], what: str | None
) -> None:
    build = Build("path", server[0], server[1], Path("/x"))  # type: ignore[arg-type]
    told = DumpHead(head[0], head[1], head[1])  # type: ignore[arg-type]
    if what is None:
        require_restorable(told, build, Path("/x"))
        return
    with pytest.raises(EngineFailure, match=what):
        require_restorable(told, build, Path("/x"))


def test_a_program_without_a_network_sees_a_loopback_that_is_down(tmp_path: Path) -> None:
    try:
        child_process.require_own_net(None)
    except EnvironmentLackingError as error:
        pytest.skip(f"NOT TESTED: {error}")
    with (tmp_path / "said").open("wb") as output:
        told = ["/bin/sh", "-c", "cat /proc/net/dev; cat /proc/net/if_inet6; cat /proc/net/route"]
        running = child_process.start(
            told, user=None, libraries=None, output=output, folder=tmp_path, own_net=True, own_ipc=True
        )  # fmt: skip
    assert running.wait(30) == 0
    lines = (tmp_path / "said").read_text().splitlines()
    # The lines are two headings, the loopback, no IPv6 address, and the heading of the empty routes.
    assert [line.split(":")[0].strip() for line in lines[2:3]] == ["lo"]
    assert lines[3:] == [line for line in lines[3:] if line.startswith("Iface")]


SCRIPT = "-- transaction: look\nSELECT 1;\n"


def asked(folder: Path, text: bytes, script: str = SCRIPT, **more: object) -> Experiment:
    mine = folder / "mine.sql"
    mine.write_text(script)
    return spec.load(mine, Overrides(dump=str(written(folder, text, "app.dump")), **more))  # type: ignore[arg-type]


def test_a_dump_chooses_the_engine_and_is_kept_with_its_hash(tmp_path: Path) -> None:
    experiment = asked(tmp_path, of_mysql())
    dump = experiment.workload.dump
    assert dump is not None
    assert (experiment.engine, experiment.workload.parameters["data"].asked) == ("mysql", "dump")
    assert (dump.path, dump.size_bytes) == (str(tmp_path / "app.dump"), len(of_mysql()))
    assert asked(tmp_path, of_postgres()).engine == "postgres"
    # The run's dump is read back without the file.
    (tmp_path / "app.dump").unlink()
    assert spec.loads(to_toml(experiment), "experiment.toml") == experiment


def test_another_dump_is_another_point_and_other_data_whatever_its_name(tmp_path: Path) -> None:
    one, other = asked(tmp_path, of_mysql()), asked(tmp_path, of_mysql(tail=b"\n" + TAIL))
    keys = []
    for experiment in (one, other):
        (data,) = needed_data(experiment)
        job = load_workload(experiment.workload, data)
        keys.append(job["dump"]["sha256"])
        point = points_of(experiment, estimated_facts(experiment))[0]
        assert stored_workload(experiment, point)["dump_sha256"] == job["dump"]["sha256"]
        assert stored_workload(experiment, point)["dump"] == "app.dump"
        assert job["data"] is None
        assert Dump.of({"workload": job}) == Dump(tmp_path / "app.dump", job["dump"]["sha256"])
    assert len(set(keys)) == 2
    assert points_of(one, estimated_facts(one))[0].point_key != points_of(other, estimated_facts(other))[0].point_key


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"engine": "sqlite"}, "sqlite has no dumps"),
        ({"engine": "postgres"}, "the dump is of a mysql server"),
        ({"engine": "mariadb"}, "the dump is of a mysql server"),
        ({"set_knobs": (("server", "mysql://me@db/app"),)}, "the server given runs already"),
        ({"sweep": (("server", ("mysql://me@db/app",)),)}, "the server given runs already"),
        ({"set_knobs": (("data", "tpcc"),)}, "data is given twice"),
    ],
)
def test_what_a_dump_cannot_go_with_is_refused(more: dict[str, object], what: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as raised:
        asked(tmp_path, of_mysql(), **more)
    assert what in "\n".join(problem.what for problem in raised.value.problems)


def test_a_script_with_a_setup_and_a_dump_that_is_not_named_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="has no setup section"):
        asked(tmp_path, of_mysql(), "-- setup\nCREATE TABLE t (a int);\n" + SCRIPT)
    (tmp_path / "mine.sql").write_text(SCRIPT)
    with pytest.raises(SpecError, match="no dump is named"):
        spec.load(tmp_path / "mine.sql", Overrides(set_knobs=(("data", "dump"),), engine="mysql"))
    with pytest.raises(SpecError, match="neither a mysqldump nor"):
        asked(tmp_path, b"x")


def test_a_dump_that_changed_and_a_full_disk_have_their_own_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = asked(tmp_path, of_mysql())
    assert experiment.workload.dump is not None
    dump = Dump(tmp_path / "app.dump", experiment.workload.dump.sha256)
    dump.require_unchanged()
    (tmp_path / "app.dump").write_bytes(of_mysql() + b"\n")
    with pytest.raises(EngineFailure, match="SHA-256 differs"):
        dump.require_unchanged()
    (tmp_path / "app.dump").unlink()
    with pytest.raises(EngineFailure, match="cannot be read: No such file") as raised:
        dump.require_unchanged()
    assert raised.value.hint
    room = RoomWatch(tmp_path)
    assert not room.look()
    monkeypatch.setattr("bufferlab.engines.servers.restoring._LEAST_FREE_BYTES", 1 << 62)
    assert room.look()
    assert room.failure().failure.kind == "full_disk"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "bench")


def sweep(bench: Bench, heard: Heard, *, keep: bool) -> None:
    """Do a sweep on a scripted server whose data are declared to be a dump's."""
    path = bench.experiment(workload='name = "script"\nscript = "mine.sql"\ndata = "setup"', repetitions=1)
    path.with_name("mine.sql").write_text(SCRIPT)
    path.write_text(path.read_text().replace('engine = "fake"', 'engine = "fake_server"'))
    with bench.in_environment():
        loaded = spec.load(path)
        workload = loaded.workload.model_copy(update={"dump": spec_dump(path)})
        experiment = loaded.model_copy(update={"workload": workload})
        run_sweep(experiment, bench.out, None, heard, SweepOptions(keeps_restored=keep))


def spec_dump(path: Path) -> SpecDump:
    return SpecDump(path=str(path), sha256="0" * 64, size_bytes=1)


def restored(bench: Bench) -> list[Path]:
    return [file.parent for file in (bench.cache / "data").rglob("manifest.json")]


def test_restored_data_are_for_their_owner_alone_and_go_when_the_sweep_ends(bench: Bench) -> None:
    heard = Heard()
    seen = []
    original = Datasets.release

    def look(self: Datasets) -> None:
        seen.extend((path.name, path.stat().st_mode & 0o777) for path in restored(bench))
        original(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Datasets, "release", look)
        sweep(bench, heard, keep=False)
    ((name, mode),) = seen
    assert name.startswith(marked.TEMPORARY), "what a killed sweep left is found by doctor and cache prune"
    assert mode == 0o700
    assert restored(bench) == []
    assert bench.leftovers() == []


def test_restored_data_that_are_kept_are_used_again_and_stay(bench: Bench) -> None:
    first, second = Heard(), Heard()
    sweep(bench, first, keep=True)
    (kept,) = restored(bench)
    assert not kept.name.startswith(".")
    sweep(bench, second, keep=False)
    assert restored(bench) == [kept]


def test_what_a_killed_sweep_left_of_restored_data_is_found_and_removed(bench: Bench) -> None:
    def killed(self: Datasets) -> None:
        for descriptor in self._in_use.values():  # The kernel closes these descriptors.
            os.close(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Datasets, "release", killed)
        sweep(bench, Heard(), keep=False)
    (left,) = restored(bench)
    assert marked.leftovers(left.parent, f"{marked.TEMPORARY}*") == [left]
    sweep(bench, Heard(), keep=False)
    assert restored(bench) == []


def test_restored_data_that_another_sweep_verifies_stay(bench: Bench) -> None:
    original = Datasets.release
    stayed: list[str] = []

    def verified_by_another(self: Datasets) -> None:
        (key,) = self._in_use
        with leftovers.loaders_kept_out(self._root, key):  # The test holds the lock of the key, as that sweep does.
            original(self)
            stayed.extend(leftovers.remove(leftovers.left_over()).values())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Datasets, "release", verified_by_another)
        sweep(bench, Heard(), keep=False)
    assert stayed == ["it is in use"]
    (left,) = restored(bench)
    with bench.in_environment():
        assert leftovers.remove(leftovers.left_over()) == {}
    assert not left.exists()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('invalid input syntax for type integer: "secret"', 'invalid input syntax for type integer: "..."'),
        ('ERROR:  relation "product" already exists', 'ERROR:  relation "product" already exists'),
        ('COPY failed for table "sale": value "secret" is', 'COPY failed for table "sale": value "..." is'),
        ('COPY failed for table "sale": type integer: "{"a": "secret", "column "secret"}"',
         'COPY failed for table "sale": type integer: "..."'),
    ],
)  # fmt: skip
def test_a_message_of_pg_restore_keeps_names_and_hides_values(said: str, shown: str) -> None:
    assert restore._VALUE.sub(restore._hidden, said) == shown


def test_pg_restore_is_the_oldest_that_reads_the_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"13": "pg_restore (PostgreSQL) 13.4", "15": "pg_restore (PostgreSQL) 15.18 (Debian)", "17": "pg_restore "
            "(PostgreSQL) 17.2", "bad": "bash: no"}  # fmt: skip
    build = Build("path", "postgres", "17.2", tmp_path / "17" / "postgres")
    candidates = [tmp_path / one / "pg_restore" for one in said]
    monkeypatch.setattr(programs, "_candidates", lambda build: iter(candidates))
    monkeypatch.setattr(programs.version_call, "what_it_says", lambda path, *more: said[path.parent.name])
    head = DumpHead("postgres", "14.1", "14.9")
    assert programs.pg_restore(build, head).binary == tmp_path / "15" / "pg_restore"
    with pytest.raises(EnvironmentLackingError, match="needs a pg_restore of 18 or later") as raised:
        programs.pg_restore(build, DumpHead("postgres", "17.1", "18.0"))
    assert "here: 13, 15, 17" in raised.value.what


def test_what_a_newer_pg_restore_sets_in_vain_is_no_error(tmp_path: Path) -> None:
    log = tmp_path / "restore.log"
    unknown = 'unrecognized configuration parameter "transaction_timeout"'
    vain = f"pg_restore: error: could not execute query: ERROR:  {unknown}\nCommand was: SET transaction_timeout = 0;\n"
    log.write_text(f"{vain}pg_restore: warning: errors ignored on restore: 1\n")
    assert restore._errors(log) == []
    log.write_text(vain + 'pg_restore: error: could not execute query: ERROR:  type "x" does not exist\nDETAIL: a\n')
    assert restore._errors(log) == ['could not execute query: ERROR:  type "x" does not exist']


def test_an_option_of_the_dumped_server_that_this_one_lacks_is_explained() -> None:
    hint = restore._hint('could not execute query: ERROR:  unrecognized parameter "pg_attver"')
    assert "a pg_dump as new as that server's last update" in hint


def test_tables_whose_files_cannot_be_counted_have_sizes_and_no_trees(tmp_path: Path) -> None:
    def count(data: Path) -> dict[str, object]:
        raise FileNotFoundError(data / "my@002dtable.ibd")

    data_folder.store_where_known(data_folder.Sizes(4096, {"tables": []}, count), tmp_path)
    stored = data_folder.read_sizes(tmp_path)
    assert (stored["allocated_bytes"], stored["shape"]) == (4096, None)
