"""Downloads packages of one Debian release with apt-get, also on a machine that runs another release.

apt-get gets its lists, cache and sources in a temporary folder, so that it needs no root and does not change those of
the machine. The mirror is the one in the machine's sources; apt-get checks the release's signatures with Debian's keys.
A signed list that has expired is still used, because a mirror may be frozen; `expired` reports it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path

from bufferlab.engines.servers.child_process import LOADER
from bufferlab.errors import EnvironmentLackingError

RELEASE = "bookworm"
"""The release whose packages this code knows by name."""
UNSTABLE = "sid"
"""The release for which Debian has no separate suites of updates and security updates."""
EXPERIMENTAL = "experimental"
"""The suite for packages that are in no release yet; their dependencies come from the unstable release."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRRORS = ("/debian/", "/debian-security/")
"""The path suffixes of Debian's archives, which are the same on every mirror."""


_HOOKS = ("APT::Update::Pre-Invoke", "APT::Update::Post-Invoke", "APT::Update::Post-Invoke-Success")
"""The apt settings whose commands `apt-get update` runs (apt.conf(5))."""


def options(folder: Path, release: str = RELEASE) -> list[str]:
    """Return the options that make apt-get read only this release, and write only into `folder`.

    Raise EnvironmentLackingError if this machine's apt sources have no Debian mirror, or Debian's keys are missing.
    """
    sources = folder / "sources.list"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sources.write_text("".join(f"deb [signed-by={_KEYRING}] {line}\n" for line in _sources(release)))
    # An empty status file means that no package is installed. apt-get creates its lock file in the same folder.
    status = folder / "state" / "status"
    status.touch()
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": status,
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        # As root, apt-get would download as the user _apt, who may not write here.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
        # Refuse such repositories even if this machine's apt allows them.
        "Acquire::AllowInsecureRepositories": "false",
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    # Disable the commands that this machine's apt runs with an update, such as emptying its cache.
    cleared = folder / "cleared.conf"
    cleared.write_text("".join(f"#clear {hook};\n" for hook in _HOOKS))
    return ["-c", str(cleared), *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]


def expired(folder: Path) -> list[str]:
    """Return a sentence for each signed list that has expired; `folder` is that of `options`."""
    said = []
    for file in sorted((folder / "state" / "lists").glob("*Release")):
        told = dict(line.split(": ", 1) for line in file.read_text("utf-8", "replace").splitlines() if ": " in line)
        if "Valid-Until" in told and (until := parsedate_to_datetime(told["Valid-Until"])) < datetime.now(UTC):
            suite = told.get("Codename", file.name)
            said.append(f"the mirror's list of {suite} is signed, but expired on {until:%Y-%m-%d}: used all the same")
    return said


def _sources(release: str) -> list[str]:
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    try:
        said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
    except OSError:
        said = ""
    mirrors = {end: uri for uri in said.split() for end in _MIRRORS if uri.endswith(end)}
    if _MIRRORS[0] not in mirrors or not _KEYRING.is_file():
        raise EnvironmentLackingError(
            f"the packages of Debian's {release} cannot be had: this machine's apt names no Debian mirror",
            str(_KEYRING),
            "run it on Debian, or install the server yourself and give its path",
        )
    suites: dict[str, tuple[str, ...]] = {_MIRRORS[0]: (release,), _MIRRORS[1]: ()}
    if release == EXPERIMENTAL:
        suites[_MIRRORS[0]] = (UNSTABLE, EXPERIMENTAL)
    elif release != UNSTABLE:
        suites = {_MIRRORS[0]: (release, f"{release}-updates"), _MIRRORS[1]: (f"{release}-security",)}
    return [f"{uri} {suite} main" for end, uri in sorted(mirrors.items()) for suite in suites[end]]


def needed_libraries(packages: Iterable[Path]) -> list[str]:
    """Return the shared library packages, except Perl's, on which these .deb files depend."""
    found: dict[str, None] = {}
    for file in packages:
        asked = ["dpkg-deb", "-f", str(file), "Depends"]
        said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
        names = [one.strip().split(" ")[0].split(":")[0] for one in said.split(",")]
        found |= dict.fromkeys(name for name in names if name.startswith("lib") and not name.endswith("-perl"))
    return list(found)


def libraries(unpacked: Path) -> list[Path]:
    """Return the shared libraries and their dynamic loader, links included, from the folders of Debian's packages."""
    folders = [folder for root in (unpacked, unpacked / "usr") for folder in root.glob("lib/*-linux-gnu*")]
    return [path for folder in folders for pattern in ("lib*.so*", LOADER) for path in folder.glob(pattern)]
