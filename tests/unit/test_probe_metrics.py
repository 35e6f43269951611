"""What the core's probes emit and what the metric registry declares must be the same list.

The names are read from the probes' source text: a name that only one side knows would be lost in a run.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bufferlab.results import metrics

PROBES = Path(__file__).parents[2] / "crates/bufferlab-probe/src"
SOURCES = {"device": "device/probe.rs", "cpu": "cpu.rs", "memory": "memory.rs", "process": "process.rs"}


@pytest.mark.parametrize("probe", SOURCES)
def test_a_probe_emits_exactly_the_metrics_declared_for_it(probe: str) -> None:
    source = (PROBES / SOURCES[probe]).read_text()
    emitting, _, _tests = source.partition("#[cfg(test)]")
    declared = {metric.name for metric in metrics.RAW.values() if metric.probe == probe}
    # Every quoted word with an underscore in these files is a metric's name.
    emitted = set(re.findall(r'"([a-z]+(?:_[a-z0-9]+)+|interrupts)"', emitting))
    assert emitted == declared


@pytest.mark.parametrize("probe", SOURCES)
def test_a_probe_names_itself_as_its_metrics_do(probe: str) -> None:
    assert f'const NAME: &str = "{probe}";' in (PROBES / SOURCES[probe]).read_text()


def test_the_driver_emits_every_metric_declared_for_the_workload() -> None:
    source = (PROBES.parents[1] / "bufferlab-load/src/driver.rs").read_text()
    emitting, _, _tests = source.partition("#[cfg(test)]")
    declared = {metric.name for metric in metrics.RAW.values() if metric.probe == "workload"}
    assert declared - set(re.findall(r'"([a-z0-9_]+)"', emitting)) == set()
