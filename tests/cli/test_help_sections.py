"""Tests that help groups the options of the large commands by purpose, each option once."""

from __future__ import annotations

import click
import pytest

from bufferlab.cli.app import group
from bufferlab.cli.options import Grouped


@pytest.mark.parametrize("name", ["run", "predict", "curve", "compare", "report", "audit", "observe", "advise"])
def test_each_option_stands_in_one_section_and_no_section_is_empty(name: str) -> None:
    command = group.get_command(click.Context(group), name)
    assert isinstance(command, Grouped)
    context = click.Context(command)
    sections = command.sections(context)
    assert len(sections) > 2
    assert all(sections.values()), "a section names a parameter that is not there"
    shown = [names for records in sections.values() for names, _ in records]
    options = [one for one in command.get_params(context) if isinstance(one, click.Option) and not one.hidden]
    assert sorted(shown) == sorted(record[0] for one in options if (record := one.get_help_record(context)))
    assert {name for names in command.named.values() for name in names} <= {one.name for one in options}
