//! The trait of clients: all operations that a workload needs of a database.
//!
//! A workload asks a client for *calls*. A call is one execution of a named statement with typed parameters. Calls that
//! do not need each other's rows are in one [`Batch`]. A client over a network may send a batch in one round trip, and
//! merge calls of the same statement that follow each other. An embedded client executes them one by one. This file has
//! no SQL; a client maps each [`StatementId`] to its dialect's text.
//!
//! A driver reuses one batch, so after the first few transactions it allocates no memory.

use std::borrow::Cow;
use std::fmt;

use crate::findings::Findings;
use crate::plan::ForcedPlan;

/// A statement of a workload, by its position in the workload's catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatementId(pub u16);

/// The declaration of one statement in a workload's catalogue. A dialect has the statement's text under the same name.
#[derive(Clone, Debug)]
pub struct StatementSpec {
    /// Name of the statement in the dialects' files, and in messages.
    pub name: Cow<'static, str>,
    /// Number of parameters, in the order in which the workload pushes them.
    pub parameters: usize,
    /// Number of result columns; zero for a statement that only writes, and for a script's statement.
    pub columns: usize,
}

/// One value of a workload: a parameter of a call or a column of a loaded row.
///
/// Money is integer cents; dates are integer microseconds since 1970, or, without a time, days; everything else is an
/// integer or text. Decimals come only from users' scripts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// SQL NULL.
    Null,
    /// Any integer.
    Int(i64),
    /// A decimal number, as binary floating point.
    Real(f64),
    /// Text: ASCII in every workload but users' scripts.
    Text(&'a str),
}

impl From<u32> for Value<'_> {
    fn from(int: u32) -> Self {
        Value::Int(int.into())
    }
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Int(i64),
    Real(f64),
    Text { start: u32, end: u32 },
}

/// A list of values in one array, with all their texts in one buffer. Both keep their memory, so the list allocates
/// only until it has held its most values.
#[derive(Debug, Default)]
pub struct Cells {
    cells: Vec<Cell>,
    text: Vec<u8>,
}

