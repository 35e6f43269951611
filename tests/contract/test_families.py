"""The methods and attributes that a new family of servers must provide: exactly these."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, fields, is_dataclass

from bufferlab.engines import registry
from bufferlab.engines.servers.family import Family
from bufferlab.engines.servers.fetch import Servers
from bufferlab.engines.servers.look import Look
from bufferlab.engines.servers.run import FamilyRun


def _must_give(interface: type) -> set[str]:
    """Return the abstract methods of a class, the methods that only raise, and the attributes without a default."""
    if is_dataclass(interface):
        return {one.name for one in fields(interface) if one.default is MISSING and one.default_factory is MISSING}
    found = {name for name, item in vars(interface).items() if getattr(item, "__isabstractmethod__", False)}
    found |= {name for name, item in vars(interface).items() if inspect.isfunction(item) and _only_raises(item)}
    return found | (interface.__annotations__.keys() - vars(interface).keys())


def _only_raises(function: object) -> bool:
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body  # type: ignore[arg-type]
    assert isinstance(definition, ast.FunctionDef)
    body = [one for one in definition.body if not isinstance(one, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def test_a_new_family_gives_at_most_twenty_things_and_may_be_looked_at() -> None:
    given = [_must_give(one) for one in (Family, Servers, Look)]
    assert {"connect", "declaration"} <= given[0]
    assert sum(map(len, given)) <= 20, given


def test_a_dozen_more_let_runs_go_to_its_servers_that_run_already() -> None:
    assert len(_must_give(FamilyRun)) <= 12


def test_every_family_can_be_run_on_and_looked_at_and_is_called_after_its_engine() -> None:
    found = registry.families()
    assert [one.flavour for one in found] == ["mysql", "mariadb", "postgres"]
    for one in found:
        assert one.run is one.running
        assert one.look is not None
        assert one.page_sites_table.is_file()
