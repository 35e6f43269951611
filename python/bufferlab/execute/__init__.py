"""Runs a plan on an engine: data, copies, one worker process per run, publication. One stage per file."""
