//! The client trait over one connection: server-side prepared statements in the binary protocol.
//!
//! One call is one round trip (`spec`), or runs of calls share one (`batched`). The library allocates for each statement: its
//! parameters, the columns of a result, each row and each value of text.

use bufferlab_workload::client::{Batch, Client, ClientError, StatementId, Value};
use mysql::consts::ColumnType;
use mysql::prelude::Queryable;
use mysql::{Conn, Params, Row, Statement};

use super::coalesce::{Answer, Coalesced, Template};
use super::datetime::DateTime;
use super::error::{client_error, failure};
use super::workloads::MysqlWorkload;
use crate::dialect::{RowUse, Statements};
use crate::failure::{Failure, FailureKind};

/// "This command is not supported in the prepared statement protocol yet": BEGIN and others, before MariaDB 10.6.
const ER_UNSUPPORTED_PS: u16 = 1295;

/// How a workload's statements are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// Each call in a round trip of its own, as the specification's profiles are written.
    Spec,
    /// As few round trips as give the same answers.
    Batched,
}

impl Sending {
    /// The way of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "spec" => Some(Sending::Spec),
            "batched" => Some(Sending::Batched),
            _ => None,
        }
    }
}

/// A statement of the catalogue as the server knows it.
enum Sent {
    Prepared(Statement),
    /// One that the server does not prepare, sent as text; it has no parameters.
    Text(String),
}

/// A client with all statements of one workload prepared.
pub struct MysqlClient {
    conn: Conn,
    statements: Vec<Sent>,
    names: Vec<String>,
    rows: RowUse,
    coalesced: Option<Coalesced>,
    /// For each statement those prepared for so many calls, by their number.
    runs: Vec<Vec<Option<Statement>>>,
    /// Rows of a coalesced statement until they are sorted to their calls.
    run_rows: Vec<Row>,
    transaction: TransactionState,
    rows_returned: u64,
    round_trips: u64,
}

/// With `batched` no statement begins a transaction: autocommit is off while there are transactions, so that the first
/// statement begins one. Statements outside of transactions turn it on again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TransactionState {
    autocommit: bool,
    open: bool,
}

impl MysqlClient {
    /// Prepares a workload's statements, to be sent in one of the two ways.
    ///
    /// # Errors
    /// As [`MysqlClient::new`].
    pub fn of_workload<W: MysqlWorkload>(conn: Conn, workload: &W, sending: Sending) -> Result<Self, Failure> {
        let coalesced = match sending {
            Sending::Spec => None,
            Sending::Batched => Some(workload.coalesced()?),
        };
        MysqlClient::new(conn, &workload.statements()?, coalesced)
    }

    /// Prepares these statements; with `coalesced`, runs of them are sent as one.
    ///
    /// # Errors
    /// When one does not compile or has other parameters or columns than the catalogue says.
    pub fn new(mut conn: Conn, list: &Statements, coalesced: Option<Coalesced>) -> Result<Self, Failure> {
        let mut statements = Vec::with_capacity(list.specs.len());
        for (at, text) in list.texts.iter().enumerate() {
            statements.push(prepare(&mut conn, list, at, text.trim_end().trim_end_matches(';'))?);
        }
        Ok(MysqlClient {
            conn,
            names: list.specs.iter().map(|spec| spec.name.to_string()).collect(),
            rows: list.rows,
            runs: vec![Vec::new(); statements.len()],
            statements,
            coalesced,
            run_rows: Vec::new(),
            transaction: TransactionState { autocommit: true, open: false },
            rows_returned: 0,
            round_trips: 0,
        })
    }

    /// The connection's number at the server, as SHOW PROCESSLIST has it.
    #[must_use]
    pub fn connection_id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Requests sent and answered since the client was made, those that prepare statements not counted.
    #[must_use]
    pub fn round_trips(&self) -> u64 {
        self.round_trips
    }

    fn command(&mut self, name: &str, sql: &str) -> Result<(), ClientError> {
        self.round_trips += 1;
        self.conn.query_drop(sql).map_err(|error| client_error(name, &error))
    }

    fn set_autocommit(&mut self, on: bool) -> Result<(), ClientError> {
        if self.transaction.autocommit != on {
            self.command("autocommit", if on { "SET autocommit = 1" } else { "SET autocommit = 0" })?;
            self.transaction.autocommit = on;
        }
        Ok(())
    }

    fn execute_one(&mut self, batch: &mut Batch, call: usize) -> Result<(), ClientError> {
        let id = usize::from(batch.statement(call).0);
        let fail = |error: mysql::Error| client_error(&self.names[id], &error);
        self.round_trips += 1;
        batch.begin_rows(call);
        let (kept, mut rows) = (self.rows == RowUse::Kept, 0);
        let mut take = |row: Result<Row, mysql::Error>, batch: &mut Batch| -> Result<(), ClientError> {
            let row = row.map_err(fail)?;
            if kept {
                push_row(&row, 0, batch, &self.names[id])?;
            }
            batch.end_row(call);
            rows += 1;
            Ok(())
        };
        let affected = match &self.statements[id] {
            Sent::Prepared(statement) => {
                let params = (0..batch.param_count(call)).map(|index| to_param(batch.param(call, index))).collect();
                let mut result = self.conn.exec_iter(statement, positional(params)).map_err(fail)?;
                let affected = result.affected_rows();
                for row in result.by_ref() {
                    take(row, batch)?;
                }
                affected
            }
            Sent::Text(sql) => {
                let mut result = self.conn.query_iter(sql).map_err(fail)?;
                let affected = result.affected_rows();
                for row in result.by_ref() {
                    take(row, batch)?;
                }
                affected
            }
        };
        self.rows_returned += rows;
        batch.set_affected(call, affected);
        Ok(())
    }

