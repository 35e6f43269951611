"""Made-up output of `iostat -x -y`: steady and bursty loads, on one to eight devices, with 5 to 300 reports."""

from __future__ import annotations

import random
from collections.abc import Callable

BANNER = "Linux 6.1.0-13-amd64 (db4) \t11/21/26 \t_x86_64_\t(2 CPU)\n"
HEADER = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await"
    " wareq-sz  aqu-sz  %util"
)
Rates = list[list[tuple[float, float]]]
"""For each report, the reads and writes per second of each device."""


def text_of_rates(rates: Rates) -> str:
    """Return iostat's text with these reads and writes per second; requests have 16 KiB, and none waits."""
    lines = [BANNER]
    for report in rates:
        lines.append(HEADER)
        for number, (reads, writes) in enumerate(report):
            numbers = (reads, 16 * reads, 0, 0, 0, 16 if reads else 0, writes, 16 * writes, 0, 0, 0)
            lines.append(f"sd{chr(97 + number)} " + " ".join(f"{one:.2f}" for one in (*numbers, 16, 0, 1)))
        lines.append("")
    return "\n".join(lines)


def made_loads(files: int, seed: int) -> list[str]:
    """Return `files` texts of loads whose first report resembles the others."""
    chance = random.Random(seed)
    return [text_of_rates(_load(chance, _KINDS[number % len(_KINDS)])) for number in range(files)]


def _steady(chance: random.Random, count: int) -> list[float]:
    level, scatter = 10 ** chance.uniform(0.5, 4), chance.uniform(0.01, 0.25)
    return [max(0.0, chance.gauss(level, scatter * level)) for _ in range(count)]


def _exponential(chance: random.Random, count: int) -> list[float]:
    level = 10 ** chance.uniform(1, 4)
    return [chance.expovariate(1 / level) for _ in range(count)]


def _lognormal(chance: random.Random, count: int) -> list[float]:
    level, sigma = 10 ** chance.uniform(1, 4), chance.uniform(0.3, 1.5)
    return [level * chance.lognormvariate(0, sigma) for _ in range(count)]


def _bursts(chance: random.Random, count: int) -> list[float]:
    level, times, share = 10 ** chance.uniform(1, 3), chance.uniform(3, 20), chance.uniform(0.1, 0.5)
    return [level * chance.gauss(1, 0.1) * (times if chance.random() < share else 1) for _ in range(count)]


def _phases(chance: random.Random, count: int) -> list[float]:
    """Return a load that is on for some reports, then off for some, and so on."""
    level, stay, is_on, found = 10 ** chance.uniform(2, 4), chance.uniform(0.5, 0.9), chance.random() < 0.5, []
    for _ in range(count):
        found.append(abs(chance.gauss(1, 0.1)) * (level if is_on else 2.0))
        is_on = is_on if chance.random() < stay else not is_on
    return found


def _wandering(chance: random.Random, count: int) -> list[float]:
    level, keep, at, found = 10 ** chance.uniform(1, 4), chance.uniform(0.5, 0.95), chance.gauss(0, 1), []
    for _ in range(count):
        found.append(level * 2.718 ** (0.7 * at))
        at = keep * at + (1 - keep**2) ** 0.5 * chance.gauss(0, 1)
    return found


_KINDS: tuple[Callable[[random.Random, int], list[float]], ...] = (
    _steady,
    _exponential,
    _steady,
    _lognormal,
    _steady,
    _bursts,
    _steady,
    _phases,
    _steady,
    _wandering,
)


def _load(chance: random.Random, kind: Callable[[random.Random, int], list[float]]) -> Rates:
    count, devices = chance.randint(5, 300), chance.randint(1, 8)
    columns = [(kind(chance, count), kind(chance, count)) for _ in range(devices)]
    return [[(reads[at], writes[at]) for reads, writes in columns] for at in range(count)]
