#!/usr/bin/env bash
# version: libcachesim 0.3.5 (the Python package)
# behaviour: The policy ClockPro never fills its cache: it holds `init_ratio_cold` times `cache_size` objects, and its
#   default is 0.5, not the 1 that its docstring says. With a cache of 1,000 objects, which are all that is ever asked
#   for, it misses every second get, and at any size it is compared with other policies of twice its memory. Twenty
#   other policies hold all 1,000 objects (LIRS 999 of them).
#   A guess that is wrong: in a cache as large as all objects, each policy misses an object once.
# seen:
#   > LRU: 1000 misses of 50000 gets, 1000 of 1000 objects held
#   > ARC: 1000 misses of 50000 gets, 1000 of 1000 objects held
#   > LIRS: 1033 misses of 50000 gets, 999 of 1000 objects held
#   > ClockPro: 25210 misses of 50000 gets, 500 of 1000 objects held
#   > ClockPro with init_ratio_cold=0.1: 45130 misses of 50000 gets, 100 of 1000 objects held
set -euo pipefail
self=$(realpath "$0") work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check libcachesim==0.3.5

cat >"$work/play.py" <<'PY'
import random

import libcachesim

OBJECTS, GETS = 1000, 50_000
random.seed(1)
trace = [random.randrange(OBJECTS) for _ in range(GETS)]


def play(name, **settings):
    cache = getattr(libcachesim, name)(cache_size=OBJECTS, **settings)
    misses = 0
    for clock, number in enumerate(trace):
        request = libcachesim.Request()
        request.obj_id, request.obj_size, request.clock_time = number, 1, clock
        misses += not cache.get(request)
    chosen = "".join(f" with {key}={value}" for key, value in settings.items())
    print(f"{name}{chosen}: {misses} misses of {GETS} gets, {cache.get_n_obj()} of {OBJECTS} objects held", flush=True)


for policy in ("LRU", "ARC", "LIRS", "ClockPro"):
    play(policy)
play("ClockPro", init_ratio_cold=0.1)
PY
"$work/venv/bin/python" "$work/play.py" >"$work/seen" 2>"$work/log"
diff <(sed -n 's/^#   > //p' "$self") "$work/seen" && echo "as seen before"
