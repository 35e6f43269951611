"""The base of all ways to work with a server, and the host of servers that run already, for all families."""
