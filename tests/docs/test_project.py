"""The project's own rules in its settings: layers, lock files, versions."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

import grimp
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import bufferlab
from bufferlab.engines import registry as engines
from docs.documents import ROOT
from support.rust_imports import imports

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
        if (text := file.read_text(encoding="utf-8")).strip() and not re.match(r'(\s|#.*\n)*"""\s*\S', text)
    ]
    silent += [
        str(file.relative_to(ROOT))
        for file in (ROOT / "crates").rglob("*.rs")
        if not file.read_text(encoding="utf-8").startswith("//!")
    ]
    assert silent == []


#: Parts of one engine are in its folder. Words of a format that is named after a program belong to the format.
KNOW_NO_ENGINE = ("results", "stats", "chapter", "report")
FORMATS = re.compile(r"tpcc[-_]mysql", re.IGNORECASE)
A_FILE = "file"
"""This engine's name is a word that every program uses, so reviews must judge it."""


def test_results_statistics_and_reports_know_no_engine_by_name() -> None:
    families = {engines.declaration(name).family for name in engines.ENGINES}
    names = sorted({*engines.ENGINES, *families} - {"", A_FILE})
    named = re.compile("|".join(names), re.IGNORECASE)
    found = [
        f"{file.relative_to(PACKAGE)}:{line}: {text}"
        for folder in KNOW_NO_ENGINE
        for file in sorted((PACKAGE / folder).rglob("*.py"))
        for line, text in _words_of(ast.parse(file.read_text(encoding="utf-8")))
        if named.search(FORMATS.sub("", text))
    ]
    assert len(names) >= 6
    assert found == []


def _words_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield identifiers and string literals, without docstrings."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in told:
                yield node.lineno, text
            case ast.Name(id=text) | ast.Attribute(attr=text) | ast.arg(arg=text) | ast.keyword(arg=str(text)):
                yield node.lineno, text
            case ast.FunctionDef(name=text) | ast.ClassDef(name=text):
                yield node.lineno, text
            case ast.ImportFrom(module=module, names=names):
                yield node.lineno, " ".join([module or "", *(each.name for each in names)])


def test_the_lint_on_names_sees_identifiers_strings_and_imports_but_no_docstring() -> None:
    source = (
        'from x.innodb import y\ndef is_mysql(fake: int) -> str:\n    """PostgreSQL."""\n    return f"sqlite {fake}"\n'
    )
    seen = " ".join(text for _, text in _words_of(ast.parse(source)))
    assert {"innodb", "mysql", "fake", "sqlite"} <= set(re.findall("innodb|mysql|fake|sqlite|PostgreSQL", seen))
    assert "PostgreSQL" not in seen


def test_no_module_reaches_itself_through_its_imports() -> None:
    graph = grimp.build_graph("bufferlab", cache_dir=None)
    assert len(graph.modules) > 300
    assert _circles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules}) == []


def test_the_search_for_circles_finds_them() -> None:
    imports = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set[str](), "e": {"e2"}, "e2": {"e"}}
    assert _circles(imports) == [{"a", "b", "c"}, {"e", "e2"}]


