"""The command line. This file is the way in: it imports the rest late, so that Ctrl-C is never a traceback."""


def main() -> None:
    """Run `bufferlab` with the process's arguments and end with its exit code."""
    import signal
    import sys

    try:
        from bufferlab.cli.app import run

        code = run(sys.argv[1:])
        _decided()
    except KeyboardInterrupt:
        _decided()
        print("interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    sys.exit(code)


def _decided() -> None:
    """From here on an interrupt changes nothing.

    Python gives SIGINT its default back while it ends, so that an impatient second Ctrl-C would end a process that has
    already said how it ended as one killed by a signal. What is ignored stays ignored.
    """
    import signal

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
