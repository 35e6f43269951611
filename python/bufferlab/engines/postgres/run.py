"""Surveys an already running PostgreSQL server, and manages the one database that bufferlab owns there.

The database's comment claims it. The comment lists the relations that bufferlab created, and says which data they hold
and whether transactions have changed these since. A database with any other relation belongs to another user, at least
in part: bufferlab refuses it and touches nothing in it. The mark is a comment because every account may read comments,
and because the workload's queries would see a marker table.

The survey reads privileges, replication role and poolers, and changes nothing.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar

from bufferlab.engines.behaviour import EngineFailure, NativeKnobs
from bufferlab.engines.postgres import control
from bufferlab.engines.postgres.connection import FORM, connect
from bufferlab.engines.postgres.postgresql_conf import VARIABLES, as_asked, bytes_of, in_words, server_settings, text_of
from bufferlab.engines.servers.builds import Build
from bufferlab.engines.servers.client import FAILURES, Client, ServerError
from bufferlab.engines.servers.existing import whereabouts
from bufferlab.engines.servers.existing.address import Address
from bufferlab.engines.servers.run import (
    Difference,
    FamilyRun,
    SchemaMark,
    Survey,
    parts_of,
    require_as_loaded,
    require_none,
)

_BEGIN = "bufferlab: "
_OTHERS_DEPEND = "2BP01"
"""The code of dependent_objects_still_exist."""
_LOCK = "pg_try_advisory_lock(hashtext('bufferlab'), hashtext(%s))"
_LOCK_POLL_SECONDS = 0.1
_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind, pg_get_userbyid(c.relowner) = current_user
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'
  AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype IN ('e', 'i', 'a'))
ORDER BY 1, 2
"""
"""The query for the tables, views and sequences that belong to no catalogue, no extension and no column."""
_OBJECTS = r"""
WITH ours AS (
  SELECT oid FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%' AND nspname <> 'information_schema'
), there (class, oid, more) AS (
  SELECT 'pg_class'::regclass, c.oid,
    (SELECT ' (' || string_agg(attname, ', ' ORDER BY attnum) || ')' FROM pg_attribute
     WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND c.relkind <> 'S')
  FROM pg_class c WHERE relnamespace IN (TABLE ours) AND relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'i', 'I')
  UNION ALL SELECT 'pg_proc'::regclass, oid, NULL FROM pg_proc WHERE pronamespace IN (TABLE ours)
  UNION ALL SELECT 'pg_operator'::regclass, oid, NULL FROM pg_operator WHERE oprnamespace IN (TABLE ours)
  UNION ALL SELECT 'pg_trigger'::regclass, oid, NULL FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT 'pg_policy'::regclass, oid, NULL FROM pg_policy
  UNION ALL SELECT 'pg_rewrite'::regclass, w.oid, NULL FROM pg_rewrite w JOIN pg_class c ON c.oid = w.ev_class
    WHERE c.relnamespace IN (TABLE ours) AND rulename <> '_RETURN'
  UNION ALL SELECT 'pg_constraint'::regclass, oid, NULL FROM pg_constraint
    WHERE contype = 'f' AND connamespace IN (TABLE ours)
)
SELECT pg_describe_object(class, oid, 0) || coalesce(more, '') FROM there
WHERE NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = class AND d.objid = there.oid AND d.deptype = 'e')
ORDER BY 1
"""
"""The query for everything that a database contains besides its catalogue and its extensions, in words."""
_GREAT = """
SELECT rolsuper OR rolcreaterole OR rolreplication OR rolbypassrls OR EXISTS (
  SELECT FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid
  WHERE m.member = r.oid AND g.rolname NOT IN
    ('pg_monitor', 'pg_read_all_settings', 'pg_read_all_stats', 'pg_stat_scan_tables', 'pg_checkpoint')
) FROM pg_roles r WHERE rolname = session_user
"""
"""The query whether the user has more privileges than the runs need: code in its session might misuse them."""
_MAY_CREATE = r"""
SELECT pg_get_userbyid(who) FROM (
  SELECT datdba AS who FROM pg_database WHERE datname = current_database()
  UNION SELECT nspowner FROM pg_namespace WHERE nspname NOT LIKE 'pg\_%'
  UNION SELECT a.grantee FROM pg_namespace n, aclexplode(n.nspacl) a
    WHERE a.privilege_type = 'CREATE' AND n.nspname NOT LIKE 'pg\_%'
) AS makers
WHERE who = 0 OR NOT EXISTS (
  SELECT FROM pg_roles WHERE oid = who AND (rolsuper OR rolname IN (session_user, 'pg_database_owner'))
)
ORDER BY 1
"""
"""The query for the accounts that may create functions and triggers in the database; 0 stands for all accounts.

Superusers and the session's own user are left out.
"""
_CLIENTS = "FROM pg_stat_activity WHERE usesysid IS NOT NULL AND datid IS NOT NULL AND leader_pid IS NULL"
_BUSY = f"""
SELECT count(*) FILTER (WHERE state IS NULL OR state = 'disabled'),
  count(*) FILTER (WHERE state <> 'idle' OR state_change > clock_timestamp() - make_interval(secs => %s))
{_CLIENTS} AND pid <> pg_backend_pid()
"""
"""The query for two numbers of other clients: those whose work the account may not see, and those that worked recently.

An account with pg_read_all_stats sees all work. "Recently" means in the last seconds.
"""
_KINDS = {"v": "VIEW", "m": "MATERIALIZED VIEW", "f": "FOREIGN TABLE", "r": "TABLE", "p": "TABLE", "S": "SEQUENCE"}
"""The keyword for DROP by relation kind (relkind), in an order in which relations can be dropped."""


