"""Any program that drives a server by itself, started against the run's server."""
