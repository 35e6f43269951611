"""The families of hostile inputs: their starting files, how these are changed, and the command that reads the result.

An input depends only on its family, its seed and the corpus. Files are written to the folder that the caller gives.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import lzma
import os
import random
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import polars as pl

from bufferlab.execute import sweep_runs
from bufferlab.execute.predicted_sweep import predict_sweep
from bufferlab.models.other_pools import other_pools
from bufferlab.results import page_traces
from bufferlab.results.schema import FORMAT_VERSION, LATENCY_COLUMNS, SAMPLE_COLUMNS
from bufferlab.results.store import OTHER_POOLS_FILE
from bufferlab.spec import Overrides
from campaign import mutate
from campaign.family import Family, Folder, Text
from campaign.mangle_table import mangle_table
from campaign.merge_inputs import Merge
from support import mistyped, traced
from support.synthetic import BUFFER_SIZE, Sweep
from support.synthetic_innodb import SCAN_DEPTH, scan_depth
from support.synthetic_postgres import SPLITS, memory_split
from support.traced import GET

ROOT = Path(__file__).parents[2]
_AUDIT = ROOT / "tests/fixtures/audit"


class Toml(Text):
    """Experiments: `run FILE --dry-run`, with profiles and engines."""

    suffix = "toml"
    sources = sorted((ROOT / "experiments").glob("*/experiment.toml"))
    _FLAGS = ("--set", "--sweep", "--json", "--engine", "--repetitions", "--duration", "--seed", "--warehouses")

    def content(self, rng: random.Random) -> bytes:
        if rng.random() < 0.85:
            return super().content(rng)
        lines = rng.choice(self.texts).split("\n")
        at = rng.randrange(len(lines))
        key = lines[at].partition("=")[0]
        nested = mutate.nested(rng)
        lines[at] = rng.choice(
            (f"{key}= {nested}", f"{nested} = 1", f"[{nested}]", f"[[{nested}]]", f"{key}.{nested} = 1")
        )
        return "\n".join(lines).encode()

    def arguments(self, path: Path, rng: random.Random) -> list[str]:
        arguments = ["run", str(path), "--dry-run"]
        if rng.random() < 0.4:
            arguments.append(rng.choice(("--quick", "--full", "--smoke", "--json")))
        if rng.random() < 0.15:
            arguments += ["--engine", rng.choice(("mysql", "postgres", "mariadb", "sqlite", "file"))]
        if rng.random() < 0.2:
            name = rng.choice(
                ("pool_size", "page_size", "warehouses", "rate", "hot_rows", "path", "server", "script", "x")
            )
            value = rng.choice((rng.choice(mutate.NUMBERS), rng.choice(mutate.WORDS), "8k", "10%", "64MiB", "1,2,3"))
            arguments += [rng.choice(("--set", "--sweep")), f"{name}={value}"]
        return arguments


class Flags(Family):
    """Mistyped values of options, mostly URLs of servers; no command may show their passwords.

    A password has the secret on both sides of an odd character. Every command that takes an address gets one.
    """

    secret = "s3cr3t"
    _HOSTS = ("h", "db.example", "[::1]", "[", "a" * 64, "a." * 40 + "b", "é", "127.0.0.1:3306", ":", "h:99999", "")
    _URLS = (
        "{scheme}://me:{secret}@{host}/{schema}", "{scheme}://me@{host}/{schema}?{option}={secret}",
        "{scheme}:/me:{secret}@{host}/{schema}", "{scheme}//me:{secret}@{host}", "me:{secret}@{host}",
        "{scheme}://me:{secret} x@{host}/{schema}", "jdbc:{scheme}://{host}/{schema}?user=me&{option}={secret}",
        "host={host} user=me {option}={secret}", "{scheme}://me@{host}/{schema}", "{scheme}://{word}@{host}/{schema}",
        "{scheme}://me@{host}/{word}", "{scheme}://me@{host}/{schema}?socket={word}", "/{path}", "{word}",
        "{scheme}://me@{host}/{schema}?sslmode=require&{option}={secret}", "psql -h {host} -p{secret}",
        "{scheme}://me@corp:{secret}@{host}/{schema}", "user = me {option} = {secret} host = {host}",
    )  # fmt: skip
    _OPTIONS = ("password", "passwd", "pw", "Password", "PWD", "pass")
    _OTHERS = (
        ("--data-dir",), ("--out",), ("--repetitions",), ("--duration",), ("--seed",), ("--set",), ("--sweep",),
        ("--set", "pool_size={}"), ("--set", "rows={}"), ("--sweep", "hot_rows=1,{}"), ("--set", "{}=1"),
        ("--connections",), ("--rate",),
    )  # fmt: skip

    def make(self, rng: random.Random) -> list[str]:
        engine = rng.choice(("mysql", "postgres", "mariadb", "sqlite"))
        mistyped_as = rng.choice(self._URLS)
        value = mistyped_as.format(
            scheme=rng.choice(("mysql", "postgres", "postgresql", "mariadb", "http", "MYSQL")),
            host=rng.choice(self._HOSTS), schema=rng.choice(("lab", "", "mysql", "a" * 70, "lab/x")),
            option=rng.choice(self._OPTIONS),
            secret=f"{self.secret}{rng.choice(mistyped.ODD)}{self.secret}",
            word=rng.choice((*mutate.WORDS, *mutate.NUMBERS)),
            path=rng.choice(("a" * 300, "a/" * 3000, "dev/null", "proc/self/mem", "\udcff", "etc/passwd/x")),
        )  # fmt: skip
        value = value.replace("\0", "")  # A process's arguments cannot contain this byte.
        as_json = ["--json"] * (rng.random() < 0.5)
        if "{secret}" in mistyped_as and rng.random() < 0.4:
            return [*rng.choice((["observe"], ["advise", "--yes"], ["doctor", "--server"])), value, *as_json]
        given = ["--server", value]
        if rng.random() < 0.4:
            form = rng.choice((("--set", "server={}"), ("--sweep", "server=path,{}"), *self._OTHERS))
            given = [form[0], form[1].format(value) if len(form) > 1 else value]
        return ["run", "hot-rows", "--engine", engine, "--dry-run", *given, *as_json]


class Script(Text):
    """SQL scripts: `run FILE --dry-run`, which reads them with the core's parser."""

    suffix = "sql"
    sources = sorted((ROOT / "experiments").glob("*/*.sql"))

    def content(self, rng: random.Random) -> bytes:
        if rng.random() < 0.9:
            return super().content(rng)
        lines = rng.choice(self.texts).split("\n")
        expression = rng.choice((mutate.nested(rng), "1" + "+1" * rng.choice((5, 5000, 50_000)), "-" * 5000 + "1"))
        lines.insert(rng.randrange(len(lines)), f"\\set v {expression}")
        return "\n".join(lines).encode()

    def arguments(self, path: Path, rng: random.Random) -> list[str]:
        data = rng.choice(([], ["--set", "data=tpcc"], ["--set", "data=hot_rows"]))
        return ["run", str(path), "--dry-run", *data]


