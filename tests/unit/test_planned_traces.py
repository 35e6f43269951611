"""The page traces that a sweep's runs carry: by default, by name, and when a sweep is resumed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from bufferlab import plan, spec
from bufferlab.engines import registry as engines
from bufferlab.errors import EnvironmentLackingError, SpecError
from bufferlab.execute.probes.page_trace_probe import NOTHING_SAID, OFF, PageTraceAsked, TraceWish, asked, planned
from bufferlab.results.page_traces import PlannedTraces
from bufferlab.spec import Overrides

TRACED = PlannedTraces(recorder="inside", keep="one", by_name=False)
UNTRACED = PlannedTraces(recorder=None, keep="one", by_name=False)


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unset the variable that turns traces off in tests."""
    monkeypatch.delenv(OFF, raising=False)


def of(
    experiment: str = "buffer-size", wish: TraceWish = NOTHING_SAID, stored: Any = None, **overrides: Any
) -> PlannedTraces:
    """Return the planned traces of an experiment's sweep."""
    loaded = spec.load(experiment, Overrides(**overrides))
    return planned(wish, plan.make(loaded, plan.estimated_facts(loaded)), stored)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers be of a known build without `cost_shown`."""
    behaviour = type(engines.behaviour("mysql"))
    monkeypatch.setattr(behaviour, "require_page_trace", lambda *_: None)
    monkeypatch.setattr(behaviour, "page_trace_cost_is_shown", lambda *_: False)


def test_runs_on_sqlite_carry_a_trace_and_the_sweep_keeps_those_of_one_block() -> None:
    assert of() == TRACED
    assert of("open-loop").recorder is None
    assert "asks for times" in str(of("open-loop").why_not)
    (probe,) = asked(TRACED, TraceWish(limit_bytes=5))
    assert probe == PageTraceAsked(5, "one", by_name=False)
    assert asked(UNTRACED, NOTHING_SAID) == ()


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({"sweep": (("pcache", ("ours", "stock")),)}, "accesses to the pages of SQLite's own pool cannot be recorded"),
        ({"engine": "mysql", "set_knobs": (("server", "mysql://u@localhost/d"),)}, "that runs already cannot be"),
    ],
)
def test_what_cannot_be_recorded_is_told_in_a_sentence_and_is_no_error(overrides: Any, why: str) -> None:
    found = of(**overrides)
    assert found.recorder is None
    assert why in str(found.why_not)


def test_a_host_that_lacks_something_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object) -> None:
        raise EnvironmentLackingError("servers on this processor cannot record themselves", "aarch64")

    monkeypatch.setattr(type(engines.behaviour("mysql")), "require_page_trace", lacking)
    assert of(engine="mysql").why_not == "servers on this processor cannot record themselves"
    assert of(engine="mysql", wish=TraceWish(by_name=True)).recorder == "inside", "the run refuses it, by name"


def test_an_engine_without_a_pool_has_nothing_to_say() -> None:
    assert of("random-read") == UNTRACED


@pytest.mark.usefixtures("servers")
def test_a_server_whose_cost_is_not_shown_has_no_trace_where_times_are_asked_for() -> None:
    assert of(engine="mysql") == TRACED
    for asks_for_times in ("open-loop", "index-scan"):
        found = of(asks_for_times, engine="mysql")
        assert found.recorder is None
        assert "asks for times" in str(found.why_not)
    assert of("open-loop", engine="mysql", wish=TraceWish(by_name=True)).recorder == "inside"


@pytest.mark.usefixtures("servers")
def test_a_server_whose_cost_is_shown_has_a_trace_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(engines.behaviour("mysql")), "page_trace_cost_is_shown", lambda *_: True)
    assert of("open-loop", engine="mysql") == TRACED


@pytest.mark.usefixtures("servers")
def test_connections_that_share_the_processors_have_no_trace_at_any_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(engines.behaviour("mysql")), "page_trace_cost_is_shown", lambda *_: True)
    found = of("concurrency", engine="mysql")
    assert found.recorder is None
    assert "what the processors can do" in str(found.why_not)
    assert of("concurrency", engine="mysql", wish=TraceWish(by_name=True)).recorder == "inside"


def test_nobody_who_wants_none_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert of(wish=TraceWish(unwanted=True)) == UNTRACED
    monkeypatch.setenv(OFF, "")
    assert of() == UNTRACED
    assert of(wish=TraceWish(by_name=True, keep="all")) == PlannedTraces(recorder="inside", keep="all", by_name=True)


def stored(traces: PlannedTraces | None) -> Mapping[str, Any]:
    return {"experiment": "x", **({"page_trace": traces.model_dump()} if traces else {})}


@pytest.mark.parametrize("traces", [TRACED, UNTRACED, PlannedTraces(recorder="inside", keep="all", by_name=True)])
def test_a_resumed_sweep_goes_on_as_it_was_begun(traces: PlannedTraces, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of(stored=stored(traces)) == traces
    assert of(stored=stored(traces), wish=TraceWish(traces.by_name, keep=traces.keep)) == traces
    monkeypatch.setenv(OFF, "1")
    assert of(stored=stored(traces)) == traces


@pytest.mark.parametrize("wish", [TraceWish(limit_bytes=5), TraceWish(by_name=True, limit_bytes=5)])
def test_a_resumed_sweep_keeps_its_limit_unless_it_is_given_another(wish: TraceWish) -> None:
    begun = stored(of(wish=wish))
    (probe,) = asked(of(stored=begun), NOTHING_SAID)
    assert probe.limit_bytes == 5
    again = TraceWish(limit_bytes=7)
    (probe,) = asked(of(wish=again, stored=begun), again)
    assert probe.limit_bytes == 7


def test_a_plan_of_an_earlier_version_has_no_limit() -> None:
    earlier = {"recorder": "inside", "keep": "one", "by_name": False, "why_not": None}
    (probe,) = asked(of(stored={"experiment": "x", "page_trace": earlier}), NOTHING_SAID)
    assert probe.limit_bytes is None


@pytest.mark.parametrize(
    ("wish", "traces", "flag"),
    [
        (TraceWish(unwanted=True), TRACED, "--no-page-trace"),
        (TraceWish(by_name=True), UNTRACED, "--probe page-trace"),
        (TraceWish(keep="all"), TRACED, "--keep-traces all"),
    ],
)
def test_a_resume_with_another_flag_is_refused(wish: TraceWish, traces: PlannedTraces, flag: str) -> None:
    with pytest.raises(SpecError) as refused:
        of(wish=wish, stored=stored(traces))
    assert "the sweep was begun with" in refused.value.what
    assert flag in str(refused.value.where)


def test_a_sweep_that_the_kernel_recorded_is_not_resumed() -> None:
    with pytest.raises(SpecError, match="only an earlier version"):
        of(stored=stored(PlannedTraces(recorder="uprobes", keep="all", by_name=True)))


def test_a_sweep_of_an_earlier_version_is_resumed_as_the_command_says() -> None:
    assert of(stored=stored(None)).recorder is None
    assert of(stored=stored(None), wish=TraceWish(by_name=True)) == PlannedTraces(
        recorder="inside", keep="all", by_name=True
    )
