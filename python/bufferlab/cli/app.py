"""Runs the commands. It is the only module that turns errors into text, JSON and exit codes.

A command's module is imported only when the command is called, so `bufferlab --help` imports none.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, cast

import click

from bufferlab import __version__
from bufferlab.cli.output import forget_answer, print_error_json, put, say
from bufferlab.errors import (
    EXIT_INTERRUPTED_INT,
    BufferlabError,
    EnvironmentLackingError,
    FailureKind,
    InternalError,
    Interrupted,
    causes,
    program,
    runnable,
)
from bufferlab.texts import hide_passwords_of, without_password

COMMANDS: dict[str, str] = {
    "run": "Measure: run an experiment on an engine and answer its question.",
    "merge": "Join folders of one plan, whose blocks were done on several hosts.",
    "script-from-slow-log": "Make a script for `run` from a slow query log of MySQL or MariaDB.",
    "observe": "Look at a server that runs: what its pool misses, and whether that slows it. Changes nothing.",
    "advise": "Tell what a server that runs would read with a larger or a smaller buffer pool.",
    "list": "List experiments, engines, workloads, load settings and metrics; past runs with their answers.",
    "engines": "List the database servers that can be used here, and fetch others.",
    "learn": "Learn where a build of PostgreSQL gets and reads pages, on a private server, so that it can be traced.",
    "cache": "List and remove loaded databases, fetched servers, and what killed runs left.",
    "doctor": "Tell what this host can measure, and why it cannot measure the rest.",
    "report": "Make tables and figures again, from the stored samples of a sweep.",
    "compare": "Compare two sweeps, or two settings: the same, different, or not distinguishable.",
    "history": "Tell since which of many sweeps the figures of one experiment are other, and by how much.",
    "curve": "Tell what a buffer pool of every size would miss, from a file of page accesses.",
    "predict": "Tell what pools would read, from a traced run or from none, by a model of the server.",
    "accuracy": "Tell how right a predicted sweep was about a measured one.",
    "audit": "Find wrong units, columns and numbers in other people's logs, status dumps and tables.",
}
"""Command -> first line of its help, so that help imports no module. Each command has a module of its name."""


#: The errno values of a disk's errors. These are not bugs of bufferlab, even if bufferlab's own code raises them.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_PATH = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)
_LOG_FORMAT = "%(relativeCreated)7.0f ms %(name)s: %(message)s"


class _Commands(click.Group):
    """The group of all commands. It knows their names, and imports a command only when that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = cmd_name.replace("-", "_")  # A module's name cannot have a dash.
        return _typed(cast("click.Command", importlib.import_module(f"bufferlab.cli.{module}").command))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            # Name all commands: click would propose only imported commands, and none is imported.
            raise click.NoSuchCommand(error.command_name, possibilities=COMMANDS, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _typed(command: click.Command) -> click.Command:
    """Return the command with examples, in its help and its subcommands' help, that the user can type as they are."""
    command.help = runnable(command.help or "")
    for below in getattr(command, "commands", {}).values():
        _typed(below)
    return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda context, _, asked: _show_version(context) if asked else None,
    help="Show the versions of bufferlab, its core and SQLite, and the commit; then exit.",
)
def group() -> None:
    """A laboratory for database buffer pools and the storage under them.

    With no options every command gives a true, small answer on the embedded engine in a few minutes.

    \b
      bufferlab doctor               what this host can measure
      bufferlab run buffer-size      how the size of the buffer pool changes a database
      bufferlab run my.sql           the same of your own statements
      bufferlab predict RUN          what pools of other sizes would have read, from that run
      bufferlab advise URL           what a server that runs would read with more memory, or less
      bufferlab curve FILE           what pools of every size would miss, from page accesses
      bufferlab audit FILE           wrong units and numbers in other people's logs
      bufferlab list experiments     the other questions there are

    docs/questions.md has a command for each question.

    Exit codes: 0 done; 1 some point failed, results kept; 2 usage; 3 the environment lacks something;
    4 what --fail-if names; 65 a corrupt or foreign file; 70 a bug in bufferlab; 130 and 143 interrupted, results kept.
    """


def _show_version(context: click.Context) -> None:
    from bufferlab.cli.version import version_text

    put(version_text())
    context.exit()