impl Cells {
    /// Forgets the values, but keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.cells.clear();
        self.text.clear();
    }

    /// Returns the number of values held.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Returns true when no value is held.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Appends a value, copying its text.
    pub fn push(&mut self, value: Value<'_>) {
        let cell = match value {
            Value::Null => Cell::Null,
            Value::Int(int) => Cell::Int(int),
            Value::Real(real) => Cell::Real(real),
            Value::Text(text) => {
                let start = self.text.len() as u32;
                self.text.extend_from_slice(text.as_bytes());
                Cell::Text { start, end: self.text.len() as u32 }
            }
        };
        self.cells.push(cell);
    }

    /// Returns the value at `index`.
    ///
    /// # Panics
    /// When `index` is out of bounds: a workload asked for a column that its statement lacks.
    pub fn get(&self, index: usize) -> Value<'_> {
        match self.cells[index] {
            Cell::Null => Value::Null,
            Cell::Int(int) => Value::Int(int),
            Cell::Real(real) => Value::Real(real),
            Cell::Text { start, end } => {
                let bytes = &self.text[start as usize..end as usize];
                // Every text came as a &str and its range covers it exactly, so this cannot fail.
                Value::Text(std::str::from_utf8(bytes).unwrap_or_default())
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Call {
    statement: StatementId,
    first_param: usize,
    params: usize,
    first_cell: usize,
    rows: usize,
    affected: u64,
}

/// A list of calls that a client executes in order. After that it also has the rows that the calls returned.
#[derive(Debug, Default)]
pub struct Batch {
    calls: Vec<Call>,
    params: Cells,
    results: Cells,
}

impl Batch {
    /// Forgets calls and rows, but keeps their memory for the next ones.
    pub fn clear(&mut self) {
        self.calls.clear();
        self.params.clear();
        self.results.clear();
    }

    /// Adds a call and returns its index, by which the caller finds the call's rows after `Client::execute`.
    pub fn call(&mut self, statement: StatementId, params: &[Value<'_>]) -> usize {
        self.call_with(statement, params.iter().copied())
    }

    /// Adds a call, as [`Batch::call`] does, with parameters from an iterator.
    pub fn call_with<'v>(&mut self, statement: StatementId, values: impl Iterator<Item = Value<'v>>) -> usize {
        let first_param = self.params.len();
        values.for_each(|value| self.params.push(value));
        let params = self.params.len() - first_param;
        self.calls.push(Call { statement, first_param, params, first_cell: 0, rows: 0, affected: 0 });
        self.calls.len() - 1
    }

    /// Returns the number of calls in the batch.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true when the batch has no call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// For clients: returns the statement of a call.
    pub fn statement(&self, call: usize) -> StatementId {
        self.calls[call].statement
    }

    /// For clients: returns the number of parameters of a call.
    pub fn param_count(&self, call: usize) -> usize {
        self.calls[call].params
    }

    /// For clients: returns a parameter of a call, counted from zero.
    #[must_use]
    pub fn param(&self, call: usize, index: usize) -> Value<'_> {
        assert!(index < self.calls[call].params, "call {call} has no parameter {index}");
        self.params.get(self.calls[call].first_param + index)
    }

    /// For clients: begins the rows of `call`. Clients answer calls in order.
    pub fn begin_rows(&mut self, call: usize) {
        self.calls[call].first_cell = self.results.len();
        self.calls[call].rows = 0;
    }

    /// For clients: appends one column of the current row.
    pub fn push_column(&mut self, value: Value<'_>) {
        self.results.push(value);
    }

    /// For clients: ends the current row of `call`.
    pub fn end_row(&mut self, call: usize) {
        self.calls[call].rows += 1;
    }

    /// For clients: stores the number of rows that a write affected.
    pub fn set_affected(&mut self, call: usize, rows: u64) {
        self.calls[call].affected = rows;
    }

    /// Returns the number of rows returned by a call.
    pub fn rows(&self, call: usize) -> usize {
        self.calls[call].rows
    }

    /// Returns the number of rows written by a call.
    pub fn affected(&self, call: usize) -> u64 {
        self.calls[call].affected
    }

    /// Returns a result value; `columns` is the number of columns of that call's statement.
    #[must_use]
    pub fn value(&self, call: usize, columns: usize, row: usize, column: usize) -> Value<'_> {
        assert!(row < self.calls[call].rows && column < columns, "no row {row}, column {column} in call {call}");
        self.results.get(self.calls[call].first_cell + row * columns + column)
    }
}

/// The error of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientError {
    /// The engine chose the transaction as a deadlock's victim, or the transaction's wait for a lock timed out. The
    /// caller rolls back and tries again.
    Retry {
        /// The engine's message.
        message: String,
    },
    /// The connection or the engine is gone; the run has failed.
    Lost {
        /// The engine's message.
        message: String,
    },
    /// The engine has no space left for its files.
    DiskFull {
        /// The engine's message.
        message: String,
    },
    /// The engine refused a statement.
    Statement {
        /// Name of the statement in the workload's catalogue.
        statement: String,
        /// The engine's message.
        message: String,
    },
    /// The data is not as loaded and changed by the workload: a row that must exist is missing, or an update found no
    /// row.
    Data {
        /// The expected data and the data found.
        message: String,
    },
    /// A user's script cannot go on: a variable has no value, or the engine refused one of its statements.
    Script {
        /// The script's file and line at which it cannot go on.
        place: String,
        /// The error, or the engine's message.
        message: String,
        /// What to try.
        hint: String,
    },
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Retry { message } => write!(f, "the transaction must be retried: {message}"),
            ClientError::Lost { message } => write!(f, "the connection to the engine is lost: {message}"),
            ClientError::DiskFull { message } => write!(f, "no space is left: {message}"),
            ClientError::Statement { statement, message } => write!(f, "statement {statement} failed: {message}"),
            ClientError::Data { message } => write!(f, "the data differs from the loaded data: {message}"),
            ClientError::Script { place, message, .. } => write!(f, "{message} ({place})"),
        }
    }
}

impl std::error::Error for ClientError {}

