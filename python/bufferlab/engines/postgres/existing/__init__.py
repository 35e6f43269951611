"""PostgreSQL servers that bufferlab did not start."""