class PostgresRun(FamilyRun):
    """The way to run in a database of an already running PostgreSQL server."""

    read_only = ("25006",)
    """The code of read_only_sql_transaction."""
    needs = "the account must own the database {schema}"
    version_query = "SHOW server_version"
    clients_query = f"SELECT count(*) {_CLIENTS}"
    """The query counts the clients of all databases.

    Parallel workers are left out, because they belong to a client's session.
    """
    made_with: ClassVar = {"page_size": ("block_size", "{}"), "data_checksums": ("data_checksums", "{}")}

    def survey(self, address: Address) -> Survey:
        return survey_of(address)

    def variables(self, connection: Client) -> Mapping[str, str]:
        return {name: in_words(told) for name, told in control.settings(connection).items()}

    def differing(self, connection: Client, found: Build, asked: NativeKnobs) -> dict[str, Difference]:
        told, differing = control.settings(connection), {}
        wanted = server_settings(found.version, asked)
        for name, value in asked.items():
            if (variable := VARIABLES.of(name)) in wanted:
                has = as_asked(name, value, told[variable]) if variable in told else None
                if has != value:
                    text = None if has is None else text_of(name, has)
                    differing[name] = Difference(variable, text_of(name, value), text)
        return differing

    def busy(self, connection: Client, seconds: float) -> int | None:
        ((hidden, busy),) = connection.rows(_BUSY, (max(0.0, seconds - 1),))
        return None if hidden else int(busy)

    def lock(self, connection: Client, database: str, seconds: float) -> bool:
        """Take the database's advisory lock until the connection ends; return False if another connection holds it."""
        deadline = time.monotonic() + seconds
        while connection.rows(f"SELECT {_LOCK}", (database,)) != [(True,)]:
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOCK_POLL_SECONDS)
        return True

    def make_sure_of(self, address: Address) -> None:
        """Create the database if it does not exist. Raises EngineFailure if the account may not create it."""
        with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
            if connection.rows("SELECT 1 FROM pg_database WHERE datname = %s", (address.schema,)):
                return
            try:
                connection.change(f"CREATE DATABASE {control.identifier(address.schema)}")
            except FAILURES as error:
                raise EngineFailure(
                    "environment",
                    f"the database {address.schema} cannot be made: {str(error).strip()}",
                    address.place,
                    f"CREATE DATABASE {address.schema} OWNER {address.user}",
                ) from error

    def require_safe(self, address: Address) -> None:
        """Raise EngineFailure if other accounts' code could run in the database with more privileges than it needs.

        SET ROLE and SET SESSION AUTHORIZATION would not stop such code, which can RESET them. So the user must log in
        with few privileges, or be the only one who may create functions there.
        """
        # Only pg_catalog is on the search path, so that no object of the database is found by its name.
        with closing(connect(address, search_path="pg_catalog")) as connection:
            if connection.rows(_GREAT) != [(True,)]:
                return
            makers = sorted({str(name) if name else "everybody" for (name,) in connection.rows(_MAY_CREATE)})
        if makers:
            who = ", ".join("everybody" if name.startswith("unknown (OID=0") else name for name in makers)
            raise EngineFailure(
                "environment",
                f"{address.user} has great rights, and {who} may make functions and triggers in {address.schema}, "
                "which would run with them",
                address.place,
                f"name in the URL a role that owns {address.schema} and may do no more",
            )

    def objects(self, connection: Client, database: str = "") -> list[str]:
        """Return everything in the database besides its catalogue and extensions, in words; tables with columns."""
        return [str(said) for (said,) in connection.rows(_OBJECTS)]

    def require_ours(self, connection: Client, address: Address) -> dict[tuple[str, str], str]:
        """Return the database's relations with their kinds. Raise EngineFailure unless bufferlab created all of them.

        Also raise it for stored code, an index or another object that the load of these relations did not create.
        """
        mark = self.marked(connection, address.schema)
        found = connection.rows(_RELATIONS)
        ours = _names(connection, mark.made if mark else ())
        # Another account may have written the list, but only bufferlab's role creates relations that this role owns.
        theirs = [name for schema, name, _, is_ours in found if (schema, name) not in ours or not is_ours]
        require_none(theirs, address, FORM)
        require_as_loaded(self.objects(connection), mark, address, FORM)
        return {(str(schema), str(name)): str(kind) for schema, name, kind, _ in found}

    def claim(self, connection: Client, address: Address) -> None:
        """Claim the database and empty it.

        Raises EngineFailure if another user owns something in it or depends on bufferlab's tables, or if the account
        may not drop the tables.
        """
        there = self.require_ours(connection, address)
        try:
            # In one transaction, so that either all tables are dropped or none: DROP fails if an object of another
            # user, such as a function or a rule, depends on one of them.
            connection.rows("BEGIN")
            for word in dict.fromkeys(_KINDS.values()):
                if names := [control.identifier(*name) for name, kind in there.items() if _KINDS[kind] == word]:
                    connection.change(f"DROP {word} {', '.join(names)}")
            connection.change("COMMIT")
        except FAILURES as error:
            if isinstance(error, ServerError):
                connection.rows("ROLLBACK")
                if error.code == _OTHERS_DEPEND:
                    what = f"something that bufferlab did not make needs its tables: {error}"
                    hint = "drop it, or name a new database in the URL"
                    raise EngineFailure("usage", what, address.place, hint) from error
            raise EngineFailure(
                "environment",
                f"the database {address.schema} cannot be made bufferlab's: {str(error).strip()}",
                address.place,
                f"ALTER DATABASE {address.schema} OWNER TO {address.user}",
            ) from error

    def mark(self, connection: Client, database: str, mark: SchemaMark) -> None:
        """Write into the comment which data the database holds, their changes, and the objects created for them."""
        told = {"data_id": mark.data_id, "state": mark.state, "made": mark.made, "objects": mark.objects}
        connection.change(f"COMMENT ON DATABASE {control.identifier(database)} IS %s", (_BEGIN + json.dumps(told),))

    def marked(self, connection: Client, database: str) -> SchemaMark | None:
        """Return the mark from the database's comment; None if the comment is not a well-formed mark."""
        query = "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s"
        comment = str(next(iter(connection.rows(query, (database,))), ("",))[0])
        try:
            told = json.loads(comment.removeprefix(_BEGIN)) if comment.startswith(_BEGIN) else {}
            made, whole = (tuple(map(str, told[name])) for name in ("made", "objects"))
            return SchemaMark(str(told["data_id"]), str(told["state"]), made, whole)
        except (KeyError, TypeError, ValueError, RecursionError):
            return None


