"""The knobs and the declaration of PostgreSQL 15 to 19. Pure data.

The knobs follow the manual's chapter "Server Configuration" and guc_tables.c (guc.c before 16). A knob's name is the
server's variable. bufferlab sets few of them itself, for the reasons below. Every other knob is "auto", which leaves it
to the server, so that a point has the version's own defaults and the requested settings.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial

from bufferlab.engines.declaration import RATES_OF_SERVERS, EngineDeclaration
from bufferlab.engines.memory_limit_knob import memory_limit
from bufferlab.engines.read_ahead_knob import READ_AHEAD
from bufferlab.engines.servers.server_names import ON_PATH, url_pattern
from bufferlab.knob import PREFIX, Knob
from bufferlab.units import GIB, KIB, MIB, TIB

FLAVOUR = "postgres"
PAGE_BYTES = 8 * KIB
"""BLCKSZ: fixed when a server is compiled, and 8 KiB in every package."""
OFF = "off"

_ON_OFF = ("on", "off")
_OWN = ""
"""The resolved value of "auto" for a knob that bufferlab does not set, so that the server's default applies."""


_size, _duration, _count, _number, _choice = (
    partial(form, spelling="{}", default="auto", auto=_OWN, versions="postgres")
    for form in (Knob.size, Knob.duration, Knob.count, Knob.number, Knob.choice)
)


