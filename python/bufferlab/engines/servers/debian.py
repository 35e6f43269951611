"""Downloads packages of one Debian release with apt-get, also on a machine that runs another release.

apt-get gets its lists, cache and sources in a temporary folder, so that it needs no root and changes nothing of the
machine's. The mirror is the one in the machine's sources; apt-get checks the release's signatures with Debian's keys.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bufferlab.errors import EnvironmentLackingError

RELEASE = "bookworm"
"""The release whose packages this code knows by name."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRRORS = ("/debian/", "/debian-security/")
"""The ends of the addresses of Debian's archives, on every mirror."""


def options(folder: Path) -> list[str]:
    """Return the options that make apt-get read only this release, and write only into `folder`.

    Raise EnvironmentLackingError when this machine's apt names no Debian mirror, or Debian's keys are missing.
    """
    sources = folder / "sources.list"
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sources.write_text("".join(f"deb [signed-by={_KEYRING}] {line}\n" for line in _sources()))
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        # As root, apt-get downloads as the user _apt, who may not write here.
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def _sources() -> list[str]:
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    try:
        said = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False).stdout
    except OSError:
        said = ""
    mirrors = {end: uri for uri in said.split() for end in _MIRRORS if uri.endswith(end)}
    if _MIRRORS[0] not in mirrors or not _KEYRING.is_file():
        raise EnvironmentLackingError(
            f"the packages of Debian's {RELEASE} cannot be had: this machine's apt names no Debian mirror",
            str(_KEYRING),
            "run it on Debian, or install the server yourself and give its path",
        )
    suites = {_MIRRORS[0]: (RELEASE, f"{RELEASE}-updates"), _MIRRORS[1]: (f"{RELEASE}-security",)}
    return [f"{uri} {suite} main" for end, uri in sorted(mirrors.items()) for suite in suites[end]]


def libraries(unpacked: Path) -> list[Path]:
    """Return the shared libraries, links included, in the folders where Debian's packages keep them."""
    return [path for root in (unpacked, unpacked / "usr") for path in root.glob("lib/*-linux-gnu*/lib*.so*")]
