"""Servers from Debian's packages: apt-get asked for one release, and libraries that a machine lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from bufferlab.engines.servers import debian
from bufferlab.engines.servers.builds import Build, Flavour
from bufferlab.engines.servers.child_process import MissingLibraryError
from bufferlab.engines.servers.fetch import Package, fetch
from bufferlab.errors import EnvironmentLackingError

SERVER = Package("mariadb-10.11", "mariadb", "apt-get", "mariadb-server-core", None, ".", binary="usr/sbin/mariadbd")
APT_GET = """#!/bin/sh
echo "$*" >>"$CALLS"
case " $* " in
*" indextargets "*) printf '%s\\n' $MIRRORS ;;
*" download "*) shift $(($# - 1)); touch "$1_1.0_amd64.deb" ;;
esac
"""
DPKG = """#!/bin/sh
case $2 in
*/mariadb-server-core_*) mkdir -p "$3/usr/sbin" && touch "$3/usr/sbin/mariadbd" ;;
*/libaio1_*) mkdir -p "$3/lib/x86_64-linux-gnu" && touch "$3/lib/x86_64-linux-gnu/libaio.so.1" ;;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What apt-get was called with, on a Debian whose apt has two mirrors."""
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
    (tmp_path / "cache").mkdir()
    return tmp_path / "calls"


class Machine:
    """A machine that lacks some libraries: a server says so until its own folder has them."""

    def __init__(self, *lacking: str) -> None:
        self.lacking = lacking

    def __call__(self, binary: Path, libraries: Path | None) -> tuple[str, Flavour]:
        for library in self.lacking:
            if libraries is None or not (libraries / library).exists():
                raise MissingLibraryError(library, binary)
        return "10.11.19", "mariadb"


def fetched(machine: Machine) -> Build:
    return fetch(SERVER, machine, lambda text: None)


def test_packages_come_from_the_release_that_has_them_whatever_release_this_machine_runs(calls: Path) -> None:
    assert fetched(Machine()).version == "10.11.19"
    lines = calls.read_text().splitlines()
    assert lines[-1].endswith(" download mariadb-server-core")
    (sources,) = {word for line in lines for word in line.split() if word.startswith("Dir::Etc::sourcelist=")}
    assert "Dir::Etc::sourceparts=/dev/null" in lines[-1], "no other release is asked"
    assert not Path(sources.partition("=")[2]).exists(), "nothing of apt-get's is kept"


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
