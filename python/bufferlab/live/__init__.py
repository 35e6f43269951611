"""Looks at a server that runs: what its pool misses, and what another size would read. Changes nothing."""