class SlowLog(Text):
    """Slow query logs that real servers wrote about a shop and about clients: `script-from-slow-log FILE`."""

    suffix = "log"
    sources = sorted((ROOT / "tests/fixtures/slow-log").rglob("*.log"))
    secret = "alice@example.org"

    def extra(self) -> Sequence[Path]:
        return [path for path in self.corpus if path.suffix == ".log"]

    def arguments(self, path: Path, rng: random.Random) -> list[str]:
        more = rng.choice(([], [], ["--by", "statement"], ["--schema", "shop"], ["--ansi-quotes"], ["--json"]))
        return ["script-from-slow-log", str(path), "-o", str(self.folder / "made.sql"), *more]

    def clear(self) -> None:
        (self.folder / "made.sql").unlink(missing_ok=True)


class Dumps(Text):
    """Dumps of MariaDB's and PostgreSQL's tools: `run SCRIPT --load FILE --dry-run`."""

    suffix = "sql"
    sources = sorted((ROOT / "tests/fixtures/dumps").glob("*.sql"))
    archives = sorted((ROOT / "tests/fixtures/dumps").glob("*.dump"))

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        super().__init__(folder, corpus)
        self.script = folder / "template-script.sql"
        self.script.write_text("SELECT count(*) FROM member;\n")

    def extra(self) -> Sequence[Path]:
        return [path for path in self.corpus if path.suffix == ".sql"]

    def content(self, rng: random.Random) -> bytes:
        if rng.random() < 0.6:
            return super().content(rng)
        whole = [path.read_bytes() for path in self.archives]
        return mutate.mangle_bytes(rng.choice(whole), rng, whole)

    def arguments(self, path: Path, rng: random.Random) -> list[str]:
        server = rng.choice(("mariadb-10.11", "mysql-8.0", "postgres-15"))
        as_json = ["--json"] * (rng.random() < 0.3)
        return ["run", str(self.script), "--load", str(path), "--server", server, "--dry-run", *as_json]


