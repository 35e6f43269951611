"""Does a sweep on the nodes of a cluster: creates or continues its folder, starts the courier, and merges at the end.

The same two functions as without a cluster do the work: `run_sweep` on each node, and `merge` here.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from bufferlab import __version__, marked
from bufferlab.engines.native import native
from bufferlab.engines.servers.existing.address import is_url
from bufferlab.errors import (
    BufferlabError,
    EnvironmentLackingError,
    Failure,
    InternalError,
    Interrupted,
    Problem,
    RunFailed,
    SpecError,
)
from bufferlab.execute.fleet import courier
from bufferlab.execute.fleet.cluster_address import require_cluster
from bufferlab.execute.fleet.gathering import Gathering
from bufferlab.execute.fleet.node_options import NodeOptions
from bufferlab.execute.progress import Progress, SweepStatus
from bufferlab.execute.resume import SUPERSEDED
from bufferlab.execute.run.supervise import Event, Outcome, supervise
from bufferlab.execute.stop import StopRequest
from bufferlab.execute.sweep import SweepOptions
from bufferlab.plan import estimated_facts, make
from bufferlab.results.blocks import said
from bufferlab.results.store import SweepFolder
from bufferlab.spec import Experiment


def run_on_cluster(
    experiment: Experiment, out: Path, address: str, progress: Progress, options: SweepOptions
) -> tuple[SweepFolder, list[Problem]]:
    """Measure every point of an experiment on the nodes of the Ray cluster at `address`, a block at a time.

    Return the merged sweep, and a problem for each block that lacks runs. Raises the errors of `resume_on_cluster`, and
    SpecError for an experiment that only one host can do.
    """
    for problem in require_cluster(address):
        progress.warn(problem)
    _require_shareable(experiment)
    blocks = options.blocks or tuple(range(experiment.design.most))
    make(
        experiment, estimated_facts(experiment), options.blocks
    )  # Before any node is contacted, refuse an experiment that no node could do.
    gathering = Gathering.create(out.absolute(), experiment, blocks, NodeOptions.of(options))
    return _gathered(gathering, address, progress)


def resume_on_cluster(path: Path, address: str, progress: Progress) -> tuple[SweepFolder, list[Problem]]:
    """Do on a cluster the runs that a gathering's folder lacks. Return as `run_on_cluster`.

    A gathering is the folder that collects the runs of a sweep on a cluster. Raises EnvironmentLackingError for a
    cluster that cannot be used or a node that differs, RunFailed if blocks are missing after all rounds, Interrupted if
    a signal requests a stop; the received runs stay in the folder. Raises DataFileError or SpecError for a folder that
    is damaged, or is not a gathering's.
    """
    gathering = Gathering.open(path)
    if not gathering.is_whole:  # If an earlier command was killed late, only the merge may be left to do.
        for problem in require_cluster(address):
            progress.warn(problem)
    return _gathered(gathering, address, progress)


def _require_shareable(experiment: Experiment) -> None:
    """Raise SpecError for an already running server: all nodes would measure the same server."""
    asked = [experiment.knobs["server"].asked] if "server" in experiment.knobs else []
    asked += [setting.asked for setting in experiment.sweep.get("server", ())]
    for value in asked:
        if is_url(value):
            what = "all nodes would measure the one server that runs already, at the same time"
            raise SpecError(what, f"--server {value}", "name a build, which each node starts for itself")


def _gathered(gathering: Gathering, address: str, progress: Progress) -> tuple[SweepFolder, list[Problem]]:
    hint = f"bufferlab run --resume {gathering.path} --ray {address}"
    with StopRequest() as stop, gathering.held():
        if not gathering.is_whole:
            outcome = _courier(gathering, address, progress, stop)
            if outcome.result is None or outcome.result["status"] != "whole":
                _require_whole(gathering, outcome, hint, stop)
        progress.show(SweepStatus("merging", 0, 0, "", 1.0, 0.0))
        merged, problems = gathering.join()
    return merged, problems


def _courier(gathering: Gathering, address: str, progress: Progress, stop: StopRequest) -> Outcome:
    versions = {"bufferlab": __version__, "core": native().core_version()}
    job = {"folder": str(gathering.path.absolute()), "address": address, "versions": versions}
    with ExitStack() as stack:
        # The file is in the sweep's folder, so that the next --resume removes it after a kill.
        with gathering.writing("the log"):
            name = f"{marked.TEMPORARY}{secrets.token_hex(6)}"
            place = stack.enter_context(marked.folder(gathering.path.resolve(), name))
        return supervise(
            "gather",
            "",
            job,
            log_file=place / "courier.log",
            stop=stop,
            silent_seconds=courier.SILENT_S,
            on_event=_Heard(gathering, progress),
            module=courier.MODULE,
        )


class _Heard:
    """The handler of the courier's events, which shows them to the user."""

    def __init__(self, gathering: Gathering, progress: Progress) -> None:
        self._progress = progress
        points = len(make(gathering.experiment, estimated_facts(gathering.experiment)).points)
        self._runs = points * len(gathering.blocks)

    def __call__(self, event: Event) -> None:
        match event["event"]:
            case "said":
                self._progress.say(event["text"])
            case "warned":
                self._progress.warn(Problem(event["what"], event["where"], event["hint"]))
            case "status":
                busy, home = event["busy"], event["home"]
                who = f"{busy} {'node works' if busy == 1 else 'nodes work'}" if busy else "waiting for a node"
                stage = f"{who}, {home} of {self._runs} runs are home"
                self._progress.show(SweepStatus(stage, 0, self._runs, "", event["done"], event["left_s"]))


