"""Runs a plan on an engine: one worker process per run. A room each for data, run, host and probes."""
