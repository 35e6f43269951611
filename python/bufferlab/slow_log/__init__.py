"""Makes a script of transactions from a slow query log of MySQL or MariaDB. Reads no database.

Only the script contains values from the log. The command's output has digests (statements without their values), names
and counts.
"""

from __future__ import annotations

from bufferlab.slow_log.conversion import Made, make_script

__all__ = ["Made", "make_script"]
