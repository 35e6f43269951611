"""`python -m bufferlab`: the same as the command `bufferlab`."""

from bufferlab.cli import main

if __name__ == "__main__":
    main()
