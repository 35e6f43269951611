"""Judges other people's files: compares their numbers with the meaning they are given. Reads no database.

This is the door: outside of the package nothing imports a module inside it.
"""

from __future__ import annotations

from bufferlab.audit.audit import RULE_NAMES, as_report, audit_files

__all__ = ["RULE_NAMES", "as_report", "audit_files"]
