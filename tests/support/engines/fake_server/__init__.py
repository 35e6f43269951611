"""The fake engine in the shape of a server, for tests: its database is a directory, builds have versions, it logs."""
