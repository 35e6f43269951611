"""The command line. This file is the way in: it imports the rest late, so that Ctrl-C is never a traceback."""


def main() -> None:
    """Run `bufferlab` with the process's arguments and end with its exit code."""
    import signal
    import sys

    try:
        from bufferlab.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 128 + signal.SIGINT
    sys.exit(code)