class _Audit(Text):
    """Text of other programs: `audit FILE`."""

    def extra(self) -> Sequence[Path]:
        return self.corpus

    def arguments(self, path: Path, rng: random.Random) -> list[str]:
        # Printing tables takes more time than the parsers; one in ten is enough.
        return ["audit", str(path), *(() if rng.random() < 0.1 else ("--json",))]


class TpccLog(_Audit):
    """Output of tpcc-mysql."""

    sources = (_AUDIT / "clean.txt", _AUDIT / "scan-depth.txt")


class Status(_Audit):
    """Output of SHOW ENGINE INNODB STATUS."""

    sources = (*sorted((_AUDIT / "status").glob("*.txt")), _AUDIT / "clean.txt")


class Iostat(_Audit):
    """Output of iostat and vmstat."""

    sources = (
        *sorted((_AUDIT / "iostat").glob("*.txt")),
        *sorted((_AUDIT / "own").glob("vmstat*.txt")),
        _AUDIT / "own/iostat-d.txt",
        _AUDIT / "clean.txt",
    )


class Counters(_Audit):
    """SHOW GLOBAL STATUS in the forms that clients print, and PostgreSQL's views."""

    sources = tuple(sorted((_AUDIT / "counters").glob("*.txt")))


class Documents(_Audit):
    """JSON of fio, iostat, BenchBase and HammerDB: its text, its values, and how its lines are broken."""

    sources = (
        *sorted((_AUDIT / "load").glob("*.json")),
        *sorted((_AUDIT / "iostat").glob("*.json")),
        _AUDIT / "load/fio-3.33-normal-and-json.txt",
    )

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        super().__init__(folder, corpus)
        texts = [path.read_text(encoding="utf-8") for path in self.sources if path.suffix == ".json"]
        self.documents = [json.loads(text) for text in texts if "\n{" not in text[1:]]

    def content(self, rng: random.Random) -> bytes:
        if rng.random() < 0.4:
            return super().content(rng)
        document = mutate.mangle_json(rng.choice(self.documents), rng)
        # Nested lists grow by a factor of 200 times 200; longer texts are cut off.
        encoder = json.JSONEncoder(indent=rng.choice((None, 0, 1, 2)))
        made = "".join(itertools.islice(encoder.iterencode(document), 200_000))
        if rng.random() < 0.1:
            made = made.replace(":", f": {mutate.nested(rng)},", 1)
        return f"{made}\n{rng.choice(('', made, rng.choice(self.texts)))}".encode("utf-8", errors="surrogatepass")


class LoadGenerators(_Audit):
    """Output of sysbench, pgbench, HammerDB, go-tpc and fio."""

    sources = tuple(sorted((_AUDIT / "load").glob("*.txt")))


class Blkparse(_Audit):
    """Output of blkparse."""

    sources = (_AUDIT / "block-trace.txt",)


class Tables(_Audit):
    """Tables of results with captions, separated by blanks, commas, tabs or bars."""

    sources = (_AUDIT / "buffer-size.txt", _AUDIT / "page-size.txt", _AUDIT / "scan-depth.txt")

    def content(self, rng: random.Random) -> bytes:
        data = super().content(rng)
        separator = rng.choice((b"", b"", b",", b"\t", b" | ", b";"))
        return b"\n".join(separator.join(line.split()) for line in data.split(b"\n")) if separator else data


