//! The client trait over one connection: server-side prepared statements in the binary protocol.
//!
//! With the setting `spec` each call is one round trip. With `batched`, successive calls of the same statement share a
//! round trip. `wire` executes statements; once each of them has been executed, it allocates no memory.

use bufferlab_workload::client::{Batch, Cells, Client, ClientError, StatementId, Workload};

use super::coalesce::{Answer, Coalesced, Template, share_out, sort_rows};
use super::connection::Conn;
use super::dialect::DIALECT;
use super::error::{MysqlError, client_error, failure};
use super::wire::{Row, Statement, Unreadable};
use crate::dialect::{RowUse, Statements};
use crate::failure::Failure;
pub use crate::server::Sending;

/// The error "This command is not supported in the prepared statement protocol yet", for BEGIN and others before
/// MariaDB 10.6.
const ER_UNSUPPORTED_PS: u16 = 1295;

/// The form in which the client sends a statement of the catalogue: prepared or as text.
enum Sent {
    Prepared(Statement),
    /// A script's statement that the server cannot prepare. The client sends it as text; it has no parameters.
    Text(String),
}

/// A client with all statements of one workload prepared.
pub struct MysqlClient {
    conn: Conn,
    statements: Vec<Sent>,
    names: Vec<String>,
    /// The number of columns of each statement's rows, as the workload's catalogue says.
    widths: Vec<usize>,
    rows: RowUse,
    coalesced: Option<Coalesced>,
    /// For each statement, the coalesced statements prepared so far, by their numbers of calls.
    runs: Vec<Vec<Option<Statement>>>,
    /// Rows of a coalesced statement, until the client gives them to their calls.
    run_rows: Cells,
    transaction: TransactionState,
    rows_returned: u64,
    round_trips: u64,
}

/// The state of autocommit. With `batched` the client sends no BEGIN, but turns autocommit off, so that the first
/// statement begins a transaction. Before a statement outside of transactions it turns autocommit on again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TransactionState {
    autocommit: bool,
    open: bool,
}

impl MysqlClient {
    /// Makes a client with a workload's statements, sent as `sending` says.
    ///
    /// # Errors
    /// The errors of [`MysqlClient::new`]; when a file of the dialect is missing or does not match the workload, or the
    /// dialect cannot force the workload's plan.
    pub fn of_workload(conn: Conn, workload: &mut dyn Workload, sending: Sending) -> Result<Self, Failure> {
        let coalesced = match (sending, DIALECT.file(workload.name(), "batched.sql")) {
            (Sending::Spec, _) => None,
            (Sending::Batched, None) => Some(Coalesced::default()),
            (Sending::Batched, Some((file, text))) => Some(Coalesced::from_file(&file, &text, workload.statements())?),
        };
        MysqlClient::new(conn, &DIALECT.statements(workload)?, coalesced)
    }

    /// Makes a client, and prepares the statements of `list`. With `coalesced`, the client sends a run of calls as one
    /// statement.
    ///
    /// # Errors
    /// When a statement does not compile, or its numbers of parameters and columns differ from the catalogue's.
    pub fn new(mut conn: Conn, list: &Statements, coalesced: Option<Coalesced>) -> Result<Self, Failure> {
        let mut statements = Vec::with_capacity(list.specs.len());
        for (at, text) in list.texts.iter().enumerate() {
            statements.push(prepare(&mut conn, list, at, text.trim_end().trim_end_matches(';'))?);
        }
        Ok(MysqlClient {
            conn,
            names: list.specs.iter().map(|spec| spec.name.to_string()).collect(),
            widths: list.specs.iter().map(|spec| spec.columns).collect(),
            rows: list.rows,
            runs: statements.iter().map(|_| Vec::new()).collect(),
            statements,
            coalesced,
            run_rows: Cells::default(),
            transaction: TransactionState { autocommit: true, open: false },
            rows_returned: 0,
            round_trips: 0,
        })
    }

    /// Returns the connection's number at the server, as in SHOW PROCESSLIST.
    pub fn connection_id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Returns the number of requests sent and answered since the client was made, without those that prepare
    /// statements.
    pub fn round_trips(&self) -> u64 {
        self.round_trips
    }

