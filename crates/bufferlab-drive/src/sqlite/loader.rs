//! Loads a new SQLite file: several threads generate a workload's rows, and one thread writes them in key order. Then
//! it executes the setup section of a script, if there is one.
//!
//! Generators take partitions in turn (thread k of n takes k, k+n, ...) and pass their blocks through bounded channels.
//! So for any number of threads the writer gets the partitions in load order, and memory stays bounded. The load builds
//! indexes after it has written the rows. It writes no journal, because the caller deletes the file of a failed load.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use bufferlab_model::PageSize;
use bufferlab_workload::population::{LoadedTable, Population, RowBlock};
use bufferlab_workload::script::Script;
use crossbeam_channel::{Receiver, Sender, bounded};
use rusqlite::Connection;
use serde::Deserialize;

use super::dialect::DIALECT;
use super::interrupt::Interruptible;
use super::knobs::page_size;
use super::script;
use super::statement::{SqliteError, Statement};
use crate::data::Data;
use crate::failure::{DEVICE_ERROR_HINT, FULL_DISK_HINT, Failure, FailureKind};
use crate::loaded::{LoadProgress, Loaded};
use crate::schema::table_schemas;

/// The job of a load.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The file to create. It must not exist.
    pub database: PathBuf,
    /// The page size of the new database.
    #[serde(rename = "page_size_bytes", deserialize_with = "page_size")]
    pub page_size: PageSize,
    /// The data to load.
    #[serde(rename = "workload")]
    pub data: Data,
    /// The number of threads that generate rows; one more thread writes them.
    #[serde(rename = "threads")]
    pub generators: usize,
}

/// The number of blocks by which a generator may be ahead of the writer.
const BLOCKS_AHEAD: usize = 4;
/// The size of the load's cache, and of the memory in which SQLite sorts the keys of an index. If there are more keys,
/// SQLite merges them from files in the system's directory for temporary files.
const CACHE_KIB: i64 = 256 * 1024;

/// Loads a database, and returns its rows and its size.
///
/// # Errors
/// When the file exists, the disk is full, SQLite fails, the setup section is wrong, or `cancelled` is set. If the file
/// did not exist before, it is then incomplete.
pub fn load(load: &Load, cancelled: &AtomicBool, on_progress: &mut dyn FnMut(LoadProgress)) -> Result<Loaded, Failure> {
    let started = Instant::now();
    if load.database.exists() {
        let place = load.database.display().to_string();
        return Err(Failure::new(FailureKind::Usage, "the file to load into exists", place, "name a new file"));
    }
    let connection = Connection::open(&load.database).map_err(|error| at(load, "creating the database", &error))?;
    prepare_for_load(&connection, load.page_size).map_err(|error| at(load, "creating the database", &error))?;
    let mut tables = match &load.data.tables {
        Some(population) => load_tables(load, &connection, &**population, cancelled, on_progress)?,
        None => Vec::new(),
    };
    if let Some(script) = &load.data.setup {
        set_up(load, &connection, script, cancelled)?;
        tables = count_rows(&connection).map_err(|error| at(load, "counting rows", &error))?;
    }
    finish(&connection).map_err(|error| at(load, "ending the load", &error))?;
    connection.close().map_err(|(_, error)| at(load, "closing the database", &error))?;
    let bytes = sync(&load.database).map_err(|error| Failure::from_io("syncing", &load.database, &error))?;
    let rows = tables.iter().map(|(_, rows)| rows).sum();
    Ok(Loaded { rows, seconds: started.elapsed().as_secs_f64(), bytes, tables })
}

