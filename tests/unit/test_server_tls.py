"""The files of TLS that a URL names, on control connections. The core has its own tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bufferlab.engines.servers.existing import tls
from bufferlab.engines.servers.existing.security import Security
from support.certificates import Authority


@pytest.mark.parametrize(("mode", "owner", "refused"), [
    (0o600, 1000, False), (0o400, 1000, False), (0o640, 1000, True), (0o604, 1000, True), (0o610, 1000, True),
    (0o640, 0, False), (0o660, 0, True), (0o644, 0, True), (0o650, 0, True),
])  # fmt: skip
def test_a_key_that_others_may_read_is_refused_as_libpq_and_the_core_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, refused: bool
) -> None:
    key = tmp_path / "own.key"
    key.touch()
    key.chmod(mode)
    about = key.stat()
    monkeypatch.setattr(tls.os, "stat", lambda path: type(about)((*about[:4], owner, *about[5:])))
    if not refused:
        tls._require_private(str(key))
        return
    with pytest.raises(tls.TlsRefusedError, match="the file of sslkey cannot be used: others may read it") as caught:
        tls._require_private(str(key))
    assert (caught.value.where, caught.value.hint) == (str(key), f"take their rights away: chmod 600 {key}")


def test_a_connection_with_such_a_key_is_not_made(tmp_path: Path) -> None:
    cert, key = Authority(tmp_path, "ours").server("own")
    security = Security("require", cert=str(cert), key=str(key))
    assert tls.context(security)
    key.chmod(0o644)
    with pytest.raises(tls.TlsRefusedError, match="others may read it"):
        tls.context(security)
    with pytest.raises(tls.TlsRefusedError, match="the file of sslkey cannot be used: No such file"):
        tls.context(replace(security, key=str(tmp_path / "none")))
