"""What theory says a buffer pool will do. Pure: numbers in, numbers out; no files, no engines, no measurements."""
