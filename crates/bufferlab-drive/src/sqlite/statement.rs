//! A prepared statement over SQLite's C interface: bind, step, read columns, reset, without an allocation.
//!
//! rusqlite's own statement borrows its connection, so no client could own both. rusqlite also finds cached statements
//! by their text, which costs time. The statement of this file, for the hot path, does neither.

use std::ffi::{CStr, c_int};
use std::ptr;

use bufferlab_workload::client::Value;
use rusqlite::ffi;

/// A prepared statement. The caller must drop it before it closes the connection.
pub struct Statement {
    raw: *mut ffi::sqlite3_stmt,
    columns: c_int,
}

/// SQLite's result code and message.
#[derive(Clone, Debug)]
pub struct SqliteError {
    /// SQLite's extended result code.
    pub code: c_int,
    /// SQLite's message.
    pub message: String,
}

impl SqliteError {
    /// Returns the last error of a connection.
    ///
    /// # Safety
    /// `connection` is open.
    pub unsafe fn last(connection: *mut ffi::sqlite3) -> Self {
        // SAFETY: the connection is open; the message is copied before the next call.
        unsafe {
            let message = CStr::from_ptr(ffi::sqlite3_errmsg(connection)).to_string_lossy().into_owned();
            SqliteError { code: ffi::sqlite3_extended_errcode(connection), message }
        }
    }

    /// Returns the primary result code.
    pub fn primary_code(&self) -> c_int {
        self.code & 0xff
    }
}

impl Statement {
    /// Prepares a statement for many executions.
    ///
    /// # Errors
    /// SQLite's error when the text does not compile.
    ///
    /// # Safety
    /// `connection` is open and outlives the statement.
    pub unsafe fn prepare(connection: *mut ffi::sqlite3, sql: &str) -> Result<Self, SqliteError> {
        let mut raw = ptr::null_mut();
        // SAFETY: the text is passed with its length; raw receives the statement or null.
        let code = unsafe {
            ffi::sqlite3_prepare_v3(
                connection,
                sql.as_ptr().cast(),
                sql.len() as c_int,
                ffi::SQLITE_PREPARE_PERSISTENT,
                &raw mut raw,
                ptr::null_mut(),
            )
        };
        if code != ffi::SQLITE_OK || raw.is_null() {
            // SAFETY: the connection is open.
            return Err(unsafe { SqliteError::last(connection) });
        }
        // SAFETY: the statement is valid.
        let columns = unsafe { ffi::sqlite3_column_count(raw) };
        Ok(Statement { raw, columns })
    }

    /// Returns the number of columns of the statement's rows.
    pub fn columns(&self) -> usize {
        self.columns as usize
    }

    /// Returns the number of the statement's parameters.
    #[must_use]
    pub fn parameters(&self) -> usize {
        // SAFETY: the statement is valid.
        unsafe { ffi::sqlite3_bind_parameter_count(self.raw) as usize }
    }

    /// Binds the parameter `index`, counted from zero, without copying a text.
    ///
    /// # Safety
    /// A text must live until the next [`Statement::run`] returns. Before each run the caller must bind every parameter
    /// again that it has ever bound.
    pub unsafe fn bind(&mut self, index: usize, value: Value<'_>) {
        let index = index as c_int + 1;
        // SAFETY: the statement is valid and is not being stepped; a wrong index is answered with a code and shows as a
        // constraint error at the step. The caller keeps the text.
        unsafe {
            match value {
                Value::Null => ffi::sqlite3_bind_null(self.raw, index),
                Value::Int(int) => ffi::sqlite3_bind_int64(self.raw, index, int),
                Value::Real(real) => ffi::sqlite3_bind_double(self.raw, index, real),
                Value::Text(text) => ffi::sqlite3_bind_text(
                    self.raw,
                    index,
                    text.as_ptr().cast(),
                    text.len() as c_int,
                    ffi::SQLITE_STATIC(),
                ),
            };
        }
    }

    /// Executes the statement with the bound parameters, passes every row to `on_row`, and resets the statement.
    ///
    /// # Errors
    /// SQLite's error; the statement is then reset, too.
    pub fn run(&mut self, mut on_row: impl FnMut(Row<'_>)) -> Result<(), SqliteError> {
        // SAFETY: the statement is valid; a row is read only before the next step.
        unsafe {
            let outcome = loop {
                match ffi::sqlite3_step(self.raw) {
                    ffi::SQLITE_ROW => on_row(Row { statement: self }),
                    ffi::SQLITE_DONE => break Ok(()),
                    _ => break Err(SqliteError::last(ffi::sqlite3_db_handle(self.raw))),
                }
            };
            ffi::sqlite3_reset(self.raw);
            outcome
        }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: the statement is finalised once, before the connection closes.
        unsafe { ffi::sqlite3_finalize(self.raw) };
    }
}

/// The current row of a statement.
pub struct Row<'a> {
    statement: &'a Statement,
}

impl Row<'_> {
    /// Returns a column, counted from zero. Text that is not UTF-8 reads as empty: no workload stores such text.
    #[must_use]
    pub fn value(&self, column: usize) -> Value<'_> {
        let (raw, column) = (self.statement.raw, column as c_int);
        // SAFETY: a caller has a row only between a step that gave a row and the next step; the text lives as long.
        unsafe {
            match ffi::sqlite3_column_type(raw, column) {
                ffi::SQLITE_NULL => Value::Null,
                ffi::SQLITE_INTEGER => Value::Int(ffi::sqlite3_column_int64(raw, column)),
                ffi::SQLITE_FLOAT => Value::Real(ffi::sqlite3_column_double(raw, column)),
                _ => {
                    let start = ffi::sqlite3_column_text(raw, column);
                    let bytes = ffi::sqlite3_column_bytes(raw, column) as usize;
                    if start.is_null() {
                        return Value::Text("");
                    }
                    Value::Text(std::str::from_utf8(std::slice::from_raw_parts(start, bytes)).unwrap_or_default())
                }
            }
        }
    }
}