def _names(connection: Client, made: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Return (schema, name) of each relation in `made`.

    A relation named without a schema was created in the first schema on the session's search path.
    """
    ((first,),) = connection.rows("SELECT current_schema()")
    whole = [parts_of(name, folds=True) for name in made]
    return {parts if len(parts) > 1 else (str(first), *parts) for parts in whole}


_DATABASE = """
SELECT pg_get_userbyid(datdba), pg_has_role(datdba, 'USAGE'),
  CASE WHEN has_database_privilege(oid, 'CONNECT') THEN pg_database_size(oid) ELSE 0 END
FROM pg_database WHERE datname = %s
"""
_ME = "SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user"
_TLS = "SELECT version, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl"
_REPLICAS = "SELECT count(*) FROM pg_stat_replication"
_AURORA = "SELECT count(*) FROM pg_proc WHERE proname = 'aurora_version'"


def survey_of(address: Address) -> Survey:
    """Return the facts of a server that the URL's account sees."""
    with closing(connect(address, control.SYSTEM_DATABASE)) as connection:
        told = control.settings(connection)
        ((version, pid),) = connection.rows("SELECT version(), pg_backend_pid()")
        ((is_super, may_create),) = connection.rows(_ME)
        database, tls = connection.rows(_DATABASE, (address.schema,)), connection.rows(_TLS)
        return Survey(
            version=str(version).split(" on ")[0],
            tls=", ".join(str(part) for part in tls[0]) if tls else None,
            variables={name: in_words(value) for name, value in told.items()},
            page_bytes=bytes_of(told["block_size"]),
            pool_bytes=bytes_of(told["shared_buffers"]),
            schema_bytes=int(database[0][2]) if database else None,
            missing=_missing(address, database, is_super=bool(is_super), may_create=bool(may_create)),
            read_only=_read_only(connection, told),
            roles=_roles(connection),
            proxy=_proxy(connection, int(pid)),
            managed=managed(told.keys(), is_aurora=connection.rows(_AURORA) != [(0,)]),
            nulls=_nulls(connection, is_super=bool(is_super)),
            data_folder=told["data_directory"][0] if "data_directory" in told else None,
            is_here=_is_here(address, int(pid)),
        )


def managed(settings: Collection[str], *, is_aurora: bool = False) -> str:
    """Return the managed service that runs a server with these settings; "" if no known sign shows one.

    >>> managed(["rds.extensions"]), managed(["cloudsql.iam_authentication"]), managed(["shared_buffers"])
    ('Amazon RDS', 'Google Cloud SQL', '')
    """
    if is_aurora:
        return "Amazon Aurora"
    signs = {
        "rds.": "Amazon RDS",
        "cloudsql.": "Google Cloud SQL",
        "alloydb.": "Google AlloyDB",
        "azure.": "Azure Database",
    }
    return next((name for sign, name in signs.items() if any(one.startswith(sign) for one in settings)), "")


def _missing(
    address: Address, database: list[tuple[object, ...]], *, is_super: bool, may_create: bool
) -> dict[str, str]:
    """Return the privileges that the account lacks to own the database, each with the statement that grants it."""
    if is_super:
        return {}
    name, user = quoted(address.schema), quoted(address.user)
    if not database:
        make = f"CREATE DATABASE {name} OWNER {user}"
        return {} if may_create else {f"a database {address.schema}, or CREATEDB": make}
    owner, is_ours, _ = database[0]
    if is_ours:
        return {}
    return {f"to own {address.schema}, which {owner} owns": f"ALTER DATABASE {name} OWNER TO {user}"}


def quoted(name: str) -> str:
    """Return a name as an SQL identifier, in quotes only if it needs them.

    >>> quoted("lab"), quoted("Me-2")
    ('lab', '"Me-2"')
    """
    return name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else control.identifier(name)


def _read_only(connection: Client, told: dict[str, tuple[str, str | None]]) -> str:
    if connection.rows("SELECT pg_is_in_recovery()") == [(True,)]:
        return "it is a standby (pg_is_in_recovery)"
    if told.get("default_transaction_read_only", ("off", None))[0] == "on":
        return "default_transaction_read_only = on"
    return ""


def _roles(connection: Client) -> tuple[str, ...]:
    ((standbys,),) = connection.rows(_REPLICAS)
    return (f"{standbys} standbys or receivers follow it: a load goes to them too",) if standbys else ()


def _proxy(connection: Client, pid: int) -> str:
    """Return the pooler that answers in place of the server; "" if none does.

    A pooler is recognised by its cancel key, which is not the PID of the server's process.
    """
    return "" if connection.id == pid else "a pooler, such as pgbouncer,"


def _nulls(connection: Client, *, is_super: bool) -> tuple[str, ...]:
    """Return in words which metrics are missing because of the server's version or extensions, or the account's
    privileges."""
    said = []
    there = {str(name) for (name,) in connection.rows("SELECT name FROM pg_available_extensions")}
    for name, words in ((control.CHECKS, "checks of the trees"), (control.COUNTERS, "what fills the pool")):
        if name not in there:
            said.append(f"{words}: the server has no extension {name} (package postgresql-contrib)")
        elif not is_super:
            said.append(f"{words}, unless the database has the extension {name}: only a superuser may make it")
    ((version,),) = connection.rows("SELECT current_setting('server_version_num')::int")
    if version < 160_000:
        said.append("reads by their kind (pg_stat_io): PostgreSQL 16 was the first to have it")
    return tuple(said)


def _is_here(address: Address, pid: int) -> bool | None:
    """Return whether the server is on this host; None if that is unknown.

    It is if the address is a socket, or if the connection's process has the account's name in its title on this host.
    """
    if not whereabouts.may_be_here(address):
        return False
    with suppress(OSError):
        title = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
        if f" {address.user} {control.SYSTEM_DATABASE} " in title:
            return True
    return True if address.socket else None