/// A synchronous connection to an engine. Internally a client may be asynchronous, or send several calls at a time.
pub trait Client {
    /// Starts a transaction that may write. `read_only` lets an engine take a cheaper snapshot.
    ///
    /// # Errors
    /// The engine's error.
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError>;

    /// Commits the open transaction.
    ///
    /// # Errors
    /// The engine's error.
    fn commit(&mut self) -> Result<(), ClientError>;

    /// Rolls the open transaction back.
    ///
    /// # Errors
    /// The engine's error.
    fn rollback(&mut self) -> Result<(), ClientError>;

    /// Executes every call of the batch in order and stores their rows in it.
    ///
    /// # Errors
    /// The error of the first call that fails, which ends the batch.
    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError>;

    /// Returns the number of rows that all statements have returned since the client was made.
    fn rows_returned(&self) -> u64;
}

/// One planned transaction: the workload has chosen it and drawn its inputs, and not yet executed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The transaction's type, as an index into [`Workload::transaction_types`].
    pub transaction_type: usize,
    /// The terminal that submits the transaction, counted from zero among this driver's terminals.
    pub terminal: usize,
}

/// The ending of an executed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The engine committed the transaction.
    Committed,
    /// The engine rolled the transaction back because the workload asked (1 % of New-Orders), not because of an error.
    RolledBack,
}

/// The statements of a user's script, whose texts come from the script and not from dialects.
pub struct OwnSql {
    /// The name of the script's source, for messages.
    pub source: String,
    /// The statements, named by their places, and their texts.
    pub statements: Vec<(StatementSpec, String)>,
}

/// The work of one driver's thread: a stream of transactions, which it plans, with their inputs, one at a time.
pub trait Workload: Send {
    /// Returns the workload's name, which is also the name of its folder in every dialect.
    fn name(&self) -> &'static str;

    /// Returns the workload's catalogue of statements. A [`StatementId`] is a position in it.
    fn statements(&self) -> &'static [StatementSpec] {
        &[]
    }

    /// Returns the statements of a user's script. In their texts, `place(n)` is the placeholder of the n-th parameter,
    /// counted from zero. Returns none for a workload whose texts the dialects hold.
    fn own_sql(&self, _place: fn(usize) -> String) -> Option<OwnSql> {
        None
    }

    /// Returns the plan that the workload's query must take; none if the engine may choose, as in most workloads.
    fn forced_plan(&mut self) -> Option<&mut ForcedPlan> {
        None
    }

    /// Returns true if a statement may take very long. A run that stops then interrupts the statement instead of
    /// waiting for its end.
    fn has_long_statements(&self) -> bool {
        false
    }

    /// Returns the workload's own results so far, such as counts of its random choices.
    fn findings(&self) -> Findings {
        Findings::default()
    }

    /// Returns the names of the transaction types, in the order of their indices.
    fn transaction_types(&self) -> Vec<String>;

    /// Returns the number of terminals whose transactions this driver executes.
    fn terminals(&self) -> usize;

    /// Chooses the next transaction and generates its inputs.
    fn plan(&mut self) -> Planned;

    /// Begins the measured window: from here on the workload draws transactions from a separate random stream. This
    /// stream depends on the seed and not on the number of transactions before, so that runs with different warm-ups
    /// measure the same transactions. It differs from the stream of the warm-up, whose pages were just read. The state
    /// of the database and of the workload stays.
    fn begin_window(&mut self) {}

    /// Executes the planned transaction once. After [`ClientError::Retry`] the caller rolls back and calls this method
    /// again, which then uses the same inputs.
    ///
    /// # Errors
    /// The client's error, or [`ClientError::Data`].
    fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError>;

    /// Fills the pool before the warm-up: reads a bounded part of the rows that transactions will read. Returns true
    /// while there is more to read. A workload with another way to fill the pool keeps this default.
    ///
    /// # Errors
    /// The client's error, or [`ClientError::Data`].
    fn prefill_step(&mut self, _client: &mut dyn Client) -> Result<bool, ClientError> {
        Ok(false)
    }
}
