"""The fake engine as if it were a server: a directory for a database, builds with versions, a log. For tests."""
