"""A server that bufferlab did not start, reached by URL: one schema of it is used, and it is left as it was."""
