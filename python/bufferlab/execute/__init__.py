"""Runs a plan on an engine, one worker process for each run. The folders are data, run, host, probes and fleet."""
