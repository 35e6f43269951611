"""Page accesses as columns: reads and writes trace files of other tools, and computes LRU misses for all pool sizes."""
