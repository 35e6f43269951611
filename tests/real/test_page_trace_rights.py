"""Page traces of servers need no rights of the system: no capability, no tracefs, nothing of /sys.

Each run has a separate root folder (support/confined.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from support import innodb
from support.confined import NOBODY, confined
from support.traced_servers import Place, require_what_was_counted

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="NOT TESTED: a chroot needs root"),
]

# Root must still be able to start the server as another user; mounting tracefs would need sys_admin.
_ROOT = ("--bounding-set=-sys_admin", "--inh-caps=-all")


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    with innodb.folder() as root:
        yield Place(root, request.param)


_ASKS = "grep Cap /proc/self/status; id -u; ls /sys; mkdir -p /tmp/t; mount -t tracefs none /tmp/t && echo mounted"


@pytest.mark.parametrize("rights", [NOBODY, _ROOT], ids=["nobody", "root"])
@pytest.mark.parametrize("place", ["postgres-17", "mysql-5.7"], indirect=True)
def test_a_user_without_rights_records_a_server_where_there_is_no_tracefs(
    place: Place, rights: tuple[str, ...]
) -> None:
    asked = confined(place.out.parent, place.environment, rights, "sh", "-c", _ASKS)
    has = dict(line.split(":\t") for line in asked.stdout.splitlines() if ":\t" in line)
    admin = 1 << 21
    assert int(has["CapBnd"], 16) & admin == int(has["CapEff"], 16) & admin == 0
    assert "mounted" not in asked.stdout
    assert "/sys" in asked.stderr
    if rights == NOBODY:
        assert {int(has[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
        assert "65534" in asked.stdout.splitlines()
    command = place.command("--transactions", "6000")
    if rights == NOBODY:
        subprocess.run(["chown", "-R", "65534:65534", str(place.out.parent)], check=True)
    done = confined(place.out.parent, place.environment, rights, *command)
    assert done.returncode == 0, done.stderr
    require_what_was_counted(place, gets_within=0.0005)
    for record in place.runs():
        assert record.run.page_trace is not None
        print(place.name, [(one.kind, one.recorded, one.counted) for one in record.run.page_trace.counts])
        (reads,) = [one for one in record.run.page_trace.counts if one.kind == "read"]
        # On a busy host pages are read while the server counts, before and after the window.
        assert reads.recorded <= reads.counted <= reads.recorded + reads.at_edges
