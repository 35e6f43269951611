"""Random reads of a file or block device: what a database asks of its storage, without the database."""
