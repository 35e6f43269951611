"""Finds work of a server besides its application's: backups, table changes (DDL), vacuum, old transactions.

Each finding is a sentence on what the server does, and its effect on the pool or on reads. Queries that the server
refused are listed too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

from bufferlab.engines.innodb import questions as innodb
from bufferlab.engines.postgres import questions as postgres
from bufferlab.engines.servers.builds import Flavour
from bufferlab.engines.servers.look import NotTold, Query, Question, Row, ask, integer, seconds, text
from bufferlab.texts import printable
from bufferlab.units import format_bytes

Kind = Literal[
    "backup", "definition", "maintenance", "long_transaction", "history_list", "pool_load", "replication", "slot"
]
LONG_S = 60.0
"""An open transaction of at least this many seconds is a finding."""
LONG_HISTORY = 10_000
"""An InnoDB history list of at least this length is a finding. On the tests' idle servers it is shorter than ten."""
_HELD_TRANSACTIONS = 100_000
_KEPT_BYTES = 1 << 30
_EFFECT = {
    "backup": "it reads whole tables through the pool or beside it",
    "definition": "it reads and writes whole tables",
    "maintenance": "it reads pages that no application asked for",
}


@dataclass(frozen=True)
class Confound:
    """One activity of a server besides its application's work."""

    kind: Kind
    sentence: str
    seconds: float | None = None
    """The seconds that the activity or the transaction has lasted; None if the server does not report it."""


@dataclass(frozen=True)
class Confounds:
    """The work of a server besides its application's, as far as the account may see it."""

    found: tuple[Confound, ...]
    not_told: tuple[NotTold, ...]


def find(query: Query, flavour: Flavour, *, own_ids: Collection[int] = (), long_s: float = LONG_S) -> Confounds:
    """Query a server for its other work, and return the findings.

    `own_ids` are the ids of bufferlab's other connections or processes, which are not findings. Transactions of at
    least `long_s` seconds count.
    """
    asker = _Asker(query)
    found = _postgres(asker, own_ids, long_s) if flavour == "postgres" else _innodb(asker, flavour, own_ids, long_s)
    return Confounds(tuple(found), tuple(asker.not_told))