/// Loads a workload's tables and builds their indexes; returns the name of each table and its number of rows.
fn load_tables(
    load: &Load,
    connection: &Connection,
    population: &dyn Population,
    cancelled: &AtomicBool,
    on_progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<(String, u64)>, Failure> {
    let schemas = table_schemas(&DIALECT, population)?;
    for table in &schemas {
        connection.execute_batch(&table.create).map_err(|error| at(load, "creating tables", &error))?;
    }
    let rows_of = std::thread::scope(|scope| {
        let count = load.generators.clamp(1, population.partitions());
        let blocks: Vec<Receiver<RowBlock>> = (0..count)
            .map(|first| {
                let (sender, receiver) = bounded(BLOCKS_AHEAD);
                scope.spawn(move || generate_every(population, first, count, &sender));
                receiver
            })
            .collect();
        write_blocks(connection, population, &blocks, cancelled, on_progress)
    })
    .map_err(|error| error.into_failure(&load.database))?;
    let indexes: Vec<String> = schemas.into_iter().flat_map(|table| table.indexes).collect();
    build_indexes(load, connection, &indexes.join(";\n"), cancelled)?;
    Ok(population.tables().iter().map(|table| table.name.to_owned()).zip(rows_of).collect())
}

/// Builds the indexes. Sorting a large table's keys takes as long as loading its rows, so this function, too, checks
/// `cancelled`.
fn build_indexes(load: &Load, connection: &Connection, sql: &str, cancelled: &AtomicBool) -> Result<(), Failure> {
    // SAFETY: the connection is open, and the guard ends with this function.
    let _guard = unsafe { Interruptible::begin(connection.handle(), cancelled) };
    connection.execute_batch(sql).map_err(|error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::OperationInterrupted) => WriteError::Cancelled.into_failure(&load.database),
        _ => at(load, "building indexes", &error),
    })
}

/// Executes a script's setup section, with a journal: a statement may fail halfway or roll back, as in any database.
fn set_up(load: &Load, connection: &Connection, script: &Script, cancelled: &AtomicBool) -> Result<(), Failure> {
    connection
        .pragma_update_and_check(None, "journal_mode", "memory", |_| Ok(()))
        .map_err(|error| at(load, "preparing for the setup section", &error))?;
    for setup in script.setup()? {
        let place = format!("{}:{}", script.source(), setup.sql.line);
        // SAFETY: the connection is open, and only this thread uses it.
        if !unsafe { script::set_up(connection.handle(), &setup, &place, cancelled)? } {
            return Err(WriteError::Cancelled.into_failure(&load.database));
        }
    }
    if !connection.is_autocommit() {
        let what = "the setup section ends within a transaction";
        return Err(Failure::new(FailureKind::Usage, what, script.source(), "end it with COMMIT"));
    }
    Ok(())
}

/// Returns the name and the number of rows of every table in the database, because a setup section may have made any
/// table.
fn count_rows(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut statement = connection.prepare(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
    )?;
    let names: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let count = |name: String| {
        let sql = format!("SELECT count(*) FROM \"{}\"", name.replace('"', "\"\""));
        let rows: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        Ok((name, rows as u64))
    };
    names.into_iter().map(count).collect()
}

fn at(load: &Load, action: &str, error: &rusqlite::Error) -> Failure {
    write_error(error, format!("{action}: {error}")).into_failure(&load.database)
}

fn prepare_for_load(connection: &Connection, page_size: PageSize) -> rusqlite::Result<()> {
    connection.execute_batch(&format!(
        "PRAGMA page_size={};PRAGMA journal_mode=OFF;PRAGMA synchronous=OFF;PRAGMA locking_mode=EXCLUSIVE;\
         PRAGMA cache_size=-{CACHE_KIB};PRAGMA temp_store=FILE;PRAGMA foreign_keys=OFF;",
        page_size.bytes()
    ))
}

fn finish(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("PRAGMA locking_mode=NORMAL;PRAGMA journal_mode=WAL;")
}

