"""Page accesses as columns: files of other tools in and out, and what an LRU pool of each size would miss."""
