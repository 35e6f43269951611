"""Runs the campaign's families one after the other and prints their totals; `tools/campaign` calls it."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from campaign import fuzz, inside, kills, mounts, pairs, planted, servers, sessions
from campaign.inputs import FAMILIES, ROOT
from campaign.records import State, table

_INPUTS, _KILLS, _INSIDE, _PAIRS, _PLANTED, _MOUNTS, _SERVERS, _SESSIONS = 10_000, 25, 35, 10, 25, 50, 1_000, 10_000
GOALS = {
    **{f"fuzz:{name}": _INPUTS for name in FAMILIES},
    **{f"kills:{name}": _KILLS for name in kills.ENGINES},
    **{f"inside:{name}": _INSIDE for name in inside.SERVERS},
    **{f"pairs:{name}": _PAIRS for name in pairs.SERVERS},
    **{f"planted:{name}": _PLANTED for name in pairs.SERVERS},
    **{f"mounts:{name}": _MOUNTS for name in mounts.NAMES},
    **{f"servers:{name}": _SERVERS for name in servers.NAMES},
    **{f"sessions:{name}": _SESSIONS for name in sessions.NAMES},
}
"""The number of trials of a whole campaign, by family."""


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; return 1 if there is a finding, else 0."""
    given = _parser().parse_args(arguments)
    chosen = [name for name in GOALS if any(name == wanted or name.startswith(f"{wanted}:") for wanted in given.only)]
    if given.only and not chosen:
        print(f"no such family; there are: {', '.join(GOALS)}", file=sys.stderr)
        return 2
    # End as after Ctrl-C: stop servers and remove folders.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    state, families = State(given.state.absolute()), chosen or list(GOALS)
    for family in families if given.minutes > 0 else ():
        kind, _, name = family.partition(":")
        more = {"seed": given.seed, "seconds": 60 * given.minutes, "goal": sys.maxsize if given.more else GOALS[family]}
        print(f"== {family}, seed {given.seed}", flush=True)
        match kind:
            case "fuzz":
                fuzz.run(state, name, corpus=given.corpus, **more)
            case "kills":
                kills.run(state, name, **more)
            case "inside":
                inside.run(state, name, **more)
            case "pairs":
                pairs.run(state, name, **more)
            case "planted":
                planted.run(state, name, **more)
            case "mounts":
                mounts.run(state, name, **more)
            case "servers":
                servers.run(state, name, **more)
            case "sessions":
                sessions.run(state, name, **more)
    print(table(state, {family: GOALS[family] for family in families}))
    return int(any(state.total(family).findings for family in state.families()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/campaign", description=__doc__)
    parser.add_argument(
        "--minutes", type=float, default=2.0, metavar="N", help="for each family at most (2; 0: totals)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="another campaign (1)")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), default=[], metavar="LIST", help="such as fuzz,kills:mysql"
    )
    parser.add_argument("--more", action="store_true", help="go on beyond the goals until the minutes are over")
    parser.add_argument(
        "--state",
        type=Path,
        default=ROOT / "target/campaign",
        metavar="DIR",
        help="records and evidence; a campaign goes on where it stopped (target/campaign)",
    )
    parser.add_argument(
        "--corpus",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="more text for the parsers; repeatable",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