fn sync(path: &Path) -> std::io::Result<u64> {
    let file = std::fs::File::open(path)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

fn generate_every(population: &dyn Population, first: usize, step: usize, blocks: &Sender<RowBlock>) {
    for partition in (first..population.partitions()).step_by(step) {
        let mut block = RowBlock::new();
        population.generate(partition, &mut block);
        // Sending fails if the writer has failed; then no more rows are needed.
        if blocks.send(block).is_err() {
            return;
        }
    }
}

enum WriteError {
    Sqlite(SqliteError),
    Cancelled,
    GeneratorDied,
}

impl WriteError {
    fn into_failure(self, path: &Path) -> Failure {
        let place = path.display().to_string();
        match self {
            WriteError::Cancelled => {
                Failure::new(FailureKind::Interrupted, "the load was stopped", place, "run it again")
            }
            WriteError::GeneratorDied => {
                Failure::new(FailureKind::Internal, "a thread that generates rows died", place, "please report this")
            }
            WriteError::Sqlite(error) => {
                let (kind, hint) = match error.primary_code() {
                    rusqlite::ffi::SQLITE_FULL => (FailureKind::FullDisk, FULL_DISK_HINT),
                    rusqlite::ffi::SQLITE_CANTOPEN | rusqlite::ffi::SQLITE_READONLY => {
                        (FailureKind::Environment, "choose a directory that exists and that this user can write")
                    }
                    _ => (FailureKind::Io, DEVICE_ERROR_HINT),
                };
                Failure::new(kind, error.message, place, hint)
            }
        }
    }
}

/// Writes all blocks in load order. Returns the number of rows of each table, in the population's order of tables.
fn write_blocks(
    connection: &Connection,
    population: &dyn Population,
    blocks: &[Receiver<RowBlock>],
    cancelled: &AtomicBool,
    on_progress: &mut dyn FnMut(LoadProgress),
) -> Result<Vec<u64>, WriteError> {
    let mut inserts = insert_statements(connection, &population.tables())?;
    let mut rows_of = vec![0u64; inserts.len()];
    let (mut rows, total) = (0, population.expected_rows());
    let mut open_table = None;
    for index in 0..population.partitions() {
        if cancelled.load(Ordering::Relaxed) {
            return Err(WriteError::Cancelled);
        }
        let block = blocks[index % blocks.len()].recv().map_err(|_| WriteError::GeneratorDied)?;
        let table = block.table();
        // Each table is one transaction, which bounds the rollback of a failed load.
        if open_table != Some(table) {
            let sql = if open_table.is_none() { "BEGIN" } else { "COMMIT;BEGIN" };
            connection.execute_batch(sql).map_err(sqlite_error)?;
            open_table = Some(table);
        }
        let insert = &mut inserts[table];
        for row in 0..block.rows() {
            for column in 0..block.columns() {
                // SAFETY: the block keeps its texts beyond the run below, and each run binds all columns again.
                unsafe { insert.bind(column, block.value(row, column)) };
            }
            insert.run(|_| {}).map_err(WriteError::Sqlite)?;
        }
        rows_of[table] += block.rows() as u64;
        rows += block.rows() as u64;
        on_progress(LoadProgress { rows, total });
    }
    connection.execute_batch("COMMIT").map_err(sqlite_error)?;
    Ok(rows_of)
}

fn sqlite_error(error: rusqlite::Error) -> WriteError {
    write_error(&error, error.to_string())
}

fn write_error(error: &rusqlite::Error, message: String) -> WriteError {
    let code = error.sqlite_error().map_or(rusqlite::ffi::SQLITE_ERROR, |error| error.extended_code);
    WriteError::Sqlite(SqliteError { code, message })
}

fn insert_statements(connection: &Connection, tables: &[LoadedTable]) -> Result<Vec<Statement>, WriteError> {
    let sql_of = |table: &LoadedTable| {
        let places = vec!["?"; table.columns.len()].join(",");
        format!("INSERT INTO {} VALUES({places})", table.name)
    };
    // SAFETY: the statements are dropped in write_blocks(), before the connection is closed in load().
    let prepare = |table| unsafe { Statement::prepare(connection.handle(), &sql_of(table)) };
    tables.iter().map(prepare).collect::<Result<_, _>>().map_err(WriteError::Sqlite)
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::hot_rows::HotRowsPopulation;

    use super::*;

    fn stopped_at(stop: impl Fn(LoadProgress) -> bool) -> (Failure, u64) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let population = HotRowsPopulation::new(60_000, 1).expect("the scale is valid");
        let page_size = PageSize::new(4096).expect("4096 is a page size");
        let data = population.into();
        let job = Load { database: directory.path().join("stopped.db"), page_size, data, generators: 2 };
        let (cancelled, mut last) = (AtomicBool::new(false), 0);
        let mut on_progress = |progress: LoadProgress| {
            last = progress.rows;
            cancelled.store(stop(progress), Ordering::Relaxed);
        };
        let failure = load(&job, &cancelled, &mut on_progress).expect_err("it was stopped");
        (failure, last)
    }

    #[test]
    fn a_load_is_stopped_between_two_partitions() {
        let (failure, rows) = stopped_at(|progress| progress.rows >= 20_000);
        assert_eq!((failure.kind, rows), (FailureKind::Interrupted, 20_000));
    }

    #[test]
    fn a_load_is_stopped_while_it_builds_indexes() {
        let (failure, rows) = stopped_at(|progress| progress.rows == progress.total);
        assert_eq!((failure.kind, rows), (FailureKind::Interrupted, 60_000));
    }
}