    fn execute_run(&mut self, batch: &mut Batch, first: usize, end: usize) -> Result<(), ClientError> {
        let id = usize::from(batch.statement(first).0);
        let Some(template) = self.coalesced.as_ref().and_then(|all| all.template(StatementId(id as u16))) else {
            return Ok(());
        };
        let name = &self.names[id];
        let fail = |error: mysql::Error| client_error(name, &error);
        let statement = prepared_run(&mut self.conn, &mut self.runs[id], template, end - first).map_err(fail)?;
        let params =
            template.params(first..end).map(|(call, index)| to_param(batch.param(call, index))).collect::<Vec<_>>();
        self.round_trips += 1;
        let mut result = self.conn.exec_iter(statement, positional(params)).map_err(fail)?;
        match &template.answer {
            Answer::Affects(each) => {
                let rows = result.affected_rows();
                drop(result);
                share_out(rows, *each, first..end, batch);
                Ok(())
            }
            Answer::Key(key) => {
                self.run_rows.clear();
                for row in result.by_ref() {
                    self.run_rows.push(row.map_err(fail)?);
                }
                drop(result);
                self.rows_returned += sort_rows(&self.run_rows, key, first..end, batch, name)?;
                Ok(())
            }
        }
    }
}

fn prepare(conn: &mut Conn, list: &Statements, at: usize, sql: &str) -> Result<Sent, Failure> {
    let spec = &list.specs[at];
    let script = list.rows == RowUse::Counted;
    let statement = match conn.prep(sql) {
        Ok(statement) => statement,
        Err(mysql::Error::MySqlError(error)) if error.code == ER_UNSUPPORTED_PS && spec.parameters == 0 => {
            return Ok(Sent::Text(sql.to_owned()));
        }
        Err(mysql::Error::MySqlError(error)) if script => {
            let hint = "correct the statement, or create what it refers to in the script's setup section";
            return Err(Failure::new(FailureKind::Usage, error.message, spec.name.to_string(), hint));
        }
        Err(error) => return Err(failure(&format!("preparing {}", spec.name), &list.place, &error)),
    };
    let (parameters, columns) = (usize::from(statement.num_params()), usize::from(statement.num_columns()));
    if script && parameters != spec.parameters {
        let what = format!("this statement has {parameters} parameters, and the script gives it {}", spec.parameters);
        let hint = "write every parameter as :name, not as ?, and set it with \\set";
        return Err(Failure::new(FailureKind::Usage, what, spec.name.to_string(), hint));
    }
    if !script && (parameters, columns) != (spec.parameters, spec.columns) {
        let what = format!(
            "statement {} has {parameters} parameters and {columns} columns; the workload says {} and {}",
            spec.name, spec.parameters, spec.columns
        );
        return Err(Failure::new(FailureKind::Internal, what, &list.place, "please report this"));
    }
    Ok(Sent::Prepared(statement))
}

/// The statement for so many calls, prepared when it is needed for the first time.
fn prepared_run<'a>(
    conn: &mut Conn,
    runs: &'a mut Vec<Option<Statement>>,
    template: &Template,
    calls: usize,
) -> Result<&'a Statement, mysql::Error> {
    if runs.len() <= calls {
        runs.resize(calls + 1, None);
    }
    match &mut runs[calls] {
        Some(statement) => Ok(statement),
        empty => Ok(empty.insert(conn.prep(template.sql(calls))?)),
    }
}

fn positional(params: Vec<mysql::Value>) -> Params {
    if params.is_empty() { Params::Empty } else { Params::Positional(params) }
}

pub(super) fn to_param(value: Value<'_>) -> mysql::Value {
    match value {
        Value::Null => mysql::Value::NULL,
        Value::Int(int) => mysql::Value::Int(int),
        Value::Real(real) => mysql::Value::Double(real),
        Value::Text(text) => mysql::Value::Bytes(text.as_bytes().to_vec()),
    }
}

/// Shares the rows of a run out so that a sum that is as it must be gives every call one row, or as near as can be.
fn share_out(rows: u64, each: u64, calls: std::ops::Range<usize>, batch: &mut Batch) {
    let (rows, count) = (rows / each.max(1), calls.len() as u64);
    for (place, call) in calls.enumerate() {
        batch.begin_rows(call);
        batch.set_affected(call, rows / count + u64::from((place as u64) < rows % count));
    }
}

