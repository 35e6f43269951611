"""A user's own SQL script as a workload."""
