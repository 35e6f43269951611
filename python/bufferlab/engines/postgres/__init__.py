"""PostgreSQL: a private server for each run, on a copy of a loaded cluster."""
