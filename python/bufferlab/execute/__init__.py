"""Runs a plan on an engine: one worker process per run. Data, run, host, probes and fleet have a folder each."""
