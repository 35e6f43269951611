"""Sets the redo log's capacity in each version's own way: by one variable, or as file size times number of files.

MySQL has innodb_redo_log_capacity from 8.0.30 on. Earlier versions have innodb_log_files_in_group files, and so has
MariaDB before 10.5, with two by default; newer MariaDB has one file (ha_innodb.cc). At a start the servers create the
files with the new size.
"""

from __future__ import annotations

from collections.abc import Mapping

from bufferlab.engines.behaviour import EngineFailure
from bufferlab.versions import has

CAPACITY = "redo_log_capacity"
"""The name of the knob."""
_VARIABLE, _FILE_BYTES, _FILES = "innodb_redo_log_capacity", "innodb_log_file_size", "innodb_log_files_in_group"
_HAS_CAPACITY = "mysql >= 8.0.30"
_HAS_ONE_FILE = "mariadb >= 10.5"
_OWN_FILES = 2


def spelled(flavour: str, version: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Return a server's variables with the capacity under this version's names.

    Raises EngineFailure if the variables also contain the size of a log file.
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
    """Return the bytes of all redo log files together, from the variables that a server reports; 0 if there are
    none."""
    if capacity := variables.get(_VARIABLE):
        return int(capacity)
    return int(variables.get(_FILE_BYTES, 0)) * int(variables.get(_FILES, 1))