def run(arguments: Sequence[str]) -> int:
    """Run one command, show its errors, and return its exit code."""
    hide_passwords_of(arguments)
    forget_answer()
    debug, as_json = "--debug" in arguments, "--json" in arguments
    if debug:
        import logging

        # Log only warnings of libraries: matplotlib would list every font of the host.
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format=_LOG_FORMAT)
        logging.getLogger("bufferlab").setLevel(logging.DEBUG)
    # SIGTERM ends a command like Ctrl-C does, except during a sweep, which handles both signals itself.
    signal.signal(signal.SIGTERM, _raise_interrupted)
    try:
        code = int(_main(list(arguments)) or 0)
        sys.stdout.flush()  # Flush here: a BrokenPipeError while Python ends would not be handled.
        return code
    except BufferlabError as error:
        return _show(error, debug, as_json)
    except click.UsageError as error:
        return _show(_usage(error), debug, as_json)
    except click.ClickException as error:
        return _show(BufferlabError(error.format_message()), debug, as_json)
    except (KeyboardInterrupt, click.Abort):
        _tell("interrupted")
        return EXIT_INTERRUPTED_INT
    except BrokenPipeError:
        _give_up_output()  # The program that reads the output, such as `head`, has closed it.
        return 0
    # This is a bug, unless a disk, a path or the core caused it. The traceback goes to a file.
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _DISK:
            return _show(_refused(error), debug, as_json)
        if isinstance(error, OSError) and error.errno in _PATH and error.filename is not None:
            return _show(_unusable(error), debug, as_json)
        return _show(_refused_by_core(error) or _bug(error), debug, as_json)


def _main(arguments: list[str]) -> Any:
    shown = _typed(group)
    return shown.main(arguments, prog_name=program(), complete_var="_BUFFERLAB_COMPLETE", standalone_mode=False)


class _UsageProblem(BufferlabError):
    exit_code = 2
    kind: FailureKind = "usage"


def _usage(error: click.UsageError) -> BufferlabError:
    command = error.ctx.command_path if error.ctx else program()
    return _UsageProblem(error.format_message(), command, f"see `{command} --help`")


def _refused_by_core(error: Exception) -> BufferlabError | None:
    from bufferlab.engines.native import refusal_of_core  # Imported late, because only this error needs it.

    refusal = refusal_of_core(error)
    if refusal:
        refusal.__cause__ = error
    return refusal


def _bug(error: Exception) -> InternalError:
    import tempfile  # Imported late, because a bug is rare.
    import traceback

    hint = "please report it; there is no room for its log"
    with (
        suppress(OSError),
        tempfile.NamedTemporaryFile(
            "w", prefix="bufferlab-bug-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file,
    ):
        file.write(f"bufferlab {__version__} {without_password(' '.join(sys.argv[1:]))}\n{causes(error)}\n")
        hint = f"please report it with {file.name}"
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return InternalError(
        f"a bug in bufferlab: {type(error).__name__}: {error}",
        f"{frame.filename}:{frame.lineno}",
        hint,
    )


def _refused(error: OSError) -> EnvironmentLackingError:
    """Return the user's error for a disk that refuses to write.

    If the error has no file name, standard output may have caused it. Then nothing more is written there.
    """
    if error.filename is None:
        _give_up_output()
    where = str(error.filename) if error.filename else None
    return EnvironmentLackingError(
        f"an output cannot be written: {error.strerror}", where, "free some space there, or choose another place"
    )


def _unusable(error: OSError) -> EnvironmentLackingError:
    """Return the user's error for a path that is too long, or that this user may not use."""
    hint = "give another path, or make it readable for this user"
    return EnvironmentLackingError(f"this cannot be used: {error.strerror}", os.fsdecode(error.filename), hint)


def _give_up_output() -> None:
    """Redirect standard output to /dev/null, so that Python prints no error about it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _tell(text: str) -> None:
    """Write a text to standard error. If that fails, only the exit code reports the error."""
    with suppress(OSError):
        say(text)


def _show(error: BufferlabError, debug: bool, as_json: bool) -> int:
    if debug and not isinstance(error, Interrupted):
        _tell(causes(error))
    _tell(error.what if isinstance(error, Interrupted) else error.render())
    if as_json:
        told = {
            "status": "error",
            "exit_code": error.exit_code,
            "kind": error.kind,
            "errors": error.problems,
        }
        try:
            print_error_json(told)
        except OSError:  # The disk is full, or the reader has ended. So only the exit code reports the error.
            _give_up_output()
    return error.exit_code


def _raise_interrupted(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)
