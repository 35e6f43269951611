"""Runs commands with fewer rights in a separate root without /sys: a tmpfs in a mount namespace. Needs root."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from support.core import ROOT

NOBODY = ("--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
"""setpriv's options for a user without any capability."""

# Symbolic links of a merged /usr stay links. The interpreter may lie below /root, which only root may enter; in the new
# root every user may.
_CONFINE = """
set -eu
tree=$1; shift
mount -t tmpfs -o mode=755 tmpfs "$tree"
while [ "$1" != -- ]; do
    if [ -L "$1" ]; then
        mkdir -p "$(dirname "$tree$1")"
        ln -s "$(readlink "$1")" "$tree$1"
    elif [ -d "$1" ]; then
        mkdir -p "$tree$1"
        mount --bind "$1" "$tree$1"
    elif [ -e "$1" ]; then
        mkdir -p "$(dirname "$tree$1")"
        touch "$tree$1"
        mount --bind "$1" "$tree$1"
    fi
    shift
done
shift
mkdir -p "$tree/proc" "$tree/dev/shm" "$tree/tmp"
mount -t proc proc "$tree/proc"
mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$tree/tmp"
exec chroot "$tree" "$@"
"""


def confined(
    root: Path, environment: Mapping[str, str], rights: tuple[str, ...], *command: str, timeout_s: float = 1800
) -> subprocess.CompletedProcess[str]:
    """Run a command with these rights in a root without /sys; all mounts end with the command.

    The command sees the system's programs, this tree, and the folder `root` for its own files.
    """
    (root / "root").mkdir(exist_ok=True)
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev/null", "/dev/zero", "/dev/urandom"]
    ours = dict.fromkeys([sys.base_prefix, sys.prefix, str(ROOT), str(root)])
    own = {"HOME": str(root), "BUFFERLAB_LOCKS": str(root / "locks"), "XDG_STATE_HOME": str(root / "state")}
    words = ["sh", "-c", _CONFINE, "sh", str(root / "root"), *system, *ours, "--", "setpriv", *rights, *command]
    return subprocess.run(
        ["unshare", "--mount", "--propagation=private", *words],
        env={**environment, **own}, cwd="/", capture_output=True, text=True, timeout=timeout_s,
    )  # fmt: skip