class Accesses(Text):
    """Page accesses as our CSV and in the formats of others: `curve FILE`."""

    suffix = "csv"
    sources = (*sorted((ROOT / "tests/fixtures/traces").glob("*.csv")), ROOT / "tests/fixtures/traces/even.txt")
    _RECORD, _VSCSI, _LCS = struct.Struct("<IQIq"), struct.Struct("<IIIHHQQ"), struct.Struct("<QQ8168sQ")
    _MAGIC = 0x123456789ABCDEF0

    def extra(self) -> Sequence[Path]:
        return [path for path in self.corpus if path.suffix == ".csv"]

    def make(self, rng: random.Random) -> list[str]:
        if rng.random() < 0.4:
            return super().make(rng)
        if rng.random() < 0.5:
            return self._of_others(rng)
        name = rng.choice(
            ("input.oracleGeneral", "input.oracleGeneral.bin", "input.lcs", "input.vscsi", "input.lcs.gz")
        )
        numbers = (0, 1, 4096, 2**31, 2**32 - 1)
        data = b"".join(self._record(name, at, rng.choice(numbers), rng) for at in range(rng.choice((0, 1, 20, 20))))
        if ".lcs" in name:
            data = self._LCS.pack(self._MAGIC, 1, b"", self._MAGIC) + data
        path = self.folder / name
        if data and rng.random() < 0.5:
            data = mutate.mangle_bytes(data, rng, [data])
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return self.arguments(path, rng)

    def _record(self, name: str, at: int, number: int, rng: random.Random) -> bytes:
        if name.endswith(".vscsi"):
            sector = rng.choice((at % 7, at % 7, 2**45, 2**64 - 1))
            return self._VSCSI.pack(0, number, 0, 0x28, rng.choice((256, 256, 256, 1)), sector, at)
        return self._RECORD.pack(rng.choice((at, at, at, number)), rng.choice((at % 7, 2**64 - 1)), number, -1)

    def _of_others(self, rng: random.Random) -> list[str]:
        """Make a block trace, a list of pages or a file that zstd cannot unpack, sometimes with `--columns`."""
        sizes = (0, 1, 4096, 2**40 - 1, 2**63, 2**64)
        names = ("time", "ms", "page", "blkno", "lba", "offset", "id", "op", "size", "lun", "x")
        head = ",".join(rng.choices(names, k=4))
        rows: dict[str, Callable[[int], str]] = {
            "input.csv": lambda at: (
                f"{10**17 + at},h,{at % 2},Read,{rng.choice(sizes)},{rng.choice((1, 4096, 2**30))},5"
            ),
            "input.txt": lambda at: rng.choice((f"{at % 5}", f"0x{at % 7:x}", "-1", "")),
            "input.txt.zst": lambda at: f"{at}",
            "input.txt.gz": lambda at: f"{at % 5}",
            "input.csv.xz": lambda at: f"{at},{rng.choice(sizes)},8,{at % 2},{at % 3}",
            "input.spc": lambda at: f"{at % 3},{rng.choice(sizes)},{rng.choice(sizes)},r,0.{at:03}",
            "input.trace": lambda at: f"{at} {at % 2} {rng.choice(sizes)} {rng.choice((8, 16, 2**30))} 1",
            "table.csv": lambda at: f'"{at}",{rng.choice(sizes)},"{rng.choice(sizes)}",{at % 3}' if at else head,
        }
        name = rng.choice(list(rows))
        data = "\n".join(rows[name](at) for at in range(rng.choice((0, 1, 20)))).encode()
        if name.endswith(".zst"):
            data = b"\x28\xb5\x2f\xfd" + data
        packers: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
        if rng.random() < 0.8 and (packed := packers.get(Path(name).suffix)):
            data = packed(data)
        path = self.folder / name
        path.write_bytes(mutate.mangle_bytes(data, rng, [data]) if data and rng.random() < 0.5 else data)
        columns = rng.choice(
            ("page=1", "time=1:ms,page=2:bytes", "page=h", "size=3,page=2:sectors,file=4", "page=0", "page", "page=²")
        )
        named = ["--columns", columns] if rng.random() < 0.4 else []
        return [*self.arguments(path, rng), *named]

    def arguments(self, path: Path, rng: random.Random) -> list[str]:
        return ["curve", str(path), *_asked_of_a_curve(self.folder, rng)]

    def clear(self) -> None:
        for path in self.folder.iterdir():
            path.unlink()


