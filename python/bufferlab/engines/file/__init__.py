"""A file, a loop device over one, or a block device: the storage under every database, read and never written."""
