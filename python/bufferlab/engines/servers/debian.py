"""Downloads packages of one Debian release with apt-get, whatever release this machine runs.

apt-get gets lists, cache and sources of its own in a temporary folder, so that it needs no root and changes nothing of
the machine's. The mirror is that of the machine's own sources; Debian's keys check the release's signatures.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from bufferlab.errors import EnvironmentLackingError

RELEASE = "bookworm"
"""The release whose packages are known by name here."""
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_MIRRORS = ("/debian/", "/debian-security/")
"""How the addresses of Debian's archives end, on every mirror."""


def options(folder: Path) -> list[str]:
    """Return the options that make apt-get read this release alone, and keep all that it writes in `folder`.

    EnvironmentLackingError: this machine is no Debian, so that nothing names a mirror or holds the keys.
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
        # As root apt-get downloads as a user of its own, who may not write here.
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