KNOBS: tuple[Knob, ...] = (
    Knob.text("server",
              f"the build: {ON_PATH} (the first on $PATH, or Debian's newest), a fetched one's name, the path of its "
              "binary or folder; or the URL of a server that runs already, of which one database is used "
              "(docs/existing-server.md)",
              pattern=rf"{ON_PATH}|{FLAVOUR}-[0-9][A-Za-z0-9.+_-]*|/[^\x00-\x1f]*|"
              + url_pattern("postgres", "postgresql"),
              example=f"{ON_PATH} | a name such as {FLAVOUR}-17, see `bufferlab engines` | a path | "
              "postgres://user@host:5432/database, a server that runs already (without a password)",
              default=ON_PATH, spelling="", decides_file=True),
    Knob.size("page_size", "bytes of a page: 8 KiB, chosen when a server is compiled", default="8k", spelling="",
              minimum=PAGE_BYTES, maximum=PAGE_BYTES, decides_file=True),
    # The minimum allows for up to a thousand connections: each may pin a page, which would distort a run with fewer
    # frames.
    Knob.size_or_share("pool_size", "shared_buffers: reads that miss it may still be served by the page cache",
                       default="20%", spelling="shared_buffers", minimum=MIB, maximum=16 * TIB),
    memory_limit(),
    # With the kernel's read-ahead a scan finds pages in the page cache that the server did not request.
    READ_AHEAD,
    # The default is off, as initdb's was before 18, so that all versions write and check the same.
    _choice("data_checksums", _ON_OFF, "every page has a checksum, made at each write and checked at each read",
            auto=None, default="off", spelling="", decides_file=True),
    _count("effective_io_concurrency", "pages a bitmap scan asks for ahead; from 18 on also other scans", maximum=1000),
    _count("maintenance_io_concurrency", "the same for VACUUM and ANALYZE", maximum=1000),
    _duration("bgwriter_delay", "between two rounds of the background writer", minimum=Decimal("0.01"), maximum=10),
    _count("bgwriter_lru_maxpages", "pages the background writer writes in a round at most; 0: it writes none",
           maximum=1_073_741_823),
    _number("bgwriter_lru_multiplier", "pages it cleans ahead, over those that rounds before needed", maximum=10),
    _size("bgwriter_flush_after", "its writes after which the kernel is told to write them out; 0: never",
          maximum=2 * MIB),
    _size("backend_flush_after", "the same for writes of connections' own processes", maximum=2 * MIB),
    _duration("checkpoint_timeout", "between two checkpoints at most", minimum=30, maximum=86400),
    _number("checkpoint_completion_target", "the share of that time over which a checkpoint spreads its writes",
            maximum=1),
    _size("checkpoint_flush_after", "a checkpoint's writes after which the kernel is told to write them out; 0: never",
          maximum=2 * MIB),
    _size("max_wal_size", "write-ahead log between two checkpoints, about", minimum=32 * MIB, maximum=2 * TIB),
    _size("min_wal_size", "write-ahead log whose files are used again instead of removed", minimum=32 * MIB,
          maximum=2 * TIB),
    _size("wal_buffers", "write-ahead log kept in memory", minimum=32 * KIB, maximum=2 * GIB),
    _choice("full_page_writes", _ON_OFF, "the first change of a page after a checkpoint logs the whole page"),
    _choice("fsync", _ON_OFF, "writes are forced to the device; off, a crash of the host ruins the data"),
    # The default is off, as for the other servers: a sweep about reads should not wait for the log's fsync at every
    # commit.
    _choice("synchronous_commit", ("on", "off", "local"),
            "a commit waits until its log is on the device; off: for up to three wal_writer_delay it may be lost",
            auto=None, default="off"),
    _choice("wal_compression", ("off", "on", "pglz", "lz4", "zstd"), "whole pages in the log are compressed"),
    _choice("debug_io_direct", ("off", "data", "wal", "wal_init", "data,wal", "data,wal,wal_init"),
            "which files are read and written past the page cache; a developer's option: without asynchronous I/O "
            "every read is waited for", auto=_OWN, versions="postgres >= 16"),
    _size("io_combine_limit", "the largest read or write made of several pages", minimum=PAGE_BYTES, maximum=MIB,
          versions="postgres >= 17"),
    _size("io_max_combine_limit", "the largest io_combine_limit that has an effect", minimum=PAGE_BYTES, maximum=MIB,
          versions="postgres >= 18"),
    _choice("io_method", ("worker", "io_uring", "sync"),
            "who reads ahead: processes of their own, the kernel (if compiled in), or nobody",
            versions="postgres >= 18"),
    _count("io_workers", "processes that read for others with io_method = worker", minimum=1, maximum=32,
           versions="postgres >= 18, < 19"),
    _count("io_min_workers", "the fewest such processes that the server keeps", minimum=1, maximum=32,
           versions="postgres >= 19"),
    _count("io_max_workers", "the most such processes that the server starts", minimum=1, maximum=32,
           versions="postgres >= 19"),
    # If it is on, a scan begins where another scan currently reads: two runs with the same seed would read different
    # pages.
    _choice("synchronize_seqscans", _ON_OFF, "scans of one large table go along with each other", auto=None,
            default="off"),
    # If it is on, vacuums start at times that the run does not control, in some windows and not in others.
    _choice("autovacuum", _ON_OFF, "old row versions are removed in the background", auto=None, default="off"),
    # If it is on, a query with a high estimated cost is compiled, which takes a tenth of a second or more.
    _choice("jit", _ON_OFF, "expensive queries are compiled", auto=None, default="off"),
    # Huge pages come from the host's reserve, and no cgroup memory controller counts them.
    _choice("huge_pages", ("off", "try", "on"), "shared buffers in huge pages", auto=None, default="off"),
    _size("work_mem", "for each sort or hash before it goes to disk", minimum=64 * KIB, maximum=2 * TIB),
    _number("random_page_cost", "what the planner thinks a page out of order costs, over one in order",
            maximum=1_000_000),
    Knob.choice("statements", ("spec", "batched"),
                "spec: each statement of TPC-C is waited for; batched: runs of statements are sent together "
                "(pipelined)", default="spec", spelling=""),
)  # fmt: skip

DECLARATION = EngineDeclaration(
    name="postgres",
    meaning="PostgreSQL: a private server for each run, on a copy of a loaded cluster",
    knobs=KNOBS,
    rates=RATES_OF_SERVERS,
    max_connections=500,
    connections_reason="PostgreSQL keeps a process for each connection; more than five hundred measure the scheduler",
    results_in="bufferlab.engines.postgres.results",
    chapters="bufferlab.engines.postgres.chapters",
    min_frames=128,
    # The factor covers each row's header of 24 bytes, its item pointer, and the copy of its key in an index.
    size_factor=1.5,
    # These are the bytes of the three system databases, and of the log with which a run begins.
    base_bytes=64 * MIB,
    start_seconds=1.5,
    data_kind="directory",
    is_server=True,
    needs_unprivileged_user=True,
    default_connections=8,
    # A new row version goes to any page with room (heapam.c, heap_update).
    updates_move_rows=True,
    rounds=("pool_size", "memory_limit", "max_wal_size", "min_wal_size", "wal_buffers"),
    passes_through=PREFIX,
    changes_host=True,
    notes=(
        "reads are the server's: some of them are served by the page cache (memory_limit bounds it)",
        "autovacuum off: old row versions stay for the length of a run, which begins from a vacuumed database",
    ),
)
