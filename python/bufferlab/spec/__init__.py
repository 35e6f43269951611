"""Turns an experiment's TOML into a typed Experiment; every error names file, line, key and a hint."""

from bufferlab.catalog import builtin_experiments, find_experiment
from bufferlab.spec.experiment import Experiment, to_toml
from bufferlab.spec.load import load, loads
from bufferlab.spec.profiles import Overrides

__all__ = [
    "Experiment",
    "Overrides",
    "builtin_experiments",
    "find_experiment",
    "load",
    "loads",
    "to_toml",
]
