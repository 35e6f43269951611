//! Loads a database of a PostgreSQL server: a workload's tables by COPY, several at a time, then a script's setup
//! section.
//!
//! With any number of threads, each table is written by only one connection, in the order of the primary key. So the
//! table's pages are packed, and each load puts a row into the same place. The same transaction truncates the table,
//! and then writes its rows and builds its indexes. So the server may write rows as frozen, and later readers need not
//! set hints in them. If its wal_level is minimal, the server also leaves the rows out of its log. The caller of the
//! load executes VACUUM and ANALYZE.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bufferlab_workload::population::Population;

use super::control::{Control, MAINTENANCE_DATABASE};
use super::dialect::{DIALECT, literal};
use super::error::failure;
use super::interrupt::Interrupter;
use crate::failure::{Failure, FailureKind};
use crate::loaded::{LoadProgress, Loaded};
use crate::schema::{TableSchema, table_schemas};
use crate::server::bulk::{Bulk, Chunk, Written};
use crate::server::encode::{Encoder, Form};
use crate::server::job::Load;
use crate::server::set_up::{interruptible, set_up};
use crate::server::target::Target;

/// Settings of a load's sessions: the memory in which the server sorts an index, and one process for it. Several
/// processes would write the same index, and the load already writes several tables at a time.
const LOADING: &str = "SET maintenance_work_mem = '256MB'; SET max_parallel_maintenance_workers = 0; \
    SET synchronous_commit = off";

/// Loads a database, and returns its rows and its size.
///
/// # Errors
/// When the database has tables, the scale is too large, the disk is full, the server or the setup section fails, or
/// `cancelled` is set. If it had no tables before, the database is then incomplete.
pub fn load(load: &Load, cancelled: &AtomicBool, on_progress: &mut dyn FnMut(LoadProgress)) -> Result<Loaded, Failure> {
    let started = Instant::now();
    let mut control = open_database(&load.target)?;
    let mut tables = Vec::new();
    if let Some(population) = &load.data.tables {
        population.check_columns()?;
        tables = load_tables(load, &mut control, &**population, cancelled, on_progress)?;
    }
    if let Some(script) = &load.data.setup {
        let interrupter = Interrupter::new(&load.target);
        interrupter.set(vec![control.handle()?]);
        let mut execute = |action: &str, place: &str, sql: &str| {
            control.try_execute(sql).map_err(|error| failure(action, place, &error))
        };
        interruptible(&|| interrupter.interrupt(), cancelled, || {
            set_up(script, &DIALECT, "psql", &mut execute, cancelled)
        })?;
        tables = count_rows(&mut control)?;
    }
    let bytes = control.number("asking for the size", "SELECT pg_database_size(current_database())")?;
    let rows = tables.iter().map(|(_, rows)| rows).sum();
    Ok(Loaded { rows, seconds: started.elapsed().as_secs_f64(), bytes: bytes.max(0) as u64, tables })
}

/// Returns a name as an identifier in double quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Connects to the database, and creates it if it does not exist. Refuses a database with tables.
fn open_database(target: &Target) -> Result<Control, Failure> {
    let mut server = Control::open_to_ask(target, Some(MAINTENANCE_DATABASE))?;
    let name = literal(bufferlab_workload::client::Value::Text(&target.database));
    let known = format!("SELECT count(*) FROM pg_database WHERE datname = {name}");
    if server.number("looking for the database", &known)? == 0 {
        server.be_patient(target);
        server.execute("creating the database", &format!("CREATE DATABASE {}", quoted(&target.database)))?;
    }
    let mut control = Control::open_to_ask(target, None)?;
    let tables = format!("SELECT count(*) FROM ({TABLES}) AS t");
    if control.number("looking for tables", &tables)? > 0 {
        let what = format!("the database {} to load into has tables", target.database);
        return Err(Failure::new(FailureKind::Usage, what, target.place(), "name a new database, or drop this one"));
    }
    control.be_patient(target);
    Ok(control)
}

/// The query for ordinary and partitioned tables outside of catalogues and extensions.
const TABLES: &str = "SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE c.relkind IN ('r', 'p') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema' \
    AND NOT EXISTS (SELECT FROM pg_depend AS d WHERE d.objid = c.oid AND d.deptype = 'e') ORDER BY 1, 2";

fn load_tables(
    load: &Load,
    control: &mut Control,
    population: &dyn Population,
    cancelled: &AtomicBool,
    on_progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<(String, u64)>, Failure> {
    let place = load.target.place();
    let schemas = table_schemas(&DIALECT, population)?;
    for table in &schemas {
        control.execute("creating tables", &table.create)?;
    }
    let bulk = Bulk::new(population, &place);
    let interrupter = Interrupter::new(&load.target);
    let write = |next: &mut dyn FnMut() -> Option<usize>| {
        let mut control = Control::open(&load.target)?;
        interrupter.add(control.handle()?);
        control.execute("preparing to load", LOADING)?;
        let mut written = Written::new();
        while let Some(table) = next() {
            written.push((table, write_table(&mut control, &bulk, table, &schemas[table])?));
        }
        Ok(written)
    };
    let loaded = bulk.run(load.threads, &write, &mut || interrupter.interrupt(), cancelled, on_progress)?;
    Ok(loaded.into_iter().map(|(table, rows)| (schemas[table].name.to_owned(), rows)).collect())
}

/// Loads one table and builds its indexes; returns the number of its rows.
fn write_table(control: &mut Control, bulk: &Bulk<'_>, table: usize, schema: &TableSchema) -> Result<u64, Failure> {
    let name = schema.name;
    control.execute("beginning a table", &format!("BEGIN; TRUNCATE {name}"))?;
    let encoder = Encoder::new(Form::Lines, &schema.columns);
    let rows = bulk.write_table(table, name, encoder, "", |chunks| copy(control, bulk, name, chunks))?;
    for sql in &schema.indexes {
        control.execute("building indexes", sql)?;
    }
    control.execute("ending a table", "COMMIT")?;
    Ok(rows)
}

/// Sends chunks by COPY as they come, and counts their rows for the progress. Returns the number of rows that the
/// server stored.
fn copy(
    control: &mut Control,
    bulk: &Bulk<'_>,
    table: &str,
    chunks: &crossbeam_channel::Receiver<Chunk>,
) -> Result<u64, Failure> {
    let place = control.place().to_owned();
    let connection = control.connection();
    let mut send = || {
        connection.begin_copy(&format!("COPY {table} FROM STDIN (FREEZE, ENCODING 'UTF8')"))?;
        for chunk in chunks {
            connection.copy(&chunk.text)?;
            bulk.took(chunk.rows);
        }
        connection.end_copy()
    };
    send().map_err(|error| failure(&format!("loading {table}"), &place, &error))
}

/// Returns the name and the number of rows of every table in the database, because a setup section may have made any
/// table.
fn count_rows(control: &mut Control) -> Result<Vec<(String, u64)>, Failure> {
    let mut rows = Vec::new();
    for name in control.rows("listing tables", TABLES)? {
        let [Some(schema), Some(table)] = &name[..] else { continue };
        let sql = format!("SELECT count(*) FROM {}.{}", quoted(schema), quoted(table));
        rows.push((table.clone(), control.number("counting rows", &sql)?.max(0) as u64));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted() {
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
