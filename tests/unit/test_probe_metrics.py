"""The core's probes must emit exactly the metrics that the registry declares.

The tests read the names from the probes' source text: a run would lose a metric that only one side knows.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bufferlab.registry import registry

PROBES = Path(__file__).parents[2] / "crates/bufferlab-probe/src"
SOURCES = {"device": "device/probe.rs", "cpu": "cpu.rs", "memory": "memory.rs", "process": "process.rs"}


@pytest.mark.parametrize("probe", SOURCES)
def test_a_probe_emits_exactly_the_metrics_declared_for_it(probe: str) -> None:
    source = (PROBES / SOURCES[probe]).read_text()
    emitting, _, _tests = source.partition("#[cfg(test)]")
    declared = {metric.name for metric in registry().raw.values() if metric.probe == probe}
    # Every quoted word with an underscore in these files is a metric's name, but for /proc/stat's own names.
    emitted = set(re.findall(r'"([a-z]+(?:_[a-z0-9]+)+|interrupts)"', emitting)) - {"procs_running", "procs_blocked"}
    assert emitted == declared


@pytest.mark.parametrize("probe", SOURCES)
def test_a_probe_names_itself_as_its_metrics_do(probe: str) -> None:
    assert f'const NAME: &str = "{probe}";' in (PROBES / SOURCES[probe]).read_text()


LOAD = PROBES.parents[1] / "bufferlab-drive/src"


def written_in(*files: str) -> set[str]:
    """Return every quoted word in these files of the core, without their tests."""
    sources = ((LOAD / file).read_text().partition("#[cfg(test)]")[0] for file in files)
    return {word for source in sources for word in re.findall(r'"([a-z0-9_]+)"', source)}


def test_the_driver_emits_every_metric_declared_for_the_workload() -> None:
    declared = {metric.name for metric in registry().raw.values() if metric.probe == "workload"}
    assert declared - written_in("driver.rs", "sample_rows.rs") == set()


def test_what_is_read_from_an_innodb_server_is_what_is_declared() -> None:
    """Compare the core's one list of counters with the registry, in both directions."""
    ours = ("innodb_", "com_")
    declared = {name for name in registry().raw if name.startswith(ours)} | {"questions"}
    listed = written_in("mysql/counters.rs")
    assert declared - listed == set()
    known = declared | {"innodb_data_read", "innodb_data_written", "innodb_buffer_pool_read_requests"}
    named = {word for word in listed if word.startswith("innodb_metric_")}
    assert named - known == set()