def _asked_of_a_curve(folder: Path, rng: random.Random) -> list[str]:
    """Return a few options of `curve`, most of them valid."""
    drawn: list[str] = []
    if rng.random() < 0.3:
        drawn += [
            "--sizes",
            rng.choice(("50%", "1pages,2pages", "64KiB", "0", "100%,101%", rng.choice(mutate.NUMBERS))),
        ]
    if rng.random() < 0.3:
        drawn += ["--page-size", rng.choice(("16KiB", "1", "0", rng.choice(mutate.NUMBERS)))]
    if rng.random() < 0.3:
        drawn += ["--window", rng.choice(("0s,1s", "1s,0s", "0s,1e9s", rng.choice(mutate.NUMBERS)))]
    if rng.random() < 0.2:
        drawn += ["--to", "oraclegeneral", str(folder / "written")]
    # A page with a figure takes more time than everything else.
    return [*drawn, *rng.choice((["--json"],) * 10 + ([], ["--html", str(folder / "page.html")]))]


class Json(Folder):
    """run.json and plan.json, and sometimes host.json and the stored experiment, of SQLite and of servers."""

    sweeps = (
        *Folder.sweeps,
        scan_depth(truths=SCAN_DEPTH[:2], blocks=1, transactions=600, warm_up_seconds=2),
        memory_split(truths=SPLITS[:2], blocks=1, transactions=600, warm_up_seconds=2),
    )

    def change(self, rng: random.Random) -> None:
        if (template := rng.choice(self.templates)) != self.whole:
            self.begin_with(template)
        chosen = rng.random()
        if chosen < 0.45:
            document = mutate.mangle_json(self.read(self.run / "run.json"), rng)
            self.seal(document)
            return
        name = "plan.json" if chosen < 0.85 else "host.json"
        path = self.path / name
        if rng.random() < 0.8:
            path.write_text(json.dumps(mutate.mangle_json(self.read(path), rng)))
            return
        path = rng.choice((path, self.run / "run.json", self.path / "experiment.toml"))
        data = self.files[path.relative_to(self.path)]
        if rng.random() < 0.3:
            text = data.decode()
            at = rng.choice([place for place, character in enumerate(text) if character in ":="]) + 1
            path.write_text(text[:at] + mutate.nested(rng) + text[at:])
        else:
            path.write_bytes(mutate.mangle_bytes(data, rng))


class Shared(Json):
    """An equal change in all runs of a folder, or in all points of its plan, so that no run differs from the others."""

    sweeps = (
        Sweep(truths=BUFFER_SIZE[:2], blocks=2, transactions=600, warm_up_seconds=2),
        scan_depth(truths=SCAN_DEPTH[:2], blocks=2, transactions=600, warm_up_seconds=2),
        memory_split(truths=SPLITS[:2], blocks=2, transactions=600, warm_up_seconds=2),
    )

    def change(self, rng: random.Random) -> None:
        if (template := rng.choice(self.templates)) != self.whole:
            self.begin_with(template)
        if rng.random() < 0.2:
            plan = self.read(self.path / "plan.json")
            part, seed = rng.choice(("runs", "points")), rng.random()
            plan[part] = [mutate.mangle_json(one, random.Random(seed)) for one in plan[part]]
            (self.path / "plan.json").write_text(json.dumps(plan))
            return
        first, seed = self.run, rng.random()
        for run in sorted(path.parent for path in self.path.glob("runs/*/run.json")):
            self.run = run
            # Runs of one sweep have the same structure, so the same random choices change the same place in each.
            self.seal(mutate.mangle_json(self.read(self.run / "run.json"), random.Random(seed)))
        self.run = first


