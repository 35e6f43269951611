"""The code that works with servers: the common base, and the part for already running servers, for all families."""
