//! Loads a new database of a MySQL or MariaDB server: a workload's tables, several at a time, then a script's setup
//! section.
//!
//! With any number of threads, each table is written by only one connection, in the order of the primary key. So the
//! table's pages are packed, its extents hold no other table's pages, and each load puts a row into the same place. If
//! the server accepts LOAD DATA LOCAL INFILE, the load streams rows through it; else it sends INSERTs of many rows. The
//! load builds a table's secondary indexes after its rows, and computes its statistics last.

mod table;

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bufferlab_workload::population::Population;

use self::table::TableWriter;
use super::connection::{Conn, connect_to_ask, connect_to_server, unbound};
use super::control::Killer;
use super::dialect::DIALECT;
use super::error::{MysqlError, failure};
use super::line::Line;
use crate::failure::{Failure, FailureKind};
use crate::loaded::{LoadProgress, Loaded};
use crate::lock;
use crate::schema::{TableSchema, table_schemas};
use crate::server::bulk::{Bulk, Written};
use crate::server::encode::Form;
use crate::server::job::Load;
use crate::server::set_up::{interruptible, set_up};
use crate::server::target::Target;

/// The table that marks a schema of the user's server as bufferlab's. The load does not count it among the loaded
/// tables.
const MARKER: &str = "bufferlab_marker";

/// The tables of the connection's database.
const OURS: &str = "FROM information_schema.tables WHERE table_schema = DATABASE()";

/// The end of the definition of every table that bufferlab makes. By this comment a later load recognises the table.
const SIGNED: &str = " COMMENT = 'bufferlab'";

/// The storage engine that the workloads' statements name.
const IN_INNODB: &str = "ENGINE = InnoDB";

/// The state that the threads of a load share.
struct Shared<'a> {
    load: &'a Load,
    bulk: Bulk<'a>,
    tables: &'a [TableSchema],
    form: Form,
    /// The connections: the number of each at the server, and its socket.
    connections: Mutex<Vec<(u32, Line)>>,
}

