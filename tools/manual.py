"""Writes the manual pages, one per command, from the commands' own help. Called by build-wheel.

PYTHONPATH=python .venv/bin/python tools/manual.py DIR
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from bufferlab import __version__
from bufferlab.cli.app import group
from bufferlab.cli.options import Grouped

_VERBATIM = "\b"
_FILES = """\
.SH FILES
.TP
.I runs/
Sweep folders, one for each command that measured.
.TP
.I ~/.cache/bufferlab
Loaded databases and fetched servers; \\fB$BUFFERLAB_CACHE\\fP names another folder.
"""


def write(folder: Path) -> list[Path]:
    """Write a page for each command into the folder; return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    top = click.Context(group, info_name="bufferlab", **group.context_settings)
    for words, command, context in commands(group, top, ("bufferlab",)):
        file = folder / f"{'-'.join(words)}.1"
        file.write_text(page(words, command, context), encoding="utf-8")
        written.append(file)
    return written


def commands(
    command: click.Command, context: click.Context, words: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    """Yield (words, command, context) for the command and all of its subcommands."""
    yield words, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            if below := command.get_command(context, name):
                yield from commands(below, click.Context(below, context, info_name=name), (*words, name))


def page(words: tuple[str, ...], command: click.Command, context: click.Context) -> str:
    """Return the page of one command, in the language of man(7)."""
    title = "-".join(words)
    first, *rest = (command.help or "").split("\n\n")
    summary = " ".join(first.split())
    lines = [
        f'.TH "{title.upper()}" "1" "" "bufferlab {__version__}" "User Commands"',
        f".SH NAME\n{escaped(title)} \\- {escaped(summary.removesuffix('.'))}",
        f".SH SYNOPSIS\n.B {escaped(' '.join(words))}\n{escaped(' '.join(command.collect_usage_pieces(context)))}",
        ".SH DESCRIPTION",
        *(paragraph(text) for text in (first, *rest)),
        ".SH OPTIONS",
        *options(command, context),
    ]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            told = below.get_short_help_str(200) if below else ""
            lines.append(f".TP\n.BR {escaped(f'{title}-{name}')} (1)\n{escaped(told)}")
    if len(words) == 1:
        lines.append(_FILES.rstrip())
    else:
        lines.append(f".SH SEE ALSO\n.BR {escaped('-'.join(words[:-1]))} (1)")
    return "\n".join(lines) + "\n"


def paragraph(text: str) -> str:
    """Return a paragraph of a command's help, filled, or line by line if the help marks it so."""
    if text.lstrip().startswith(_VERBATIM):
        lines = text.split(_VERBATIM, 1)[1].strip("\n").rstrip()
        return f".PP\n.nf\n{escaped(lines)}\n.fi"
    return f".PP\n{escaped(' '.join(text.split()))}"


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Yield an entry for each option that help shows, under the help's own headings."""
    if isinstance(command, Grouped):
        sections = command.sections(context)
    else:
        shown = (one.get_help_record(context) for one in command.get_params(context) if isinstance(one, click.Option))
        sections = {"": [record for record in shown if record]}
    for title, records in sections.items():
        if title:
            yield f".SS {escaped(title)}"
        for names, told in records:
            yield f".TP\n.B {escaped(names)}\n{escaped(' '.join(told.split()))}"


def escaped(text: str) -> str:
    """Return a text escaped so that troff prints it unchanged.

    >>> escaped("--json\\n.sql 'x'")
    "\\\\-\\\\-json\\n\\\\&.sql 'x'"
    """
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.MULTILINE)


if __name__ == "__main__":
    for name in write(Path(sys.argv[1])):
        print(name)
