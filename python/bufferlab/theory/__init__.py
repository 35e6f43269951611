"""Theory's predictions for a buffer pool. Pure: numbers in, numbers out; no files, no engines, no measurements."""