class Parquet(Folder):
    """samples.parquet and latency.parquet: bytes changed, or well-formed tables with hostile contents."""

    def change(self, rng: random.Random) -> None:
        name, columns = rng.choice((("samples.parquet", SAMPLE_COLUMNS), ("latency.parquet", LATENCY_COLUMNS)))
        path = self.run / name
        original = self.files[path.relative_to(self.path)]
        if rng.random() < 0.5:
            path.write_bytes(mutate.mangle_bytes(original, rng, list(self.files.values())))
        else:
            frame = pl.read_parquet(io.BytesIO(original))
            for _ in range(rng.choice((1, 1, 2, 3))):
                with contextlib.suppress(pl.exceptions.PolarsError):  # The column's type may not accept these values.
                    frame = mangle_table(frame, columns, rng)
            version = rng.choice((*[FORMAT_VERSION] * 7, 1, "", "x"))
            told = {"format_version": str(version)}
            frame.write_parquet(path, metadata=told, compression=rng.choice(("zstd", "snappy")))
        self.seal(self.read(self.run / "run.json"), [name])


class PageTrace(Folder):
    """A run with a page trace: changes of its part of run.json, or of rows of page-trace.parquet; `curve RUN`."""

    def begin_with(self, template: Path) -> None:
        if not (table := next(template.glob("runs/*")) / "page-trace.parquet").exists():
            self._trace(table)
        super().begin_with(template)
        self.run = next(path.parent for path in self.path.glob("runs/*/page-trace.parquet"))

    def _trace(self, table: Path) -> None:
        """Give the template's run a trace of 2,000 accesses in a second."""
        self.run = table.parent
        rng = random.Random(1)
        names = ("page", "kind", "latch", "thread", "delta_us")
        kinds = {"page": pl.UInt32, "kind": pl.UInt8, "latch": pl.UInt8, "thread": pl.UInt16, "delta_us": pl.UInt32}
        rows = [(min(rng.randrange(90), rng.randrange(90)), rng.choice((0, 0, 0, 2, 3, 5, 6)), 0, 0, 500)
                for _ in range(2000)]  # fmt: skip
        frame = pl.DataFrame(dict(zip(names, zip(*rows, strict=True), strict=True)), schema=kinds)
        frame.write_parquet(table, metadata={"format_version": str(FORMAT_VERSION)})
        document = json.loads((self.run / "run.json").read_text())
        document["page_trace"] = {
            "status": "ok", "page_size_bytes": 4096, "start_ns": 10**9, "window_start_ns": 10**9 + 10**8,
            "window_end_ns": 10**9 + 9 * 10**8, "objects": [{"name": "t", "first_page": 0, "pages": 90}],
            "counts": [{"kind": "read", "recorded": 9, "counter": "demand_misses", "counted": 9}],
        }  # fmt: skip
        document.setdefault("files", {})
        self.seal(document, ["page-trace.parquet"])

    def change(self, rng: random.Random) -> None:
        document = self.read(self.run / "run.json")
        path = self.run / "page-trace.parquet"
        original = self.files[path.relative_to(self.path)]
        if rng.random() < 0.4:
            document["page_trace"] = mutate.mangle_json(document["page_trace"], rng)
        elif rng.random() < 0.4:
            path.write_bytes(mutate.mangle_bytes(original, rng, [original]))
        else:
            frame = pl.read_parquet(io.BytesIO(original))
            with contextlib.suppress(pl.exceptions.PolarsError):
                frame = mangle_table(frame, frame.columns, rng)
            frame.write_parquet(path, metadata={"format_version": str(FORMAT_VERSION)})
        self.seal(document, ["page-trace.parquet"])

    def arguments(self, rng: random.Random) -> list[str]:
        if rng.random() < 0.3:
            # A successful prediction draws a page. This sweep is measured: the command reads it, and then refuses it.
            return ["predict", str(self.run), "--resume", str(self.path)]
        by = ["--by", "table"] if rng.random() < 0.3 else []
        return ["curve", str(rng.choice((self.path, self.run))), *by, *_asked_of_a_curve(self.folder, rng)]


