//! Reads a client's answers to TPC-C's statements. The error of a wrong answer names the statement and its parameters.

use crate::client::{Batch, ClientError, Value};
use crate::tpcc::statements::spec;

/// Checks that a read found exactly one row.
pub(super) fn expect_row(batch: &Batch, call: usize) -> Result<(), ClientError> {
    match batch.rows(call) {
        1 => Ok(()),
        rows => Err(wrong(batch, call, &format!("found {rows} rows, not 1"))),
    }
}

/// Checks the number of rows that a write affected.
pub(super) fn expect_affected(batch: &Batch, call: usize, rows: u64) -> Result<(), ClientError> {
    match batch.affected(call) {
        affected if affected == rows => Ok(()),
        affected => Err(wrong(batch, call, &format!("wrote {affected} rows, not {rows}"))),
    }
}

/// Checks that every write of the batch affected exactly one row.
pub(super) fn expect_single_writes(batch: &Batch) -> Result<(), ClientError> {
    (0..batch.len())
        .filter(|&call| spec(batch.statement(call)).columns == 0)
        .try_for_each(|call| expect_affected(batch, call, 1))
}

/// Returns a column that holds an integer.
pub(super) fn int(batch: &Batch, call: usize, row: usize, column: usize) -> Result<i64, ClientError> {
    match value(batch, call, row, column) {
        Value::Int(int) => Ok(int),
        other => Err(wrong(batch, call, &format!("column {column} is {other:?}, not an integer"))),
    }
}

/// Returns a column that holds a row's number, which is not negative and fits 32 bits.
pub(super) fn id(batch: &Batch, call: usize, row: usize, column: usize) -> Result<u32, ClientError> {
    let id = int(batch, call, row, column)?;
    u32::try_from(id).map_err(|_| wrong(batch, call, &format!("column {column} is {id}, not a key")))
}

/// Returns a column that holds text.
pub(super) fn text(batch: &Batch, call: usize, row: usize, column: usize) -> Result<&str, ClientError> {
    match value(batch, call, row, column) {
        Value::Text(text) => Ok(text),
        other => Err(wrong(batch, call, &format!("column {column} is {other:?}, not text"))),
    }
}

/// Returns a column of a row. The caller has checked that the row exists.
fn value(batch: &Batch, call: usize, row: usize, column: usize) -> Value<'_> {
    batch.value(call, spec(batch.statement(call)).columns, row, column)
}

/// Returns the error for an answer that shows other data than was loaded or written.
#[cold]
pub(super) fn wrong(batch: &Batch, call: usize, finding: &str) -> ClientError {
    let name = &spec(batch.statement(call)).name;
    let params: Vec<Value<'_>> = (0..batch.param_count(call)).map(|index| batch.param(call, index)).collect();
    ClientError::Data { message: format!("{name} with {params:?} {finding}") }
}
