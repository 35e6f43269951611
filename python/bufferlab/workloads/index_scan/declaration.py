"""Parameters and sizes of TPC-H's Q1 with a chosen plan.

Pure data; the core makes the rows, and runs and checks the query.


Follows the TPC-H specification, revision 3.0: LINEITEM (1.4.1), scale factors (4.2.5), Q1 (2.4.1).
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from bufferlab.knob import Knob
from bufferlab.workloads.declaration import Impossible, OnlyOn, Parameters, WorkloadDeclaration

# Measured on SQLite files with 4 KiB pages, including the index on the ship date.
_BYTES_PER_SCALE = {"lineitem": 650_000_000, "all": 1_000_000_000}
_DATE = r"(199[2-8])-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"


def _estimate_bytes(parameters: Parameters, page_size_bytes: int) -> int:
    """Return the estimated bytes of the tables and the index. Pages below 4 KiB waste a larger share of their bytes."""
    waste = 1.1 if page_size_bytes < 4096 else 1.0
    return int(waste * float(parameters["scale_factor"]) * _BYTES_PER_SCALE[str(parameters["tables"])])


def _impossible(parameters: Parameters) -> Impossible | None:
    """Return why ship_from and ship_until are wrong (not a date, or no day between them); None if they are right."""
    days = {}
    for name in ("ship_from", "ship_until"):
        try:
            days[name] = date.fromisoformat(str(parameters[name]))
        except ValueError as error:
            return Impossible(f"{name} = {parameters[name]} is not a date: {error}", "write one such as 1998-09-03")
    if days["ship_from"] < days["ship_until"]:
        return None
    return Impossible(
        f"ship_until = {days['ship_until']} is not after ship_from = {days['ship_from']}",
        "ship_until is the first day that is not read",
    )


_PARAMETERS: tuple[Knob, ...] = (
    Knob.number("scale_factor", "TPC-H's scale: 6 million lines, about 650 MB with the index, for each 1",
                default="0.1", minimum=Decimal("0.01"), maximum=50, decides_file=True),
    Knob.choice("tables", ("lineitem", "all"),
                "what is loaded: LINEITEM, which Q1 reads; or all eight, if shares are to be of the whole database",
                default="lineitem", decides_file=True),
    Knob.choice("plan", ("index_scan", "sequential", "bitmap"),
                "how the rows are found; forced, and checked before the window (bitmap: PostgreSQL alone)",
                default="index_scan"),
    Knob.text("ship_from", "first ship date that is read", pattern=_DATE,
              example="a date from 1992 to 1998, such as 1992-01-01", default="1992-01-01"),
    Knob.text("ship_until",
              "first ship date after it that is not read; 1998-09-03 is Q1 with DELTA = 90, 98 % of the rows",
              pattern=_DATE, example="a date from 1992 to 1998, such as 1998-09-03", default="1998-09-03"),
)  # fmt: skip

DECLARATION = WorkloadDeclaration(
    name="index_scan",
    version=1,
    meaning="TPC-H's Q1 over ship dates, by an index, a sequential or a bitmap scan; every answer is checked",
    words="Q1 of TPC-H",
    parameters=_PARAMETERS,
    transaction_types=("q1",),
    headline="seconds_per_transaction",
    compared=(
        "seconds_per_transaction",
        "device_reads_per_transaction",
        "device_read_size_kib",
        "reads_per_transaction",
        "misses_per_transaction",
        "page_gets_per_transaction",
        "read_bytes_per_transaction",
        "cpu_us_per_transaction",
    ),
    estimate_bytes=_estimate_bytes,
    grows_bytes_per_transaction=0.0,
    source="Transaction Processing Performance Council: TPC Benchmark H, Standard Specification.",
    caveat="one query of TPC-H on one of its tables: not a TPC-H result, and not comparable with one",
    relative_cost=2000.0,
    impossible=_impossible,
    only_on=(OnlyOn("plan", "bitmap", ("postgres",), "rows are fetched there one by one, in the order of the index"),),
)
