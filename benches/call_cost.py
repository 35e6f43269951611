"""Measures the cost of following a server's system calls to the calls: loops in C with and without the recorder.

    PYTHONPATH=python .venv/bin/python benches/call_cost.py [--rounds 8]

Three loops of 200,000 calls, whose threads read their own processor time: pread64 in the followed process, pread64 in
another process, getppid in another process. The difference is the recorder's cost, with a 95 % interval over the
rounds. The machine must be otherwise idle. Needs root and a C compiler. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bufferlab.engines.native import native
from bufferlab.stats.estimate import quantile_of_t

CALLS = 200_000
PAGE_BYTES = 4096
LOOP = r"""
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int count, char **words) {
    int file = open(words[1], O_RDONLY), calls = atoi(words[2]), letter;
    static char page[4096] __attribute__((aligned(4096)));
    printf("%p\n", (void *)page);
    fflush(stdout);
    while ((letter = getchar()) != EOF) {
        double begun_ns = now_ns();
        for (int call = 0; call < calls; call++)
            if (letter == 'r')
                syscall(SYS_pread64, file, page, sizeof page, 0);
            else
                syscall(SYS_getppid);
        printf("%.3f\n", (now_ns() - begun_ns) / calls);
        fflush(stdout);
    }
}
"""
LOOPS = {"pread64, followed": (0, "r"), "pread64 of another process": (1, "r"), "getppid of another process": (1, "p")}


class Loop:
    """A process that makes a loop of calls on request."""

    def __init__(self, program: Path, file: Path) -> None:
        self.process = subprocess.Popen(
            [program, file, str(CALLS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        self.page = int(self.process.stdout.readline(), 16)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def call_ns(self, letter: str) -> float:
        """Return the mean processor time of one call in a loop, in nanoseconds."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(letter)
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


@contextmanager
def followed(loop: Loop, spool: Path) -> Iterator[None]:
    """Context manager that follows a process as if its buffer were a pool of one page."""
    pool = {
        "page_size_bytes": PAGE_BYTES,
        "regions": [[loop.page, loop.page + PAGE_BYTES]],
        "ring_reads": 0,
        "sweep_reads": 0,
        "is_shared": False,
    }
    trace = {"calls": {"pool": pool, "spool": {"path": str(spool), "limit_bytes": 1 << 30}}}
    job = {"pid": loop.process.pid, "events_per_s_max": 1e9, "trace": trace}
    core = native().live_trace(json.dumps(job))
    try:
        yield
    finally:
        core.finish()
        spool.unlink(missing_ok=True)


def main() -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    rounds = parser.parse_args().rounds
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in LOOPS}
    with tempfile.TemporaryDirectory(prefix="call-cost-") as folder, ExitStack() as stack:
        place = Path(folder)
        (place / "loop.c").write_text(LOOP)
        (place / "page").write_bytes(bytes(PAGE_BYTES))
        subprocess.run(["cc", "-O2", "-o", place / "loop", place / "loop.c"], check=True)
        loops = [stack.enter_context(Loop(place / "loop", place / "page")) for _ in range(2)]

        def measure(side: int) -> None:
            for name, (which, letter) in LOOPS.items():
                found[name][side].append(loops[which].call_ns(letter))

        for one in range(rounds + 1):
            for side in (0, 1) if one % 2 else (1, 0):
                with followed(loops[0], place / "spool") if side else ExitStack():
                    measure(side)
        print(f"{os.uname().release}, {rounds} rounds of {CALLS:,} calls\n")
        print("| call | without, ns | with, ns | added, us (95 %) |\n|---|---:|---:|---:|")
        for name, sides in found.items():
            # Leave out the first round, which warms the caches.
            without, with_it = (side[1:] for side in sides)
            added = [after - before for before, after in zip(without, with_it, strict=True)]
            half = quantile_of_t(0.975, rounds - 1) * statistics.stdev(added) / math.sqrt(rounds)
            mean = statistics.fmean(added)
            bounds = f"{mean / 1000:.3f} ({(mean - half) / 1000:.3f} to {(mean + half) / 1000:.3f})"
            print(f"| {name} | {statistics.median(without):.0f} | {statistics.median(with_it):.0f} | {bounds} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
