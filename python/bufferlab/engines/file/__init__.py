"""The engine for random reads of a file, a loop device over it, or a block device: the storage below every database."""
