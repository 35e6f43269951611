//! Users' scripts on SQLite: executes statements of the setup section.

use std::sync::atomic::AtomicBool;

use bufferlab_workload::script::SetupStatement;
use rusqlite::ffi;

use super::dialect::DIALECT;
use super::interrupt::Interruptible;
use super::statement::{SqliteError, Statement};
use crate::dialect::check_parameters;
use crate::failure::{DEVICE_ERROR_HINT, FULL_DISK_HINT, Failure, FailureKind};

/// SQLite's other forms of parameters. A script gives such parameters no value, so they would silently be NULL.
pub(super) const MARKS: &str = "?, @name or $name";

/// Executes one statement of a setup section, which is at `place` in the script's file. Returns false when `cancelled`
/// interrupted it.
///
/// # Errors
/// SQLite's error; when the statement's number of parameters differs from the script's.
///
/// # Safety
/// `connection` is open, and only this thread uses it meanwhile.
pub(super) unsafe fn set_up(
    connection: *mut ffi::sqlite3,
    setup: &SetupStatement<'_>,
    place: &str,
    cancelled: &AtomicBool,
) -> Result<bool, Failure> {
    // SAFETY: the connection is open, and the guard ends with this function.
    let _guard = unsafe { Interruptible::begin(connection, cancelled) };
    // SAFETY: the connection is open, and the statement ends with this function.
    let prepared = unsafe { Statement::prepare(connection, &setup.sql.text(DIALECT.place)) };
    let mut statement = prepared.map_err(|error| failure(error, place))?;
    check_parameters(statement.parameters(), setup.sql.parameters(), place, MARKS)?;
    for (index, &value) in setup.values.iter().enumerate() {
        // SAFETY: the setup keeps its texts beyond this function, in which the statement ends.
        unsafe { statement.bind(index, value) };
    }
    match statement.run(|_| {}) {
        Err(error) if error.primary_code() == ffi::SQLITE_INTERRUPT => Ok(false),
        outcome => outcome.map(|()| true).map_err(|error| failure(error, place)),
    }
}

fn failure(error: SqliteError, place: &str) -> Failure {
    let (kind, hint) = match error.primary_code() {
        ffi::SQLITE_FULL => (FailureKind::FullDisk, FULL_DISK_HINT),
        ffi::SQLITE_IOERR | ffi::SQLITE_CANTOPEN => (FailureKind::Io, DEVICE_ERROR_HINT),
        _ => (FailureKind::Usage, "this statement of the script failed in SQLite: try it in the sqlite3 shell"),
    };
    Failure::new(kind, error.message, place, hint)
}
