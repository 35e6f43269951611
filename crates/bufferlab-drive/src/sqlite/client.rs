//! The client trait over one SQLite connection: every call executes a prepared statement.

use bufferlab_workload::client::{Batch, Client, ClientError};
use rusqlite::ffi;

use super::engine::Engine;
use super::script::MARKS;
use super::statement::{SqliteError, Statement};
use crate::dialect::{RowUse, Statements};
use crate::failure::{Failure, FailureKind};

/// A client with all statements of one workload prepared.
///
/// The client borrows nothing. The caller of [`SqliteClient::new`] promises that the engine outlives the client.
pub struct SqliteClient {
    // Dropping the client finalises the statements, before the engine closes its connection.
    statements: Vec<Statement>,
    begin: Statement,
    begin_immediate: Statement,
    commit: Statement,
    rollback: Statement,
    names: Vec<String>,
    rows: RowUse,
    rows_returned: u64,
    handle: *mut ffi::sqlite3,
}

impl SqliteClient {
    /// Makes a client, and prepares a workload's statements.
    ///
    /// # Errors
    /// When a statement does not compile, or its numbers of parameters and columns differ from the catalogue's.
    ///
    /// # Safety
    /// `engine` outlives the client, and one thread at a time uses both.
    pub unsafe fn new(engine: &Engine, workload: &Statements) -> Result<Self, Failure> {
        let handle = engine.handle();
        let prepare = |name: &str, sql: &str| {
            // SAFETY: the caller promises that the engine outlives the client.
            unsafe { Statement::prepare(handle, sql) }.map_err(|error| {
                let what = format!("statement {name} does not compile: {}", error.message);
                Failure::new(FailureKind::Data, what, &workload.place, "the database differs from the loaded one")
            })
        };
        let mut statements = Vec::with_capacity(workload.specs.len());
        for (at, (spec, sql)) in workload.specs.iter().zip(&workload.texts).enumerate() {
            let statement = match workload.rows {
                RowUse::Kept => prepare(&spec.name, sql)?,
                RowUse::Counted => {
                    // SAFETY: the caller promises that the engine outlives the client.
                    unsafe { Statement::prepare(handle, sql) }.map_err(|error| workload.refused(at, error.message))?
                }
            };
            workload.check(at, statement.parameters(), statement.columns(), MARKS)?;
            statements.push(statement);
        }
        Ok(SqliteClient {
            statements,
            begin: prepare("begin", "BEGIN")?,
            begin_immediate: prepare("begin_immediate", "BEGIN IMMEDIATE")?,
            commit: prepare("commit", "COMMIT")?,
            rollback: prepare("rollback", "ROLLBACK")?,
            names: workload.specs.iter().map(|spec| spec.name.to_string()).collect(),
            rows: workload.rows,
            rows_returned: 0,
            handle,
        })
    }
}

// SAFETY: SQLite lets another thread use a connection and its statements, as long as one thread at a time does so
// (<https://sqlite.org/threadsafe.html>, multi-thread); the caller of `new` has promised this.
unsafe impl Send for SqliteClient {}

fn client_error(statement: &str, error: SqliteError) -> ClientError {
    let message = error.message.clone();
    match error.primary_code() {
        ffi::SQLITE_BUSY | ffi::SQLITE_LOCKED => ClientError::Retry { message },
        ffi::SQLITE_FULL => ClientError::DiskFull { message },
        ffi::SQLITE_CORRUPT | ffi::SQLITE_NOTADB => ClientError::Data { message },
        ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN => {
            ClientError::Lost { message: format!("{message} (SQLite code {})", error.code) }
        }
        _ => ClientError::Statement {
            statement: statement.to_owned(),
            message: format!("{message} (SQLite code {})", error.code),
        },
    }
}

impl Client for SqliteClient {
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError> {
        let statement = if read_only { &mut self.begin } else { &mut self.begin_immediate };
        statement.run(|_| {}).map_err(|error| client_error("begin", error))
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.commit.run(|_| {}).map_err(|error| client_error("commit", error))
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        // Statements outside of a transaction have nothing to roll back, and after some errors SQLite has already
        // rolled the transaction back. SAFETY: the connection is open (the engine outlives the client).
        if unsafe { ffi::sqlite3_get_autocommit(self.handle) } != 0 {
            return Ok(());
        }
        self.rollback.run(|_| {}).map_err(|error| client_error("rollback", error))
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        for call in 0..batch.len() {
            let id = usize::from(batch.statement(call).0);
            let statement = &mut self.statements[id];
            // Texts are bound by their addresses. New rows go to another part of the batch, so the texts do not move.
            for index in 0..batch.param_count(call) {
                // SAFETY: the batch keeps its texts beyond this function, which binds every parameter before each run.
                unsafe { statement.bind(index, batch.param(call, index)) };
            }
            let columns = statement.columns();
            batch.begin_rows(call);
            let mut rows = 0;
            // Do not read the columns of rows that the workload ignores. SQLite has computed their values in the step
            // all the same.
            let kept_columns = if self.rows == RowUse::Kept { columns } else { 0 };
            statement
                .run(|row| {
                    for column in 0..kept_columns {
                        batch.push_column(row.value(column));
                    }
                    batch.end_row(call);
                    rows += 1;
                })
                .map_err(|error| client_error(&self.names[id], error))?;
            self.rows_returned += rows;
            if columns == 0 {
                // SAFETY: the connection is open (the engine outlives the client).
                batch.set_affected(call, unsafe { ffi::sqlite3_changes64(self.handle) } as u64);
            }
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.rows_returned
    }
}
