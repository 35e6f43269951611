"""The hosts of servers: one file for each way in which bufferlab meets a server, written once for all families."""
