"""Page accesses as columns: files of other tools in and out, and the misses of an LRU pool of each size."""