/// Gives each call its rows, those of equal keys to each of their calls; answers how many were given.
fn sort_rows(
    rows: &[Row],
    key: &[usize],
    calls: std::ops::Range<usize>,
    batch: &mut Batch,
    name: &str,
) -> Result<u64, ClientError> {
    let mut given = 0;
    for call in calls {
        batch.begin_rows(call);
        for row in rows {
            if key.iter().enumerate().all(|(column, &param)| is_key(row, column, batch.param(call, param))) {
                push_row(row, key.len(), batch, name)?;
                batch.end_row(call);
                given += 1;
            }
        }
    }
    Ok(given)
}

fn is_key(row: &Row, column: usize, param: Value<'_>) -> bool {
    match (row.as_ref(column), param) {
        (Some(&mysql::Value::Int(int)), Value::Int(param)) => int == param,
        (Some(&mysql::Value::UInt(int)), Value::Int(param)) => i64::try_from(int) == Ok(param),
        _ => false,
    }
}

/// Appends a row's columns from `first` on: a DECIMAL as an integer of its last digit, a date as microseconds.
fn push_row(row: &Row, first: usize, batch: &mut Batch, name: &str) -> Result<(), ClientError> {
    for column in first..row.len() {
        let unreadable = || ClientError::Statement {
            statement: name.to_owned(),
            message: format!("column {column} is {:?}, which no workload reads", row.as_ref(column)),
        };
        let decimal = || row.columns_ref()[column].column_type() == ColumnType::MYSQL_TYPE_NEWDECIMAL;
        let value = match row.as_ref(column) {
            Some(mysql::Value::Int(int)) => Value::Int(*int),
            Some(mysql::Value::UInt(int)) => Value::Int(i64::try_from(*int).map_err(|_| unreadable())?),
            Some(mysql::Value::Bytes(digits)) if decimal() => Value::Int(unscaled(digits).ok_or_else(unreadable)?),
            Some(mysql::Value::Bytes(text)) => Value::Text(std::str::from_utf8(text).map_err(|_| unreadable())?),
            Some(mysql::Value::NULL) => Value::Null,
            Some(mysql::Value::Float(real)) => Value::Real((*real).into()),
            Some(mysql::Value::Double(real)) => Value::Real(*real),
            Some(&mysql::Value::Date(year, month, day, hour, minute, second, micros)) => {
                let date = DateTime { year: year.into(), month, day, time: (hour, minute, second) };
                Value::Int(date.micros() + i64::from(micros))
            }
            Some(mysql::Value::Time(..)) | None => return Err(unreadable()),
        };
        batch.push_column(value);
    }
    Ok(())
}

/// The digits of a decimal as an integer: "-12.50" is -1250.
fn unscaled(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, digits),
    };
    let mut int: i64 = 0;
    for &digit in digits.iter().filter(|&&byte| byte != b'.') {
        int = int.checked_mul(10)?.checked_add(i64::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?))?;
    }
    Some(if negative { -int } else { int })
}

impl Client for MysqlClient {
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError> {
        if self.coalesced.is_some() {
            self.set_autocommit(false)?;
        } else {
            self.command("begin", if read_only { "START TRANSACTION READ ONLY" } else { "START TRANSACTION" })?;
        }
        self.transaction.open = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        self.transaction.open = false;
        self.command("commit", "COMMIT")
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        self.transaction.open = false;
        self.command("rollback", "ROLLBACK")
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        if !self.transaction.open {
            self.set_autocommit(true)?;
        }
        let mut call = 0;
        while call < batch.len() {
            let end = self.coalesced.as_ref().map_or(call + 1, |coalesced| coalesced.run_end(batch, call));
            if end == call + 1 {
                self.execute_one(batch, call)?;
            } else {
                self.execute_run(batch, call, end)?;
            }
            call = end;
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.rows_returned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_is_read_as_an_integer_of_its_last_digit() {
        for (digits, int) in [("0.1234", 1_234), ("-10.00", -1_000), ("300000.05", 30_000_005), ("7", 7), ("-0.01", -1)]
        {
            assert_eq!(unscaled(digits.as_bytes()), Some(int), "{digits}");
        }
        assert_eq!(unscaled(b""), None);
        assert_eq!(unscaled(b"1e5"), None);
        assert_eq!(unscaled(b"99999999999999999999.00"), None);
    }

    #[test]
    fn only_a_right_sum_gives_every_call_its_row() {
        let shares = |rows, each| {
            let mut batch = Batch::default();
            (0..4).for_each(|_| _ = batch.call(StatementId(0), &[]));
            share_out(rows, each, 0..4, &mut batch);
            [0, 1, 2, 3].map(|call| batch.affected(call))
        };
        assert_eq!(shares(4, 1), [1, 1, 1, 1]);
        assert_eq!(shares(8, 2), [1, 1, 1, 1]);
        assert_eq!(shares(3, 1), [1, 1, 1, 0]);
        assert_eq!(shares(7, 2), [1, 1, 1, 0]);
        assert_eq!(shares(42, 1), [11, 11, 10, 10]);
    }
}
