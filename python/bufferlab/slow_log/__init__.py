"""Makes a script of transactions from a slow query log of MySQL or MariaDB. Reads no database.

The output holds digests, names and counts; the script alone holds values of the log.
"""

from __future__ import annotations

from bufferlab.slow_log.conversion import Made, make_script

__all__ = ["Made", "make_script"]
