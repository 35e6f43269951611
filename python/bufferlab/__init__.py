"""bufferlab: a laboratory for database buffer pools and the storage under them.

This file holds the version and nothing else, so that `bufferlab --help` stays quick.
"""

__version__ = "0.1.0"
