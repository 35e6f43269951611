"""Page traces of servers need no right of the system: no capability, no tracefs, nothing of /sys.

Each run has a root of its own: a tmpfs in a mount namespace, with the folders that Python and bufferlab need.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support import innodb
from support.core import ROOT
from support.traced_servers import Place, require_what_was_counted

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="NOT TESTED: a chroot needs root"),
]

_NOBODY = ("--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
# Root must still be able to give the server another user; to mount tracefs it would need sys_admin.
_ROOT = ("--bounding-set=-sys_admin", "--inh-caps=-all")

# Links of a merged /usr stay links. The interpreter may lie below /root, which only root can pass: here everybody can.
_CONFINE = """
set -eu
tree=$1; shift
mount -t tmpfs -o mode=755 tmpfs "$tree"
while [ "$1" != -- ]; do
    if [ -L "$1" ]; then
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


def confined(place: Place, rights: tuple[str, ...], *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with these rights, in a root without /sys; nothing stays mounted behind it."""
    root = place.out.parent
    (root / "root").mkdir(exist_ok=True)
    system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/dev/null", "/dev/zero", "/dev/urandom"]
    ours = dict.fromkeys([sys.base_prefix, sys.prefix, str(ROOT), str(root)])
    environment = {
        **place.environment,
        "HOME": str(root),
        "BUFFERLAB_LOCKS": str(root / "locks"),
        "XDG_STATE_HOME": str(root / "state"),
    }
    words = ["sh", "-c", _CONFINE, "sh", str(root / "root"), *system, *ours, "--", "setpriv", *rights, *command]
    return subprocess.run(
        ["unshare", "--mount", "--propagation=private", *words],
        env=environment, cwd="/", capture_output=True, text=True, timeout=1800,
    )  # fmt: skip


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with innodb.folder() as root:
        yield Place(root, request.param)


_ASKS = "grep Cap /proc/self/status; id -u; ls /sys; mkdir -p /tmp/t; mount -t tracefs none /tmp/t && echo mounted"


@pytest.mark.parametrize("rights", [_NOBODY, _ROOT], ids=["nobody", "root"])
@pytest.mark.parametrize("place", ["postgres-17", "mysql-5.7"], indirect=True)
def test_a_user_without_rights_records_a_server_where_there_is_no_tracefs(
    place: Place, rights: tuple[str, ...]
) -> None:
    asked = confined(place, rights, "sh", "-c", _ASKS)
    has = dict(line.split(":\t") for line in asked.stdout.splitlines() if ":\t" in line)
    admin = 1 << 21
    assert int(has["CapBnd"], 16) & admin == int(has["CapEff"], 16) & admin == 0
    assert "mounted" not in asked.stdout
    assert "/sys" in asked.stderr
    if rights == _NOBODY:
        assert {int(has[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert "65534" in asked.stdout.splitlines()
    command = place.command("--transactions", "6000")
    if rights == _NOBODY:
        subprocess.run(["chown", "-R", "65534:65534", str(place.out.parent)], check=True)
    done = confined(place, rights, *command)
    assert done.returncode == 0, done.stderr
    require_what_was_counted(place, "inside", gets_within=0.0005)
    for record in place.runs():
        assert record.run.page_trace is not None
        print(place.name, [(one.kind, one.recorded, one.counted) for one in record.run.page_trace.counts])
        (reads,) = [one for one in record.run.page_trace.counts if one.kind == "read"]
        assert reads.recorded == reads.counted
