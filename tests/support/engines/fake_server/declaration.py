"""The fake engine's declaration with a server's features: builds, versions, rounding, variables. Hidden."""

from __future__ import annotations

from dataclasses import replace

from bufferlab.knob import Knob
from support.engines.fake.declaration import DECLARATION as FAKE

_KNOBS: tuple[Knob, ...] = (
    Knob.text("server", "the imaginary build", pattern=r"fake-[0-9.]+", example="fake-1.0 | fake-2.0",
              default="fake-2.0", decides_file=True),
    *FAKE.knobs,
    Knob.count("old", "a knob that build 2.0 has no more", default="auto", auto="1", versions="fake_server < 2.0"),
    Knob.count("new", "a knob that build 1.0 had not", default="auto", auto="", versions="fake_server >= 2.0"),
)  # fmt: skip

DECLARATION = replace(
    FAKE,
    name="fake_server",
    meaning="the fake engine as a server, for tests: a database is a directory, builds have versions",
    knobs=_KNOBS,
    max_connections=100,
    connections_reason="an imaginary server has a hundred",
    base_bytes=4096,
    data_kind="directory",
    is_server=True,
    default_connections=4,
    rounds=("pool_size",),
    passes_through="var.",
)