    fn command(&mut self, name: &str, sql: &str) -> Result<(), ClientError> {
        self.round_trips += 1;
        self.conn.wire.command(sql).map(drop).map_err(|error| client_error(name, &error))
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
        let name = &self.names[id];
        let fail = |error: MysqlError| client_error(name, &error);
        self.round_trips += 1;
        let (kept, width) = (self.rows == RowUse::Kept, self.widths[id]);
        let (mut rows, mut problem) = (0, None);
        let affected = match &mut self.statements[id] {
            Sent::Prepared(statement) => {
                let params = (0..batch.param_count(call)).map(|index| batch.param(call, index));
                self.conn.wire.execute(statement.id, params).map_err(fail)?;
                batch.begin_rows(call);
                let take = |row: Row<'_>| {
                    if kept && problem.is_none() {
                        problem = row.each(width, |value| batch.push_column(value)).err();
                    }
                    batch.end_row(call);
                    rows += 1;
                };
                self.conn.wire.answer(&mut statement.columns, take).map_err(fail)?
            }
            Sent::Text(sql) => {
                batch.begin_rows(call);
                let mut row = || {
                    batch.end_row(call);
                    rows += 1;
                };
                self.conn.wire.command_each(sql, &mut row).map_err(fail)?.affected
            }
        };
        if let Some(problem) = problem {
            return Err(unreadable(name, problem));
        }
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
        let fail = |error: MysqlError| client_error(name, &error);
        let statement = prepared_run(&mut self.conn, &mut self.runs[id], template, end - first).map_err(fail)?;
        let params = template.params(first..end).map(|(call, index)| batch.param(call, index));
        self.round_trips += 1;
        self.conn.wire.execute(statement.id, params).map_err(fail)?;
        let (cells, mut problem) = (&mut self.run_rows, None);
        cells.clear();
        let width = match &template.answer {
            Answer::Key(key) => key.len() + self.widths[id],
            Answer::Affects(_) => 0,
        };
        let take = |row: Row<'_>| {
            if problem.is_none() {
                problem = row.each(width, |value| cells.push(value)).err();
            }
        };
        let affected = self.conn.wire.answer(&mut statement.columns, take).map_err(fail)?;
        if let Some(problem) = problem {
            return Err(unreadable(name, problem));
        }
        match &template.answer {
            Answer::Affects(each) => share_out(affected, *each, first..end, batch),
            Answer::Key(key) => {
                self.rows_returned += sort_rows(&self.run_rows, width, key, first..end, batch);
            }
        }
        Ok(())
    }
}

/// Returns the error for a value of a type that no workload reads.
fn unreadable(statement: &str, problem: Unreadable) -> ClientError {
    match problem {
        Unreadable::Broken(error) => client_error(statement, &error.into()),
        Unreadable::Value { column, what } => ClientError::Statement {
            statement: statement.to_owned(),
            message: format!("column {column} is {what}, which no workload reads"),
        },
    }
}

fn prepare(conn: &mut Conn, list: &Statements, at: usize, sql: &str) -> Result<Sent, Failure> {
    let spec = &list.specs[at];
    let script = list.rows == RowUse::Counted;
    let statement = match conn.prepare(sql) {
        Ok(statement) => statement,
        Err(MysqlError::Server(error)) if script && error.code == ER_UNSUPPORTED_PS && spec.parameters == 0 => {
            return Ok(Sent::Text(sql.to_owned()));
        }
        Err(MysqlError::Server(error)) if script => return Err(list.refused(at, error.message)),
        Err(error) => return Err(failure(&format!("preparing {}", spec.name), &list.place, &error)),
    };
    list.check(at, statement.parameters, statement.columns.len(), "?")?;
    Ok(Sent::Prepared(statement))
}

/// Returns the coalesced statement for `calls` calls, and prepares it at its first use.
fn prepared_run<'a>(
    conn: &mut Conn,
    runs: &'a mut Vec<Option<Statement>>,
    template: &Template,
    calls: usize,
) -> Result<&'a mut Statement, MysqlError> {
    if runs.len() <= calls {
        runs.resize_with(calls + 1, || None);
    }
    match &mut runs[calls] {
        Some(statement) => Ok(statement),
        empty => Ok(empty.insert(conn.prepare(&template.sql(calls))?)),
    }
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
