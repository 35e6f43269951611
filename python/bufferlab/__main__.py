"""Runs the command `bufferlab` as `python -m bufferlab`."""

from bufferlab.cli.entry import main

if __name__ == "__main__":
    main()
