"""SQLite, embedded: the engine that needs nothing installed."""
