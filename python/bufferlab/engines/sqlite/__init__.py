"""SQLite, embedded: the engine for which no server must be installed."""
