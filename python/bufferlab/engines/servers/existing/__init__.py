"""A server that bufferlab did not start, given by URL: bufferlab uses one schema of it and changes nothing else."""
