"""The command line. This file is its entry: it imports the rest late, so that Ctrl-C never prints a traceback."""


def main() -> None:
    """Run `bufferlab` with the process's arguments and end with its exit code."""
    import gc
    import io
    import os
    import signal
    import sys

    # Modules make many objects, which all stay: to look for garbage among them so often is in vain.
    gc.set_threshold(50_000)
    try:
        # A caller may have closed them, and a locale may lack a letter.
        sys.stdout, sys.stderr = (
            stream or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") for stream in (sys.stdout, sys.stderr)
        )
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        from bufferlab.cli.app import run

        code = run(sys.argv[1:])
        _decided()
    except KeyboardInterrupt:
        _decided()
        print("interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    gc.freeze()  # The system takes all memory back; Python need not search it for garbage once more.
    sys.exit(code)


def _decided() -> None:
    """Ignore interrupts from here on, because the exit code is decided.

    Python restores SIGINT's default while it ends. A second Ctrl-C would then kill a process that has already printed
    its end. A signal that is ignored stays ignored.
    """
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
