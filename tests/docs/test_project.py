"""What the project says of itself in its settings: layers, lock files, versions."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from docs.documents import ROOT

PACKAGE = ROOT / "python/bufferlab"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_only_execute_and_doctor_ask_the_registry_for_a_behaviour() -> None:
    """lint-imports cannot see this: the registry imports behaviours by name."""
    askers = {
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _called(node) == "behaviour"
    }
    allowed = {name for name in askers if name.startswith(("execute/", "engines/")) or name == "cli/doctor.py"}
    assert askers - allowed == set()


def test_every_file_opens_with_what_it_is_for() -> None:
    silent = [
        str(file.relative_to(ROOT))
        for file in [*PACKAGE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
        if file.read_text(encoding="utf-8").strip()
        and not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    silent += [
        str(file.relative_to(ROOT))
        for file in (ROOT / "crates").rglob("*.rs")
        if not file.read_text(encoding="utf-8").startswith("//!")
    ]
    assert silent == []


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_the_lock_file_satisfies_every_declared_dependency(lock: str) -> None:
    pinned = _pinned(lock)
    declared = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["dependency-groups"]["build"]]
    if lock == "requirements-dev.lock":
        declared += PYPROJECT["dependency-groups"]["dev"]
    for requirement in map(Requirement, declared):
        versions = pinned.get(canonicalize_name(requirement.name))
        assert versions, f"{requirement.name} is not in {lock}: run make lock"
        assert all(version in requirement.specifier for version in versions), f"{requirement}: run make lock"


def test_tests_run_with_the_packages_that_users_get() -> None:
    runtime, dev = _pinned("requirements.lock"), _pinned("requirements-dev.lock")
    assert {name: dev.get(name) for name in runtime} == runtime


def test_settings_and_scripts_name_no_package_host() -> None:
    files = [*ROOT.glob("*.lock"), *ROOT.glob("*.toml"), ROOT / "Makefile", *ROOT.glob("tools/*"), ROOT / "test"]
    hosts = re.compile(r"\b(pypi|pythonhosted|crates\.io/|deb\.debian|archive\.ubuntu|rustup\.rs)", re.IGNORECASE)
    # Cargo.lock names the registry by its fixed identifier on every line; that is Cargo's format, not a setting.
    named = [
        file.name for file in files if file.name != "Cargo.lock" and hosts.search(file.read_text(encoding="utf-8"))
    ]
    assert named == []


def test_one_version_everywhere() -> None:
    import bufferlab
    from bufferlab import _native

    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert bufferlab.__version__ == cargo["workspace"]["package"]["version"] == _native.core_version()


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _pinned(lock: str) -> dict[str, set[Version]]:
    """Versions by package; several where Pythons differ."""
    pinned: dict[str, set[Version]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)==([^\s;\\]+)", Path(ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE
    ):
        pinned.setdefault(canonicalize_name(name), set()).add(Version(version))
    return pinned
