"""The place where the registry finds the scripted engine's behaviour."""

from __future__ import annotations

from bufferlab.engines.fake.engine import FakeBehaviour

BEHAVIOUR = FakeBehaviour()
