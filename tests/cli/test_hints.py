"""Every command and option of bufferlab that a message, a hint or a help text names exists.

The texts are the string literals of the Python sources and of the Rust core. A placeholder of an f-string or of
`format!` is replaced by the word X. Nothing is run: each command is only parsed as the command line parses it.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from bufferlab import errors
from bufferlab.cli.app import COMMANDS, group
from docs.documents import ROOT

_NAMED = re.compile(r"(?<![\w./-])(?:\./)?bufferlab ([^`\n;,()]*)")
_IN_TICKS = re.compile(r"`(?:\./)?bufferlab ([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])")
_OF_RUST = re.compile(r"\{[^}\n]*\}")

OF_OTHERS = {
    "mysqldump, mariadb-dump": "--compact --default-character-set --flush-privileges --ignore-table "
    "--net-buffer-length --no-create-info --no-data --result-file --single-transaction --skip-comments --xml",
    "pg_dump, pg_restore": "--data-only --dbname --exclude-schema --exclude-table --file --no-comments --no-owner "
    "--no-privileges --no-publications --no-security-labels --no-subscriptions --no-tablespaces --schema-only",
    "mysqld, mysql_install_db": "--bootstrap --datadir --defaults-file --enforce-storage-engine --initialize-insecure "
    "--log-warnings --no-defaults --skip-grant-tables",
    "initdb": "--auth --data-checksums --encoding --locale --no-data-checksums --no-instructions --no-sync --pwfile",
    "sysbench": "--db-driver --events --mysql-db --mysql-socket --mysql-user --report-checkpoints --table-size "
    "--tables --threads --time",
    "fio": "--output-format",
    "ray": "--address --generate --head --num-cpus",
    "git": "--porcelain --reverse --short --untracked-files",
    "apt-get": "--download-only --no-install-recommends",
    "pip": "--dest --disable-pip-version-check --no-deps --only-binary",
    "docker, systemd-run, losetup, ld.so, curl": "--cap-add --library-path --list --scope --silent --user",
    "style sheets of figures": "--ink --line --quiet",
}
"""Options of other programs that bufferlab's texts name."""


def _texts_of(file: Path) -> Iterator[str]:
    """Yield the strings of a Python file, without docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(value) for value in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


@cache
def _commands() -> tuple[tuple[str, click.Command], ...]:
    """Return all commands and subcommands with their names."""
    return tuple(_found_commands())


def _found_commands() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        yield name, command
        yield from ((f"{name} {below}", one) for below, one in getattr(command, "commands", {}).items())


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """Return all texts, each with the file that contains it."""
    found = [
        (str(file.relative_to(ROOT)), text)
        for file in sorted((ROOT / "python/bufferlab").rglob("*.py"))
        for text in _texts_of(file)
    ]
    for file in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        text = _OF_RUST.sub("X", file.read_text(encoding="utf-8"))
        found += [(str(file.relative_to(ROOT)), line) for line in text.splitlines() if "bufferlab " in line]
    return (*found, *((f"bufferlab {name} --help", command.help or "") for name, command in _commands()))


def _named() -> Iterator[tuple[str, str, bool]]:
    """Yield each place that names a command: the place, the words after `bufferlab`, and whether backticks mark
    them."""
    for where, text in _texts():
        # In prose the word after "bufferlab" is never a command's name.
        marked = _IN_TICKS.findall(text)
        yield from ((where, words, True) for words in marked)
        for words in _NAMED.findall(_IN_TICKS.sub(" ", text)):
            if words.split(" ", 1)[0].rstrip(".:") in COMMANDS:
                yield where, words, False


def _options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def wrong_in(words: str, *, is_marked: bool) -> str | None:
    """Return the mistake in a command as a text names it; None if there is none."""
    known = dict(_commands())
    name, *rest = [word.rstrip(".:'\"") for word in words.split()] or [""]
    if name in ("X", "...", "COMMAND"):
        return None
    if name not in known:
        return f"there is no command {name}"
    command = known[name]
    if isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if f"{name} {rest[0]}" not in known:
            return f"{name} has no {rest[0]}"
        command, rest = known[f"{name} {rest[0]}"], rest[1:]
    if unknown := [word for word in rest if word.startswith("--") and word.split("=")[0] not in _options(command)]:
        return None if unknown == ["--help"] else f"{name} has no {unknown[0]}"
    if not is_marked or "..." in rest or "--help" in rest:
        return None
    try:
        command.make_context(name, shlex.split(" ".join(rest)))
    except (click.MissingParameter, click.BadOptionUsage):
        return None  # The text names a command or an option without its values.
    except click.UsageError as error:
        # A placeholder (X) may stand for a value of any type.
        return None if re.search(r"'[^']*\bX\b[^']*' is not|'X'", error.format_message()) else error.format_message()
    return None


def test_every_command_that_a_text_names_is_one() -> None:
    named = list(_named())
    assert len(named) > 80
    assert [
        (where, words, wrong) for where, words, marked in named if (wrong := wrong_in(words, is_marked=marked))
    ] == []


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("engines list", "engines has no list"),
        ("engine", "there is no command engine"),
        ("run mine.sql --dump app.sql", "run has no --dump"),
        ("cache clear", "cache has no clear"),
        ("list tables", "'tables' is not one of"),
        ("accuracy", None),
        ("report X --format docx", "'docx' is not one of"),
        ("engines fetch mysql-8.0", None),
        ("list experiments", None),
        ("run X --load X --dry-run", None),
        ("doctor --help", None),
    ],
)
def test_a_command_that_does_not_exist_is_seen(words: str, wrong: str | None) -> None:
    found = wrong_in(words, is_marked=True)
    assert found == wrong if wrong is None else wrong in str(found)


def test_every_option_that_a_text_names_is_bufferlabs_or_another_programs() -> None:
    own = {option for _, command in _commands() for option in _options(command)} | {"--help", "--version"}
    others = {option: program for program, options in OF_OTHERS.items() for option in options.split()}
    named = {option: where for where, text in _texts() for option in _OPTION.findall(text)}
    assert {option: where for option, where in named.items() if option not in own and option not in others} == {}
    assert others.keys() - named.keys() == set(), "no text names them any more"


def test_a_hint_shows_every_command_as_the_user_can_type_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(errors.STARTED_AS, "./bufferlab")
    assert [name for name in COMMANDS if errors.runnable(f"see bufferlab {name}") != f"see ./bufferlab {name}"] == []
