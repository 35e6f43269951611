"""The type of the setting that says which page traces a sweep keeps.

It is not in page_traces.py, because `--help` needs it, and that module is slow to import.
"""

from typing import Literal

KeepTraces = Literal["all", "one", "none"]
"""The blocks of a sweep whose page traces stay in its folder: all, the first, or none."""
