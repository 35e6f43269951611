"""What all ways to meet a server share, and the host of servers that run already, written once for all families."""
