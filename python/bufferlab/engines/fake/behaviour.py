"""The scripted engine, as the registry finds it."""

from __future__ import annotations

from bufferlab.engines.fake.engine import FakeBehaviour

BEHAVIOUR = FakeBehaviour()
