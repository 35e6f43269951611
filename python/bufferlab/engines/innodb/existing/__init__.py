"""MySQL and MariaDB servers that bufferlab did not start."""