class _Asker:
    """An object that runs queries and stores the server's refusals; a missing privilege is stored only once."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.not_told: list[NotTold] = []

    def rows(self, question: Question) -> list[dict[str, object]]:
        told = ask(self.query, question)
        if isinstance(told, NotTold):
            if told.refusal != "rights" or told.remedy not in [one.remedy for one in self.not_told]:
                self.not_told.append(told)
            return []
        return told


def _innodb(asker: _Asker, flavour: Flavour, own_ids: Collection[int], long_s: float) -> list[Confound]:
    found = []
    # Without the privilege PROCESS the server refuses this query. The list of sessions would silently contain only
    # bufferlab's own.
    old = asker.rows(innodb.transactions(long_s, own_ids))
    sessions = [row for row in asker.rows(innodb.sessions(flavour)) if row["id"] not in own_ids]
    found += [_innodb_session(row) for row in sessions if row["kind"]]
    locks = [row for row in asker.rows(innodb.BACKUP_LOCKS) if row["id"] not in own_ids]
    found += [
        Confound("backup", f"{_who(row['id'], row['account'])} holds the lock of a backup ({_name(row['type'])}): "
                           "a backup copies the server's files beside the pool")
        for row in locks
    ]  # fmt: skip
    found += [_old_transaction(row, "purge keeps every row version since") for row in old]
    for row in asker.rows(innodb.HISTORY):
        if (length := integer(row["length"])) >= LONG_HISTORY:
            found.append(Confound("history_list", f"purge is {length:,} undo logs behind (history list): their pages "
                                                  "take room in the pool, and purge reads them"))  # fmt: skip
    for row in asker.rows(innodb.POOL_LOAD):
        if (status := _name(row["value"])).startswith(innodb.LOADING):
            found.append(Confound("pool_load", f"InnoDB still loads the pool from its dump: {status}"))
    return found + _innodb_replication(sessions)


def _innodb_session(row: Row) -> Confound:
    who, lasting = _who(row["id"], row["account"]), seconds(row["seconds"])
    if row["kind"] == "dump":
        sentence = f"{who} dumps a table as mysqldump does: it reads whole tables through the pool"
        return Confound("backup", sentence, lasting)
    kind: Kind = row["kind"]  # type: ignore[assignment]
    words = _name(row["words"])
    # A name may follow the server's words without a blank, so only words of a known form are shown.
    what = words if re.fullmatch(r"[A-Z]+( [A-Z]+)?", words) else "a statement"
    at = ""
    if integer(row["stages"]):
        at = f" (stage {integer(row['stage'])} of {integer(row['stages'])}, {seconds(row['done_percent']):.0f} % of it)"
    return Confound(kind, f"{who} has run {what} for {lasting:,.0f} s{at}: {_EFFECT[kind]}", lasting)


def _innodb_replication(sessions: Iterable[Row]) -> list[Confound]:
    readers = sum(str(row["command"]).startswith("Binlog Dump") for row in sessions)
    # MariaDB's threads for purge and shutdown belong to "system user" too, with the command Daemon.
    appliers = [row for row in sessions if row["account"] == "system user" and row["command"] != "Daemon"]
    found = []
    if readers:
        found.append(Confound("replication", f"{readers} replicas or readers take the binary log of this server"))
    if appliers:
        found.append(Confound("replication", "this server is a replica: what it applies is in all its counters"))
    return found


def _postgres(asker: _Asker, own_ids: Collection[int], long_s: float) -> list[Confound]:
    found = []
    rights = asker.rows(postgres.MAY_SEE)
    if rights and not rights[0]["may_see"]:
        asker.not_told.append(
            NotTold("what other sessions do: the server hides sessions of other roles", postgres.REMEDY, "rights")
        )
    progress = asker.rows(postgres.PROGRESS)
    found += [_progress(row) for row in progress]
    told = {row["pid"] for row in progress}
    for row in asker.rows(postgres.sessions(long_s, own_ids)):
        if row["pid"] is not None and row["pid"] in told:
            continue
        if row["is_backup"]:
            sentence = f"{_who(row['pid'], row['account'])} is {_name(row['program'])}: {_EFFECT['backup']}"
            found.append(Confound("backup", sentence, _lasting(row)))
        elif row["words"]:
            sentence = f"{_who(row['pid'], row['account'])} runs {_name(row['words'])}: {_EFFECT['definition']}"
            found.append(Confound("definition", sentence, _lasting(row)))
        if (_lasting(row) or 0) >= long_s:
            found.append(_old_transaction({**row, "id": row["pid"]}, "vacuum keeps every row version since"))
    found += [confound for row in asker.rows(postgres.SLOTS) if (confound := _slot(row))]
    if rights and integer(rights[0]["replicas"]):
        found.append(Confound("replication", f"{integer(rights[0]['replicas'])} replicas read the log of this server"))
    if rights and rights[0]["is_replica"]:
        found.append(Confound("replication", "this server is a replica: what it applies is in all its counters"))
    return found


def _progress(row: Row) -> Confound:
    kind: Kind = row["kind"]  # type: ignore[assignment]
    who = "autovacuum" if row["is_automatic"] else _who(row["pid"], row["account"])
    where = _name(row["relation"]) if row["relation"] else f"a table of the database {_name(row['datname'])}"
    on = "" if kind == "backup" else f" on {where}"
    done = f", {integer(row['done']):,} of {integer(row['whole']):,} blocks" if integer(row["whole"]) else ""
    return Confound(kind, f"{who} runs {_name(row['words'])}{on} ({_name(row['phase'])}{done}): {_EFFECT[kind]}")


def _old_transaction(row: Row, effect: str) -> Confound:
    lasting = seconds(row["seconds"])
    state = text(row.get("command")) or text(row.get("state")) or ""
    idle = " and is idle in it" if state in ("Sleep", "idle in transaction", "idle in transaction (aborted)") else ""
    who = "a prepared transaction" if state == "prepared" or not row["id"] else _who(row["id"], row["account"])
    had = "has waited" if who.startswith("a prepared") else "has had a transaction open"
    return Confound("long_transaction", f"{who} {had} for {lasting:,.0f} s{idle}: {effect}", lasting)


def _slot(row: Row) -> Confound | None:
    held, kept = integer(row["held_transactions"]), integer(row["kept_bytes"])
    if held < _HELD_TRANSACTIONS and kept < _KEPT_BYTES:
        return None
    state = "used" if row["active"] else "not used by anybody"
    keeps = f"{format_bytes(kept)} of log, and row versions since {held:,} transactions ago"
    return Confound("slot", f"the replication slot {_name(row['name'])} is {state}: it keeps {keeps}")


def _lasting(row: Row) -> float | None:
    return seconds(row["seconds"]) if row["seconds"] is not None else None


def _who(session: object, account: object) -> str:
    return f"session {integer(session)} of {_name(account)}"


def _name(value: object) -> str:
    """Return a name or a word from a server in a form that is safe to show."""
    return printable(text(value) or "an unknown account").replace("\n", " ")
