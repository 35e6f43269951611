"""MySQL: a private server for each run, from a build on PATH, by path, or by the name of a fetched one."""
