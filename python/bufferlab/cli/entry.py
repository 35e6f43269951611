"""Where the program begins. It imports the rest late, so that Ctrl-C never prints a traceback."""


def main() -> None:
    """Run `bufferlab` with the process's arguments and end with its exit code."""
    import gc
    import io
    import os
    import signal
    import sys

    # Imported modules make many objects, none of which is garbage. So let Python search for garbage less often.
    gc.set_threshold(50_000)
    try:
        # A caller may have closed the streams, and the locale's encoding may lack a character.
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
    gc.freeze()  # The system takes all memory back, so Python need not search for garbage at its end.
    sys.exit(code)


def _decided() -> None:
    """Ignore interrupts from here on, because the exit code is decided.

    While Python ends it sets SIGINT back to its default, unless the signal is ignored. A second Ctrl-C would then kill
    a process that has already printed how it ended.
    """
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
