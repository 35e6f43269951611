"""Audits benchmark results in other people's files: it finds numbers that cannot be right. It reads no database.

Code outside of this package imports only this module, not the modules inside the package.
"""

from __future__ import annotations

from bufferlab.audit.audit import RULE_NAMES, as_report, audit_files

__all__ = ["RULE_NAMES", "as_report", "audit_files"]