def _circles(imports: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Return the groups of modules that reach each other: first remove, again and again, modules that import no
    remaining one or that no remaining one imports."""
    left = {module: set(of) for module, of in imports.items()}
    for way in (lambda module: left[module] & left.keys(), lambda module: {one for one in left if module in left[one]}):
        while ends := [module for module in left if not way(module)]:
            for module in ends:
                del left[module]
    found: list[set[str]] = []
    for module in sorted(left):
        if not any(module in group for group in found):
            found.append(_reached(left, module) & {one for one in left if module in _reached(left, one)})
    return [group for group in found if group]


def _reached(imports: Mapping[str, Collection[str]], start: str) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for module in set(imports.get(ahead.pop(), ())) - found:
            found.add(module)
            ahead.append(module)
    return found


def test_no_more_than_three_files_of_a_crate_reach_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    lines = import_module("count_lines")
    files, circles = 0, []
    for crate in sorted((ROOT / "crates").iterdir()):
        texts = {
            str(file.relative_to(crate / "src")): file.read_text(encoding="utf-8")
            for file in (crate / "src").rglob("*.rs")
        }
        for_tests = {test for name, text in texts.items() for test in lines.rust_test_files(PurePosixPath(name), text)}
        code = {
            name: lines.rust_code(text)
            for name, text in texts.items()
            if not for_tests & {PurePosixPath(name).with_suffix(""), *PurePosixPath(name).parents}
        }
        files += len(code)
        circles += [(crate.name, sorted(circle)) for circle in _circles(imports(code)) if len(circle) > 3]
    assert files > 250
    assert circles == []


def test_imports_of_rust_lead_through_re_exports_to_the_file_that_defines() -> None:
    sources = {
        "lib.rs": "mod a; pub mod b; pub use b::{Two, deep::Deep}; pub(crate) use a::one;",
        "a.rs": "use std::mem::swap; use crate::{Deep, b::{self, Two as Other}}; pub fn one() { b::two(); }",
        "b/mod.rs": "mod deep; mod own { pub const X: u8 = 1; } struct Two; fn two() { crate::one(); own::X; }",
        "b/deep.rs": "use super::{deep, own::X}; pub struct Deep; fn new() { self::new(); super::missing(); }",
        "c.rs": "use crate::b::Two; use crate::a::*; fn f() { Vec::new(); Two::new() }",
    }
    tokens = {name: re.findall(r"\w+|\S", text) for name, text in sources.items()}
    assert imports(tokens) == {
        "lib.rs": set(),
        "a.rs": {"b/deep.rs", "b/mod.rs"},
        "b/mod.rs": {"a.rs"},
        "b/deep.rs": {"b/mod.rs"},
        "c.rs": {"a.rs", "b/mod.rs"},
    }


def test_every_answer_to_where_is_it_names_a_path_that_exists() -> None:
    """tests/docs/where-is.md is the answer sheet for readers who look for things by the names of files."""
    sheet = (ROOT / "tests/docs/where-is.md").read_text(encoding="utf-8")
    answers = dict(re.findall(r"^\| (\d+) \| (.*) \|$", sheet, re.MULTILINE))
    assert len(answers) == 20
    named = {number: re.findall(r"`([^`]*/[^`]*|[^`]*\.py)`", answer) for number, answer in answers.items()}
    assert all(named.values())
    paths = [path for found in named.values() for path in found]
    assert [path for path in paths if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []


def _methods() -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the name, the docstring, and the overridden method's docstring of every public method of the package."""
    for module in pkgutil.walk_packages(bufferlab.__path__, "bufferlab."):
        if module.name.rpartition(".")[2] in ("__main__", "_native"):
            continue
        for one in vars(import_module(module.name)).values():
            if inspect.isclass(one) and one.__module__ == module.name:
                for name, item in vars(one).items():
                    if not name.startswith("_") and _is_written_in(item, module.name):
                        base = next((vars(base)[name] for base in one.__mro__[1:] if name in vars(base)), None)
                        overridden = None if base is None else base.__doc__ or ""
                        yield f"{module.name}.{one.__qualname__}.{name}", item.__doc__, overridden


def _is_written_in(item: Any, module: str) -> bool:
    """Return whether the item is a method, of any kind, written in the module; methods that a dataclass gets are
    not."""
    function = item
    for inside in ("fget", "func", "__func__"):
        function = getattr(function, inside, function)
    return inspect.isfunction(function) and function.__module__ == module and function.__name__ != "<lambda>"


def test_every_public_method_has_a_docstring_or_the_one_of_its_base() -> None:
    """ruff's D102 would require a further docstring on every override."""
    methods = list(_methods())
    assert len(methods) > 300
    silent = [name for name, own, overridden in methods if not own and overridden is None]
    assert [name for name in silent if "._" not in name] == []


def test_no_override_repeats_a_docstring() -> None:
    assert [name for name, own, overridden in _methods() if own and own == overridden] == []


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
    scripts = [ROOT / "Makefile", *ROOT.glob("tools/*"), *ROOT.glob("findings/*"), ROOT / "test"]
    files = [*ROOT.glob("*.lock"), *ROOT.glob("*.toml"), *scripts]
    hosts = re.compile(r"\b(pypi|pythonhosted|crates\.io/|deb\.debian|archive\.ubuntu|rustup\.rs)", re.IGNORECASE)
    # Cargo.lock names the registry by a fixed identifier on every line; that is Cargo's format, not a setting.
    named = [
        file.name
        for file in files
        if file.is_file() and file.name != "Cargo.lock" and hosts.search(file.read_text(encoding="utf-8"))
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
    """Return the versions by package; several if Pythons need different ones."""
    pinned: dict[str, set[Version]] = {}
    for name, version in re.findall(
        r"^([\w.-]+)==([^\s;\\]+)", Path(ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE
    ):
        pinned.setdefault(canonicalize_name(name), set()).add(Version(version))
    return pinned
