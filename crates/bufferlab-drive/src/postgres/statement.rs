//! Statements of a catalogue at the server: prepares each statement once, then binds it to a call's parameters,
//! executes it, and reads its rows.

use bufferlab_workload::client::{Batch, Value};
use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend::{self, BindError};

use super::connection::{Connection, Described};
use super::error::{PgError, failure};
use super::message::{Body, Malformed, tagged_rows};
use super::value::{Integers, decode, encode, is_binary, is_readable};
use crate::dialect::{RowUse, Statements};
use crate::failure::{Failure, FailureKind};

/// A statement of the catalogue, prepared at the server.
pub(super) struct Prepared {
    /// The statement's name in the catalogue.
    pub name: String,
    /// The statement's name at the server.
    pub id: String,
    pub described: Described,
}

/// Prepares the statement at position `at` of a list. The statements' names at the server are s0, s1 and so on.
pub(super) fn prepare(
    connection: &mut Connection,
    list: &Statements,
    at: usize,
    sql: &str,
) -> Result<Prepared, Failure> {
    let spec = &list.specs[at];
    let script = list.rows == RowUse::Counted;
    let id = format!("s{at}");
    let described = match connection.prepare(&id, sql) {
        Ok(described) => described,
        Err(PgError::Server(error)) if script && error.severity == "ERROR" => {
            return Err(list.refused(at, error.message));
        }
        Err(error) => return Err(failure(&format!("preparing {}", spec.name), &list.place, &error)),
    };
    list.check(at, described.parameters.len(), described.columns.len(), "$1")?;
    if let Some(oid) = described.columns.iter().find(|&&oid| !script && !is_readable(oid)) {
        let what = format!("statement {} has a column of type {oid}, which no workload reads", spec.name);
        return Err(Failure::new(FailureKind::Internal, what, &list.place, "please report this"));
    }
    Ok(Prepared { name: spec.name.to_string(), id, described })
}

/// Appends the messages that bind and execute one call. If the workload ignores rows, the server sends them as text,
/// because every type has a text form.
pub(super) fn bind_call(
    statement: &Prepared,
    batch: &Batch,
    call: usize,
    rows: RowUse,
    out: &mut BytesMut,
) -> Result<(), PgError> {
    let integers = if rows == RowUse::Kept { Integers::MayBeDates } else { Integers::AreNumbers };
    let types = &statement.described.parameters;
    if batch.param_count(call) != types.len() {
        let what = format!("{} parameters for a statement of {}", batch.param_count(call), types.len());
        return Err(PgError::Value(what));
    }
    let formats = types.iter().enumerate().map(|(at, &oid)| is_binary(batch.param(call, at), oid, integers).into());
    let result_format: Option<i16> = (rows == RowUse::Kept && !statement.described.columns.is_empty()).then_some(1);
    let mut unfit = None;
    let value = |(at, &oid): (usize, &u32), out: &mut BytesMut| {
        let value = batch.param(call, at);
        if value == Value::Null {
            return Ok(IsNull::Yes);
        }
        if let Err(error) = encode(value, oid, integers, out) {
            unfit = Some(error);
        }
        Ok(IsNull::No)
    };
    let bound = frontend::bind("", &statement.id, formats, types.iter().enumerate(), value, result_format, out);
    if let Some(error) = unfit {
        return Err(error);
    }
    match bound {
        Ok(()) => Ok(frontend::execute("", 0, out)?),
        Err(BindError::Serialization(error)) => Err(error.into()),
        Err(BindError::Conversion(error)) => Err(PgError::Value(error.to_string())),
    }
}

/// Reads the answer to one executed statement, and passes its rows to `row`. Returns the number of rows in the
/// command's tag. The tag is then the body of the message read last.
pub(super) fn answer(
    connection: &mut Connection,
    row: &mut dyn FnMut(&[u8]) -> Result<(), PgError>,
) -> Result<u64, PgError> {
    loop {
        match connection.wire.read()? {
            b'D' => row(connection.wire.body())?,
            b'C' => return Ok(tagged_rows(connection.wire.body())?),
            b'I' => return Ok(0),
            b'E' => return Err(connection.said()),
            b'G' => {
                connection.refuse_copy()?;
                return Err(PgError::Value("the statement reads rows from the client, which has no data".to_owned()));
            }
            // Ignore the end of binding, and data of COPY TO STDOUT.
            b'2' | b'H' | b'd' | b'c' => {}
            tag => {
                let what = format!("a message {:?} in the answer to a statement", char::from(tag));
                return Err(Malformed(what.into()).into());
            }
        }
    }
}

/// Appends the columns of a row to the current row of a batch.
pub(super) fn push_row(body: &[u8], columns: &[u32], batch: &mut Batch) -> Result<(), PgError> {
    let mut body = Body(body);
    let count = body.count()?;
    if count != columns.len() {
        return Err(Malformed(format!("a row of {count} columns instead of {}", columns.len()).into()).into());
    }
    columns.iter().try_for_each(|&oid| decode(body.value()?, oid, batch))
}
