"""Parses HammerDB's output of a timed TPROC-C run, of the command line and of hammerdb.log.

Follows src/mysql/mysqloltp.tcl, src/postgresql/pgoltp.tcl and `testresult` of HammerDB 4 and 5, and a log of 4.7 that
its maker published. Older versions print TPM before NOPM. HammerDB itself was not run here.
"""

from __future__ import annotations

import re

from bufferlab.audit.parsers.load_run import LoadParser

_BEGIN = re.compile(r"Beginning rampup time of \d{1,6} minutes?")
_PERIOD = re.compile(r"Timing test period of (\d{1,6}) in minutes")
_USERS = re.compile(r"(\d{1,6}) Active Virtual Users configured")
_RESULT = re.compile(
    r"TEST RESULT : System achieved (?:(\d{1,15}) NOPM from (\d{1,15}) |(\d{1,15}) [\w ]{1,40} TPM at (\d{1,15}) NOPM)"
)
_FAILED = re.compile(r"Vuser (\d{1,6}):FINISHED FAILED")
_USER = re.compile(
    r"Vuser \d{1,6}(?::| created)|Error in Virtual User \d{1,6}:|ALL VIRTUAL USERS COMPLETE|HammerDB CLI v"
)


class HammerdbParser(LoadParser):
    """A parser of HammerDB's lines."""

    tool = "HammerDB"

    def take(self, number: int, text: str, label: str) -> bool:
        """Parse a line under a caption's label; return whether it is HammerDB's."""
        bare = text.strip()
        result = _RESULT.search(bare) if "TEST RESULT" in bare else None
        if not result and not _USER.match(bare):
            return False
        run = self._open
        # A log that was cut or joined may begin a run in its middle.
        begins = result or any(pattern.search(bare) for pattern in (_BEGIN, _PERIOD, _USERS))
        if run is None or (run.nopm is not None and begins):
            run = self._begin(number, label)
        if result:
            nopm, tpm, older_tpm, older_nopm = result.groups()
            run.nopm, run.tpm = int(nopm or older_nopm), int(tpm or older_tpm)
        elif match := _PERIOD.search(bare):
            run.seconds = 60.0 * int(match[1])
        elif match := _USERS.search(bare):
            run.clients = int(match[1])
        elif match := _FAILED.match(bare):
            run.lost.add(match[1])
        return True
