"""Which page traces a sweep keeps. It stands apart from the schema (page_traces.py), which help must not load."""

from typing import Literal

KeepTraces = Literal["all", "one", "none"]
"""The blocks of a sweep whose page traces stay in its folder."""