/// Loads a database, and returns its rows and its size.
///
/// # Errors
/// When the database has tables, the scale is too large, the disk is full, the server or the setup section fails, or
/// `cancelled` is set. If it had no tables before, the database is then incomplete.
pub fn load(load: &Load, cancelled: &AtomicBool, on_progress: &mut dyn FnMut(LoadProgress)) -> Result<Loaded, Failure> {
    let started = Instant::now();
    let mut control = create_database(&load.target)?;
    let mut tables = Vec::new();
    if let Some(population) = &load.data.tables {
        population.check_columns()?;
        tables = load_tables(load, &mut control, &**population, cancelled, on_progress)?;
    }
    if let Some(script) = &load.data.setup {
        let killer = Killer::new(&load.target);
        killer.set(vec![control.connection_id()]);
        let mut execute = |action: &str, place: &str, sql: &str| {
            control.query_drop(sql).map(drop).map_err(|error| failure(action, place, &error))
        };
        interruptible(&|| killer.kill(), cancelled, || {
            set_up(script, &DIALECT, "the mysql shell", &mut execute, cancelled)
        })?;
        tables = count_rows(load, &mut control)?;
    }
    let bytes = stored_bytes(load, &mut control)?;
    let rows = tables.iter().map(|(_, rows)| rows).sum();
    Ok(Loaded { rows, seconds: started.elapsed().as_secs_f64(), bytes, tables })
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn create_database(target: &Target) -> Result<Conn, Failure> {
    let place = target.place();
    let mut control = connect_to_server(target)?;
    let create = format!("CREATE DATABASE IF NOT EXISTS {}", quoted(&target.database));
    control.query_drop(create).map_err(|error| failure("creating the database", &place, &error))?;
    control = connect_to_ask(target)?;
    let tables = control
        .number(format!("SELECT COUNT(*) {OURS} AND table_name <> '{MARKER}'"))
        .map_err(|error| failure("looking for tables", &place, &error))?;
    if tables.unwrap_or(0) > 0 {
        let what = format!("the database {} to load into has tables", target.database);
        return Err(Failure::new(FailureKind::Usage, what, place, "name a new database, or drop this one"));
    }
    unbound(control, target)
}

/// Returns the statement that makes a table in this storage engine. If none is given, the table stays in InnoDB, which
/// the statement names.
fn made_in(create: &str, engine: Option<&str>) -> String {
    engine.map_or_else(|| create.to_owned(), |engine| create.replace(IN_INNODB, &format!("ENGINE = {engine}")))
}

fn load_tables(
    load: &Load,
    control: &mut Conn,
    population: &dyn Population,
    cancelled: &AtomicBool,
    on_progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<(String, u64)>, Failure> {
    let place = load.target.place();
    let schemas = table_schemas(&DIALECT, population)?;
    for table in &schemas {
        let create = format!("{}{SIGNED}", made_in(&table.create, load.storage_engine.as_deref()));
        control.query_drop(create).map_err(|error| failure("creating tables", &place, &error))?;
    }
    let form = match load.form {
        Some(form) => form,
        None => form_for(control).map_err(|error| failure("asking for local_infile", &place, &error))?,
    };
    let bulk = Bulk::new(population, &place);
    let shared = Shared { load, bulk, tables: &schemas, form, connections: Mutex::new(Vec::new()) };
    let mut kill = || {
        for (id, line) in lock(&shared.connections).drain(..) {
            // The connection may have ended meanwhile.
            let _ = control.query_drop(format!("KILL {id}"));
            // Also cut the socket: after KILL, MariaDB 11.8 was seen to keep a connection open for 30 s without an
            // answer, and a writer would wait as long.
            line.cut();
        }
    };
    let write = |next: &mut dyn FnMut() -> Option<usize>| write_tables(&shared, next);
    let loaded = shared.bulk.run(load.threads, &write, &mut kill, cancelled, on_progress)?;
    Ok(loaded.into_iter().map(|(table, rows)| (schemas[table].name.to_owned(), rows)).collect())
}

/// Returns the form of LOAD DATA LOCAL if the server allows that statement, else the form of INSERTs. MySQL 8.0 forbids
/// LOAD DATA LOCAL by default.
fn form_for(control: &mut Conn) -> Result<Form, MysqlError> {
    let allowed = control.number("SELECT @@GLOBAL.local_infile")?;
    Ok(if allowed == Some(1) { Form::Lines } else { Form::Tuples })
}

/// Writes table after table, until `next` returns none. It is the body of a writer's thread.
fn write_tables(shared: &Shared<'_>, next: &mut dyn FnMut() -> Option<usize>) -> Result<Written, Failure> {
    let mut writer = TableWriter::connect(shared)?;
    let mut written = Vec::new();
    while let Some(table) = next() {
        written.push((table, writer.write(table)?));
    }
    Ok(written)
}

/// Returns the name and the number of rows of every table in the database, because a setup section may have made any
/// table.
fn count_rows(load: &Load, control: &mut Conn) -> Result<Vec<(String, u64)>, Failure> {
    let at = |error: MysqlError| failure("counting rows", &load.target.place(), &error);
    let sql = format!(
        "SELECT table_name {OURS} AND table_type = 'BASE TABLE' AND table_name <> '{MARKER}' ORDER BY table_name"
    );
    let names: Vec<String> = control.rows(sql).map_err(at)?.into_iter().flatten().flatten().collect();
    let mut rows = Vec::with_capacity(names.len());
    for name in names {
        let count = control.number(format!("SELECT COUNT(*) FROM {}", quoted(&name))).map_err(at)?;
        rows.push((name, count.unwrap_or(0)));
    }
    Ok(rows)
}

/// Returns the bytes of tables and indexes by the server's statistics.
fn stored_bytes(load: &Load, control: &mut Conn) -> Result<u64, Failure> {
    // By default MySQL 8.0 shows statistics that are up to a day old; other versions do not know this variable.
    let _ = control.query_drop("SET SESSION information_schema_stats_expiry = 0");
    let bytes = control
        .number(format!("SELECT CAST(SUM(data_length + index_length) AS UNSIGNED) {OURS}"))
        .map_err(|error| failure("asking for the size", &load.target.place(), &error))?;
    Ok(bytes.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("a`b"), "`a``b`");
    }

    #[test]
    fn a_table_is_made_in_the_storage_engine_of_the_job() {
        let create = "CREATE TABLE t (id INT) ENGINE = InnoDB DEFAULT CHARACTER SET latin1";
        assert_eq!(made_in(create, None), create);
        assert_eq!(made_in(create, Some("Aria")), "CREATE TABLE t (id INT) ENGINE = Aria DEFAULT CHARACTER SET latin1");
    }
}
