"""The fake engine as a server, for tests: its database is a directory, its builds have versions, and it writes a
log."""
