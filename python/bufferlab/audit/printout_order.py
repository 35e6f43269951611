"""The order of a run's printouts: by captions, by time stamps, or by the server's uptimes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bufferlab.audit.parsers.innodb_status import StatusDump


def timed_dumps(dumps: Sequence[StatusDump]) -> list[tuple[float, StatusDump]]:
    """Return the printouts whose time is known, in the order of time, each with its seconds since a common origin.

    If neither captions nor time stamps give times, the server's uptimes do, in the order of the lines.
    """
    if all(dump.t_s is not None for dump in dumps):
        known = [(dump.t_s or 0.0, dump) for dump in dumps]
    elif is_by_uptime(dumps):
        return _by_uptime([dump for dump in dumps if "uptime_s" in dump.fields])
    else:
        stamped = [dump for dump in dumps if dump.at is not None]
        first = min((dump.at for dump in stamped if dump.at), default=None)
        known = [((dump.at - first).total_seconds(), dump) for dump in stamped if dump.at and first]
    return sorted(known, key=lambda pair: pair[0])


def is_by_uptime(dumps: Sequence[StatusDump]) -> bool:
    """Return whether only the server's uptimes give the time between two printouts."""
    stamped, up = (
        sum(told) > 1
        for told in ([dump.at is not None for dump in dumps], ["uptime_s" in dump.fields for dump in dumps])
    )
    return up and not stamped and not all(dump.t_s is not None for dump in dumps)


def _by_uptime(dumps: Sequence[StatusDump]) -> list[tuple[float, StatusDump]]:
    """Return the printouts with their seconds since the first, from uptimes. A restart counts as taking no time."""
    timed = [(0.0, dumps[0])]
    for a, b in pairwise(dumps):
        before, after = a.fields["uptime_s"], b.fields["uptime_s"]
        timed.append((timed[-1][0] + (after - before if after >= before else after), b))
    return timed


def ordered_dumps(dumps: Sequence[StatusDump]) -> list[StatusDump]:
    """Return the printouts in the order of time.

    If no times are known, return PostgreSQL's printouts of the first file that has any, in the file's order.
    """
    timed = [dump for _, dump in timed_dumps(dumps)]
    if timed:
        return timed
    counted = [dump for dump in dumps if dump.counters]
    return [dump for dump in counted if dump.place.file == counted[0].place.file]
