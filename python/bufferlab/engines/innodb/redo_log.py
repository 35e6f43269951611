"""The redo log's capacity by the names of each version: one variable, or the size of a file times the files' number.

MySQL has innodb_redo_log_capacity from 8.0.30 on. Earlier ones have innodb_log_files_in_group files, and so has MariaDB
before 10.5, with two by default; newer MariaDB has one file (ha_innodb.cc). The servers make the files anew at a start.
"""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.versions import has

CAPACITY = "redo_log_capacity"
"""The knob."""
_VARIABLE, _FILE_BYTES, _FILES = "innodb_redo_log_capacity", "innodb_log_file_size", "innodb_log_files_in_group"
_HAS_CAPACITY = "mysql >= 8.0.30"
_HAS_ONE_FILE = "mariadb >= 10.5"
_OWN_FILES = 2


def spelled(flavour: str, version: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return a server's variables with the capacity by the name that this version has.

    Raises EngineFailure if the size of a file is among them too.
    """
    found = dict(settings)
    if has(_HAS_CAPACITY, flavour, version) or _VARIABLE not in found:
        return found
    capacity = int(found.pop(_VARIABLE))
    if _FILE_BYTES in found:
        what = f"{CAPACITY} and log_file_size set the same: this server has {_FILE_BYTES} alone"
        raise EngineFailure("usage", what, CAPACITY, "ask for one of them")
    files = 1 if has(_HAS_ONE_FILE, flavour, version) else int(found.get(_FILES, _OWN_FILES))
    return {**found, _FILE_BYTES: str(capacity // files)}


def capacity_bytes(variables: Mapping[str, str]) -> int:
    """Return the bytes of all redo log files together, from the variables that a server shows; 0 if it shows none."""
    if capacity := variables.get(_VARIABLE):
        return int(capacity)
    return int(variables.get(_FILE_BYTES, 0)) * int(variables.get(_FILES, 1))