def _require_whole(gathering: Gathering, outcome: Outcome, hint: str, stop: StopRequest) -> None:
    """Raise the error that left the sweep incomplete, unless its missing runs failed for lasting reasons."""
    result = outcome.result
    if stop.requested or (result is not None and result["status"] == "interrupted"):
        number = stop.signal_number or 15
        # Only this sentence of an interrupt is shown, so it contains the command.
        raise Interrupted(number, f"interrupted; {_home(gathering)}. To do the rest: {hint}")
    if result is None:
        raise _not_connected(gathering, outcome, hint)
    problems = [_problem(told, int(block)) for block, told in result["problems"].items()]
    if all(gathering.state(block).lasting for block in result["missing"]):
        return
    missing = said(result["missing"])
    what = f"interrupted: not whole, after three rounds or with no node left: {missing}; {_home(gathering)}"
    raise RunFailed(what, str(gathering.path), f"to do the rest: {hint}", more=problems, kind="interrupted")


def _not_connected(gathering: Gathering, outcome: Outcome, hint: str) -> BufferlabError:
    """Return the error that ended the courier.

    A folder that has received nothing is removed, because it has no run to continue.
    """
    failure, more = outcome.failure or Failure("the courier ended without a word"), _more(outcome)
    # Only an error of writing to this host's disk has this hint.
    said_how = gathering.resume_command in (failure.hint or "")
    # If another host began a block anew, the runs of its first host are in superseded/.
    places = [*(gathering.part(block) for block in gathering.blocks), gathering.path / SUPERSEDED]
    is_begun = said_how or any(place.exists() for place in places)
    if not is_begun:
        gathering.remove()
    if failure.kind == "internal":
        return InternalError(failure.what, failure.where, failure.hint, more=more)
    if failure.kind in ("crash", "silent"):
        what = f"the connection with the cluster was lost: {failure.what}"
        if not is_begun:
            return EnvironmentLackingError(
                what, failure.where, "look whether its head lives, and run the command again"
            )
        return RunFailed(f"{what}; {_home(gathering)}", failure.where, f"to do the rest: {hint}", kind="interrupted")
    then = f"{failure.hint}, then: {hint}" if is_begun else failure.hint
    if said_how and failure.hint:
        then = failure.hint.replace(gathering.resume_command, hint)
    return EnvironmentLackingError(failure.what, failure.where, then, more=more, kind=failure.kind)


def _problem(told: Mapping[str, str | None], block: int) -> Problem:
    return Problem(f"{said([block])}: {told['what']}", told.get("where"), told.get("hint"))


def _more(outcome: Outcome) -> list[Problem]:
    return [Problem(str(one["what"]), one.get("where"), one.get("hint")) for one in outcome.more]


def _home(gathering: Gathering) -> str:
    """Return in words how many runs of a sweep this host has received."""
    done = 0
    for block in gathering.blocks:
        try:
            done += len(gathering.state(block).done)
        except BufferlabError:
            continue
    return f"{done} {'run is' if done == 1 else 'runs are'} home, and kept"
