"""Options that several commands share, and the types of their values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bufferlab.errors import SpecError
from bufferlab.texts import PASSWORD_HINT, has_password

_Command = TypeVar("_Command", bound=Callable[..., Any])


def common(command: _Command) -> _Command:
    """--json and --debug, which every command has."""
    command = click.option("--debug", is_flag=True, help="Show log detail and tracebacks, on standard error.")(command)
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object in place of text.")(command)


def data_dir(command: _Command) -> _Command:
    """--data-dir, of the commands that look at one."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The directory to look at.  [default: $BUFFERLAB_DATA, or the current one]",
    )(command)


def server_setting(build: str | None) -> tuple[tuple[str, str], ...]:
    """--server as the setting it is short for; a path as an absolute one, because runs start elsewhere."""
    if build is None:
        return ()
    refuse_password(build)
    is_path = "/" in build and "://" not in build
    return (("server", str(Path(build).expanduser().absolute()) if is_path else build),)


def refuse_password(text: str) -> None:
    """SpecError, which does not repeat it, when a URL holds a password: others would see it, results would keep it."""
    if has_password(text):
        what = "a URL with a password is seen in process lists and kept in results; it is not used"
        raise SpecError(what, "--server", PASSWORD_HINT)


class SettingValue(click.ParamType[tuple[str, str]]):
    """setting=value."""

    name = "setting=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first equals sign."""
        if isinstance(value, tuple):
            return value
        refuse_password(str(value))
        setting, equals, text = str(value).partition("=")
        if not equals or not setting.strip() or not text.strip():
            self.fail(f'"{value}" is not setting=value, such as io_mode=buffered', param, ctx)
        return setting.strip(), text.strip()


class SettingValues(click.ParamType[tuple[str, tuple[str, ...]]]):
    """setting=a,b,c."""

    name = "setting=a,b,c"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        """Split at the first equals sign, then at commas."""
        if isinstance(value, tuple):
            return value
        setting, text = SettingValue().convert(value, param, ctx)
        values = tuple(part.strip() for part in text.split(",") if part.strip())
        if not values:
            self.fail(f'"{value}" is not setting=a,b,c, such as pool_size=5%,20%', param, ctx)
        return setting, values
