"""Turns an experiment's TOML into a typed Experiment; every error names file, line, key and a hint."""

from bufferlab.spec.catalog import builtin_experiments, find_experiment
from bufferlab.spec.experiment import Experiment
from bufferlab.spec.load import load, loads
from bufferlab.spec.overrides import Overrides
from bufferlab.spec.write import to_toml

__all__ = [
    "Experiment",
    "Overrides",
    "builtin_experiments",
    "find_experiment",
    "load",
    "loads",
    "to_toml",
]
