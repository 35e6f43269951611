"""The options that several commands share, and the types of their values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from bufferlab.cli.output import try_place
from bufferlab.errors import SpecError
from bufferlab.knob import AUTO
from bufferlab.texts import PASSWORD_HINT, address_has_password, has_password
from bufferlab.units import UnitError, format_duration, parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

CSV = "csv"
_TEXT = "text"
_LONGEST_LOOK_S = 86_400.0
_OTHERS = "Output and help"
_Command = TypeVar("_Command", bound=Callable[..., Any])
_Value = TypeVar("_Value")


class Grouped(click.Command):
    """A command whose help shows its options in sections, each for one purpose.

    `sections` has title of a section -> names of its options' parameters. Options without a section come last, under
    "Output and help".
    """

    def __init__(self, *arguments: Any, sections: Mapping[str, tuple[str, ...]], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.named = sections

    def sections(self, context: click.Context) -> dict[str, list[tuple[str, str]]]:
        """Return title of a section -> (name, help) of each option that help shows, in order."""
        named = {name: title for title, names in self.named.items() for name in names}
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in (*self.named, _OTHERS)}
        for parameter in self.get_params(context):
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)):
                found[named.get(parameter.name or "", _OTHERS)].append(record)
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, records in self.sections(ctx).items():
            with formatter.section(title):
                formatter.write_dl(records)


class OutputFile(click.Path):
    """The type of an option for the path of a file that a command writes at its end.

    It checks before the command does anything that the file can be written; if not, it raises EnvironmentLackingError.
    """

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if param and not (ctx and ctx.resilient_parsing):
            try_place(path, param.opts[-1])
        return path


class Repetitions(click.ParamType[Any]):
    """The type of an option for a number of repetitions: a whole number, or "auto"."""

    name = "repetitions"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | Literal["auto"]:
        if value == AUTO:
            return AUTO
        try:
            return int(value)
        except ValueError:
            self.fail(f'{value!r} is neither a whole number nor "{AUTO}"', param, ctx)


def common(command: _Command) -> _Command:
    """Add --json and --debug, which every command has."""
    # The command function does not get --debug: `app.run` reads it from the arguments.
    told = "Show log detail and tracebacks, on standard error."
    command = click.option("--debug", is_flag=True, expose_value=False, help=told)(command)
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object in place of text.")(command)


def strict(command: _Command) -> _Command:
    """Add --strict, for shell scripts that must not go on with doubtful numbers."""
    return click.option("--strict", is_flag=True, help="End with code 1 when a check failed; it is 0 without.")(command)


def html_page(meaning: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds --html, the path of a page to write; `meaning` is its help."""
    return click.option("--html", type=OutputFile(), metavar="FILE", help=meaning)


def fail_if(meaning: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds --fail-if (its help is `meaning`) as the parameter `rules`, and --undecided."""
    rules = click.option("--fail-if", "rules", metavar='"METRIC worse 5%"', multiple=True, help=meaning)
    undecided = click.option(
        "--undecided",
        type=click.Choice(["pass", "fail"]),
        default="pass",
        metavar="pass|fail",
        show_default=True,
        help="Whether a rule that the runs cannot decide ends with code 0 or 4.",
    )
    return lambda command: rules(undecided(command))


def may_look_inside(meaning: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds --look-inside, to look even into a large pool; `meaning` is its help."""
    return click.option("--look-inside", is_flag=True, help=meaning)


def text_or_csv(meaning: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds --format as the parameter `form`: text or CSV; `meaning` is its help."""
    return click.option(
        "--format", "form", type=click.Choice([_TEXT, CSV]), default=_TEXT, metavar="FORMAT", help=meaning
    )


def require_one_format(form: str, as_json: bool) -> None:
    """Raise SpecError for --format csv together with --json."""
    if form == CSV and as_json:
        raise SpecError("two formats are asked for", "--format csv, --json", "leave one out")


def parsed(parse: Callable[[str], _Value], text: str, flag: str, hint: str | None = None) -> _Value:
    """Return the value of an option's text. Raises SpecError, which names `flag`, for a text that `parse` refuses."""
    try:
        return parse(text)
    except UnitError as error:
        raise SpecError(error.what, flag, hint or error.hint) from error


def look_seconds(text: str, flag: str, shortest_s: float) -> float:
    """Return the length of an observation in seconds, from its text.

    Raises SpecError, which names `flag`, for a text that is not a duration, or one not between `shortest_s` and 24 h.
    """
    seconds = parsed(parse_duration, text, flag)
    if not shortest_s <= seconds <= _LONGEST_LOOK_S:
        what = f'"{text}" is not between {format_duration(shortest_s)} and 24 h'
        raise SpecError(what, flag, "write a duration such as 10m")
    return seconds


def data_dir(command: _Command) -> _Command:
    """Add --data-dir, for commands that use a data directory."""
    return click.option(
        "--data-dir",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="The directory to look at.  [default: $BUFFERLAB_DATA, or the current one]",
    )(command)


def server_setting(build: str | None) -> tuple[tuple[str, str], ...]:
    """Return the setting that --server stands for; () for None.

    A path becomes absolute, because runs start in another folder. Raises SpecError for a URL with a password.
    """
    if build is None:
        return ()
    refuse_password(build)
    is_path = "/" in build and "://" not in build
    return (("server", os.path.abspath(os.path.expanduser(build)) if is_path else build),)


def refuse_password(address: str, flag: str = "--server") -> None:
    """Raise SpecError for a server's address with a password: other users would see it, and results would store it.

    The error names the flag, but repeats no part of the address.
    """
    if address_has_password(address):
        raise _password_in(flag)


def _password_in(flag: str) -> SpecError:
    what = "a URL with a password is seen in process lists and kept in results; it is not used"
    return SpecError(what, flag, PASSWORD_HINT)


class SettingValue(click.ParamType[tuple[str, str]]):
    """The type of an option for setting=value."""

    name = "setting=value"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from bufferlab.cli.complete import settings  # Imported late, because only completion needs all settings.

        return settings(ctx, param, incomplete)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Return setting and value, split at the first equals sign.

        Raises SpecError for a value with a password, click.BadParameter for a text without a setting or a value.
        """
        if isinstance(value, tuple):
            return value
        setting, equals, text = str(value).partition("=")
        if has_password(str(value)) or (setting.strip() == "server" and address_has_password(text)):
            raise _password_in(param.opts[0] if param else "--set")
        if not equals or not setting.strip() or not text.strip():
            self.fail(f'"{value}" is not setting=value, such as io_mode=buffered', param, ctx)
        return setting.strip(), text.strip()


class SettingValues(click.ParamType[tuple[str, tuple[str, ...]]]):
    """The type of an option for setting=a,b,c."""

    name = "setting=a,b,c"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return SettingValue().shell_complete(ctx, param, incomplete)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[str, ...]]:
        """Return setting and values, split at the first equals sign, then at commas.

        Raises SpecError for a value with a password, click.BadParameter for a text without a setting or a value.
        """
        if isinstance(value, tuple):
            return value
        setting, text = SettingValue().convert(value, param, ctx)
        values = tuple(part.strip() for part in text.split(",") if part.strip())
        if not values:
            self.fail(f'"{value}" is not setting=a,b,c, such as pool_size=5%,20%', param, ctx)
        return setting, values
