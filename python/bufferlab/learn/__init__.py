"""Learns where an unknown build of a server gets, reads, makes and evicts pages, and proves it on a private server.

The core proposes places from the names and counters in the binary (crates/bufferlab-probe/src/page_trace/propose). A
copy of the binary then runs privately under a load. The accesses recorded at these places are held against the server's
own counters and its own list of resident pages (`proof.py`). Only what agrees is kept (engines/servers/learnt.py).
"""