class Predicted(Folder):
    """A predicted sweep: changes of its part of run.json, compared with the sweep from which it was predicted."""

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        Family.__init__(self, folder, corpus)
        passes = [(page, GET) for page in range(80)]
        measured = traced.build(folder / "template-in", passes, passes, reads=80).path
        self.measured = measured.rename(folder / "template-measured")
        with (
            mock.patch.dict(os.environ, BUFFERLAB_CACHE=str(folder / "template-cache")),
            mock.patch.object(sweep_runs, "new_run_id", return_value="0123456789abcdef"),
            mock.patch.object(sweep_runs, "_now", return_value="2026-01-05T10:00:09Z"),
        ):
            predicted = predict_sweep(self.measured, Overrides(), folder / "template-out")
        self.templates = [predicted.folder.path.rename(folder / "template-predicted")]
        # The log contains times of day.
        (self.templates[0] / "bufferlab.log").unlink()
        self.path = folder / "sweep"
        self.begin_with(self.templates[0])

    def change(self, rng: random.Random) -> None:
        document = self.read(self.run / "run.json")
        part = rng.choice(("prediction", "prediction", "prediction", "settings", "measured"))
        document[part] = mutate.mangle_json(document[part], rng)
        self.seal(document)

    def arguments(self, rng: random.Random) -> list[str]:
        path = str(self.path)
        commands: dict[int, list[str]] = {
            5: ["accuracy", str(self.measured), path, "--html", str(self.folder / "page.html")],
            60: ["accuracy", str(self.measured), path, "--json"],
            65: ["report", path, "--md", "--json"],
            80: ["predict", str(self.measured), "--resume", path],
            100: ["compare", path, str(self.whole), "--json"],
        }
        drawn = rng.randrange(100)
        return next(command for below, command in commands.items() if drawn < below)


class OtherPools(Folder):
    """A sweep's other-pools.json, predictions for other pools: changed values, nesting and bytes; `report`."""

    def __init__(self, folder: Path, corpus: Sequence[Path] = ()) -> None:
        Family.__init__(self, folder, corpus)
        passes = [(page, GET) for page in range(80)]
        swept = traced.build(folder / "template-in", passes, passes, reads=80)
        swept.write_other_pools(page_traces.OtherPools(of=other_pools(swept, lambda _share: None)[0]))
        self.path = folder / "sweep"
        self.begin_with(swept.path.rename(folder / "template-whole"))

    def change(self, rng: random.Random) -> None:
        path = self.path / OTHER_POOLS_FILE
        content = self.files[path.relative_to(self.path)]
        match rng.randrange(10):
            case 0:
                path.write_bytes(mutate.mangle_bytes(content, rng))
            case 1:
                path.write_text(mutate.nested(rng))
            case 2:
                path.write_bytes(content[: rng.randrange(len(content))])
            case 3 | 4 | 5:
                path.write_text(json.dumps(mutate.mangle_json(json.loads(content), rng)))
            case _:
                document = json.loads(content)
                for _ in range(rng.choice((1, 1, 2, 4))):
                    self._change_a_leaf(document["of"][0], rng)
                path.write_text(json.dumps(document))

    def _change_a_leaf(self, of: dict[str, Any], rng: random.Random) -> None:
        """Replace a number or a text, mostly by another value of the same type."""
        holders = [of, of["traced"], of["traced"]["work"], *of["pools"], *of["pools"][-1]["verdicts"]]
        holder = rng.choice(holders)
        name = rng.choice([name for name, value in holder.items() if not isinstance(value, dict | list)])
        if isinstance(holder[name], str):
            holder[name] = rng.choice(mutate.WORDS)
        else:
            holder[name] = rng.choice((0, 1, 7, 2**31, 2**53 + 1, 2**63 - 1, 10**18, True, None))

    def arguments(self, rng: random.Random) -> list[str]:
        return ["report", str(self.path), rng.choice(("--md", "--md", "--html")), "--json"]


FAMILIES: dict[str, type[Family]] = {
    "toml": Toml,
    "json": Json,
    "parquet": Parquet,
    "flags": Flags,
    "shared": Shared,
    "scripts": Script,
    "slow-log": SlowLog,
    "dumps": Dumps,
    "tpcc-mysql": TpccLog,
    "innodb-status": Status,
    "iostat": Iostat,
    "counters": Counters,
    "documents": Documents,
    "load-generators": LoadGenerators,
    "blkparse": Blkparse,
    "tables": Tables,
    "accesses": Accesses,
    "page-trace": PageTrace,
    "predicted": Predicted,
    "other-pools": OtherPools,
    "merge": Merge,
}


def evidence(folder: Path) -> dict[str, Path]:
    """Return the files of a family's folder that make the input."""
    return {name: folder / name for name in sorted(os.listdir(folder)) if not name.startswith("template")}
