"""The engines of tests: bufferlab/engines/registry.py finds them by this module's name, in every process."""

from __future__ import annotations

from collections.abc import Callable

from bufferlab.engines.behaviour import Behaviour
from bufferlab.engines.declaration import EngineDeclaration
from support.engines.fake.declaration import DECLARATION as FAKE
from support.engines.fake_server.declaration import DECLARATION as FAKE_SERVER


def _fake() -> Behaviour:
    from support.engines.fake.behaviour import FakeBehaviour

    return FakeBehaviour()


def _fake_server() -> Behaviour:
    from support.engines.fake_server.behaviour import FakeServerBehaviour

    return FakeServerBehaviour()


ENGINES: dict[str, tuple[EngineDeclaration, Callable[[], Behaviour]]] = {
    "fake": (FAKE, _fake),
    "fake_server": (FAKE_SERVER, _fake_server),
}
