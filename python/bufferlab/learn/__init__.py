"""Learns at which instructions an unknown server build gets, reads, creates and evicts pages, and proves it.

The core proposes probe sites from the names and counters in the binary (crates/bufferlab-probe/src/page_trace/propose).
A copy of the binary then runs privately under a load. The accesses recorded at these sites are compared with the
server's own counters and its own list of resident pages (`proof.py`). On PostgreSQL changed and written pages are
compared, too (`written.py`). Only sites that agree are kept (engines/servers/learnt.py).
"""
