"""Code that private servers of every family share: builds and fetching, consistency conditions, a memory limit."""
