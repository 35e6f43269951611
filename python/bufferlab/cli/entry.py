"""The entry point of the program. It imports everything else late, so that Ctrl-C never prints a traceback."""


def main() -> None:
    """Run `bufferlab` with the process's arguments and end with its exit code."""
    import gc
    import io
    import os
    import signal
    import sys

    # Imports make many objects, none of them garbage. So let Python search for garbage less often.
    gc.set_threshold(50_000)
    try:
        # The caller may have closed the streams, and the locale's encoding may lack characters.
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
    gc.freeze()  # The kernel frees all memory at exit, so Python need not search for garbage.
    sys.exit(code)


def _decided() -> None:
    """Ignore interrupts from now on, because the exit code is final.

    At its end Python resets SIGINT to its default, unless the signal is ignored. A second Ctrl-C would then kill a
    process that has already printed its outcome.
    """
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
