"""Judges the numbers in other people's files: whether they can mean what the files say. It reads no database.

Code outside of this package imports only this module, none inside the package.
"""

from __future__ import annotations

from bufferlab.audit.audit import RULE_NAMES, as_report, audit_files

__all__ = ["RULE_NAMES", "as_report", "audit_files"]
