"""Refuses an unusable cluster before it gets a task: no Ray or another version, no token, or no listener.

Ray runs any code that reaches its ports, unless it was started with a token; bufferlab may run as root. Ray's waits
have no time limit. So Ray is not imported here: each query to a cluster is a separate process that is killed after a
time limit.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from bufferlab.engines.servers.child_process import launched
from bufferlab.errors import EnvironmentLackingError, Problem, SpecError

RAY = "2.60"
INSTALL = "pip install 'bufferlab[fleet]'; in a clone: .venv/bin/pip install -r requirements-fleet.lock"
_CONNECT_S = 5.0
_ANSWER_S = 120.0
"""The longest wait, in seconds, for an answer about the cluster: importing Ray takes seconds of processor time."""
_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/\[\]]+)):([0-9]{1,5})")
_MAKE = "ray get-auth-token --generate makes one; copy it to the same place of every node"
_MOST_TOKEN_BYTES = 1 << 16
_HIDDEN = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def require_cluster(address: str, environ: Mapping[str, str] = os.environ) -> list[Problem]:
    """Check the cluster; return warnings.

    Raises SpecError for a malformed address, and EnvironmentLackingError for anything else that is missing.
    """
    host, port = parse_address(address)
    require_ray()
    require_token(environ)
    require_somebody(host, port)
    require_token_asked_for(address)
    return [] if uses_tls(environ) else [_IN_CLEAR]


_IN_CLEAR = Problem(
    "the token and all data cross the network in clear: RAY_USE_TLS is not set",
    "--ray",
    "use a network that is yours alone, or certificates for all nodes (docs/fleet.md)",
)


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of a cluster's head.

    Raises SpecError for any other text, even for "auto" (any cluster on this host) and "local" (a new cluster), which
    Ray accepts.

    >>> parse_address("10.0.0.1:6379"), parse_address("[::1]:6379")
    (('10.0.0.1', 6379), ('::1', 6379))
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[3]) < 65536:
        hint = "write HOST:PORT as `ray start --head` printed it, such as 10.0.0.1:6379 (docs/fleet.md)"
        raise SpecError("this is not the address of a cluster's head", f"--ray {text}", hint)
    return match[1] or match[2], int(match[3])


def require_ray() -> None:
    """Raise EnvironmentLackingError if this host has no Ray, or another version of it. Does not import Ray."""
    try:
        version = metadata.version("ray")
    except metadata.PackageNotFoundError:
        raise EnvironmentLackingError("Ray is not installed here", "--ray", INSTALL) from None
    if version.split(".")[:2] != RAY.split("."):
        what = f"Ray {version} is installed here, and bufferlab knows Ray {RAY}"
        raise EnvironmentLackingError(what, "--ray", f"on every node: {INSTALL}")


def require_token(environ: Mapping[str, str]) -> None:
    """Raise EnvironmentLackingError unless Ray gets a token, from the environment or a file only this user can read."""
    if environ.get("RAY_AUTH_MODE", "").lower() != "token":
        raise EnvironmentLackingError(
            "Ray runs what anybody sends who reaches its ports, unless it asks for a token",
            "RAY_AUTH_MODE is not token",
            "on every node, for `ray start` and for this command: export RAY_AUTH_MODE=token (docs/fleet.md)",
        )
    if environ.get("RAY_AUTH_TOKEN"):
        return
    path = Path(environ.get("RAY_AUTH_TOKEN_PATH") or Path(environ.get("HOME", "/")) / ".ray" / "auth_token")
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise EnvironmentLackingError("this is no file, and the cluster's token cannot be read", str(path), _MAKE)
        with path.open("rb") as file:
            empty = not file.read(_MOST_TOKEN_BYTES).strip()
    except OSError as error:
        raise EnvironmentLackingError(
            f"the cluster's token cannot be read: {error.strerror}",
            str(path),
            _MAKE,
        ) from None
    if empty:
        raise EnvironmentLackingError("the file of the cluster's token is empty", str(path), "put the token into it")
    others = "read the cluster's token, and run programs as the user of every node"
    if found.st_uid != os.geteuid():
        hint = f"copy it into a file of your own, and name that: export RAY_AUTH_TOKEN_PATH=... (now {path})"
        raise EnvironmentLackingError(f"the file is another user's, who may {others}", str(path), hint)
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise EnvironmentLackingError(f"others may {others}", str(path), f"chmod 600 {path}")


def uses_tls(environ: Mapping[str, str]) -> bool:
    """Return whether Ray's processes encrypt their connections."""
    return environ.get("RAY_USE_TLS", "").lower() in ("1", "true")


def require_somebody(host: str, port: int, seconds: float = _CONNECT_S) -> None:
    """Raise EnvironmentLackingError within `seconds` if nothing listens at the address: Ray has no time limit."""
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        raise EnvironmentLackingError(
            f"nobody listens at the cluster's address: {why}",
            f"--ray {host}:{port}",
            "start the head there with ray start --head (docs/fleet.md); a firewall may keep the port shut",
        ) from None


def require_token_asked_for(address: str, seconds: float = _ANSWER_S) -> None:
    """Refuse a cluster that rejects bufferlab's token, and one that works without a token, or may do so.

    Queries it with and without the token at the same time, and waits at most `seconds`. Raises EnvironmentLackingError.
    """
    without = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    deadline = time.monotonic() + seconds
    ours, others = _question(address, dict(os.environ)), _question(address, without | {"RAY_AUTH_MODE": "disabled"})
    try:
        if _answer(ours, deadline) != 0:
            raise EnvironmentLackingError(
                f"no Ray {RAY} with our token answers at the address within {seconds:g} s",
                f"--ray {address}",
                "the token must be the one of its nodes, and RAY_USE_TLS the same on both sides (docs/fleet.md)",
            )
        match _answer(others, deadline):
            case 0:
                raise EnvironmentLackingError(
                    "the cluster answers without a token: whoever reaches its ports can run programs on its nodes",
                    f"--ray {address}",
                    "end its nodes, and start them with RAY_AUTH_MODE=token (docs/fleet.md)",
                )
            case None:  # Without a clear answer, the cluster is refused.
                raise EnvironmentLackingError(
                    f"whether the cluster works without a token was not to be told within {seconds:g} s",
                    f"--ray {address}",
                    "this host may be busy: run the command again",
                )
    finally:
        for question in (ours, others):
            question.kill()
            question.wait()


def _question(address: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that requests a health report from a cluster's head.

    The kernel kills it when this process ends.
    """
    asked = [sys.executable, "-P", "-W", "ignore", "-m", "ray.scripts.scripts", "health-check", f"--address={address}"]
    return subprocess.Popen(
        launched(asked),
        env={**environ, "RAY_USAGE_STATS_ENABLED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _answer(question: subprocess.Popen[bytes], deadline_s: float) -> int | None:
    """Return the exit code of a query process: 0 if the head answered, more if it refused; None if it got no answer, or
    was killed."""
    try:
        code = question.wait(timeout=max(0.0, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None
    return code if code >= 0 else None
