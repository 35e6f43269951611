"""The workload that is an external program: it drives the run's server by itself."""
