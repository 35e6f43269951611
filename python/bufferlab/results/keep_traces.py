"""Which page traces a sweep keeps.

It is not in the schema (page_traces.py), which is too heavy for `--help` to load.
"""

from typing import Literal

KeepTraces = Literal["all", "one", "none"]
"""The blocks of a sweep whose page traces stay in its folder."""
