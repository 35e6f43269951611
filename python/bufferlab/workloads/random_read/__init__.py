"""Random reads of a file or block device: a database's requests to its storage, without the database."""
