"""Any program that drives a server by itself, started against ours."""
