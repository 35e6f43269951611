//! The client trait over one connection: prepared statements, values in the binary format.
//!
//! With the setting `spec` one call is one round trip. With `batched` the client writes a whole batch at once with one
//! Sync at its end, and sends a transaction's BEGIN with the first batch. In both cases the server executes the same
//! statements in the same order. The client keeps its buffers, so a transaction allocates no memory once they have
//! grown.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bufferlab_workload::client::{Batch, Client, ClientError, Value, Workload};
use postgres_protocol::message::frontend;

use super::connection::{Connection, bind_and_execute};
use super::dialect::DIALECT;
use super::error::{PgError, client_error, failure};
use super::interrupt::Handle;
use super::plan::session_sql;
use super::statement::{Prepared, answer, bind_call, prepare, push_row};
use crate::dialect::{RowUse, Statements};
use crate::failure::Failure;
use crate::server::Sending;

/// The client writes a batch in pieces of about this size. The buffers of the sockets hold a piece, so neither client
/// nor server waits for the other to read.
const PIECE_BYTES: usize = 48 * 1024;
/// Time between two flushes of a connection's counters while the warm-up gate polls them.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// The client's own statements, each with name and text. Flushing counters is a separate transaction, which the server
/// counts as a commit.
const BEGIN: (&str, &str) = ("begin", "BEGIN");
/// A read-only transaction sees the data of one moment. The server never makes it wait for locks or asks to repeat it.
const BEGIN_READ_ONLY: (&str, &str) = ("begin_read_only", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
const COMMIT: (&str, &str) = ("commit", "COMMIT");
const ROLLBACK: (&str, &str) = ("rollback", "ROLLBACK");
const TELL: (&str, &str) = ("tell", TELL_SQL);
/// Makes a connection flush its counters when the statement ends. The server flushes no counter, not even that of
/// commits, unless the session has scanned a table. So the statement scans pg_seclabel, which is empty in every
/// database, so that the scan reads no page.
pub(super) const TELL_SQL: &str = "SELECT pg_stat_force_next_flush(), EXISTS (SELECT FROM pg_seclabel)";

/// A client with all statements of one workload prepared.
pub struct PostgresClient {
    connection: Connection,
    statements: Vec<Prepared>,
    rows: RowUse,
    sending: Sending,
    /// The statement that begins the open transaction, if the client has not sent it to the server yet.
    to_begin: Option<&'static str>,
    /// The moment of the last flush of counters; none unless the client flushes them often.
    told: Option<Instant>,
    /// The number of transactions of all clients that bufferlab executes for itself, outside of the workload.
    own_commits: Arc<AtomicU64>,
    rows_returned: u64,
    round_trips: u64,
}

impl PostgresClient {
    /// Makes a client with a workload's statements, sent as `sending` says. It adds bufferlab's own commits to
    /// `own_commits`.
    ///
    /// # Errors
    /// The errors of [`PostgresClient::new`]; when a file of the dialect is missing or does not match the workload, or
    /// the server refuses a setting of the session.
    pub fn of_workload(
        mut connection: Connection,
        workload: &mut dyn Workload,
        sending: Sending,
        own_commits: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        let statements = DIALECT.statements(workload)?;
        if statements.rows == RowUse::Kept {
            let set = connection.execute(session_sql(workload));
            set.map_err(|error| failure("preparing the session", &statements.place, &error))?;
        }
        PostgresClient::new(connection, &statements, sending, own_commits)
    }

    /// Makes a client, and prepares the statements of `list` and the client's own.
    ///
    /// # Errors
    /// When a statement does not compile, or its numbers of parameters and columns differ from the catalogue's.
    pub fn new(
        mut connection: Connection,
        list: &Statements,
        sending: Sending,
        own_commits: Arc<AtomicU64>,
    ) -> Result<Self, Failure> {
        for (name, sql) in [BEGIN, BEGIN_READ_ONLY, COMMIT, ROLLBACK, TELL] {
            let prepared = connection.prepare(name, sql);
            prepared.map_err(|error| failure(&format!("preparing {sql}"), &list.place, &error))?;
        }
        let mut statements = Vec::with_capacity(list.specs.len());
        for (at, text) in list.texts.iter().enumerate() {
            statements.push(prepare(&mut connection, list, at, text.trim_end().trim_end_matches(';'))?);
        }
        Ok(PostgresClient {
            connection,
            statements,
            rows: list.rows,
            sending,
            to_begin: None,
            told: None,
            own_commits,
            rows_returned: 0,
            round_trips: 0,
        })
    }

    /// Returns the handle that interrupts the connection.
    ///
    /// # Errors
    /// The system's error.
    pub fn handle(&self) -> Result<Handle, PgError> {
        self.connection.handle()
    }

    /// Returns the number of requests sent and answered since the client was made, without those that prepare
    /// statements.
    pub fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Makes the client flush this connection's counters every 0.2 s from now on, until the next call of
    /// [`PostgresClient::tell_counters`]. By itself the server flushes them at most once a second.
    pub fn tell_counters_often(&mut self) {
        self.told = Some(Instant::now());
    }

    /// Makes the server flush this connection's counters, in a separate transaction.
    ///
    /// # Errors
    /// The server's error.
    pub fn tell_counters(&mut self) -> Result<(), ClientError> {
        self.told = None;
        self.tell()
    }

    fn tell(&mut self) -> Result<(), ClientError> {
        self.command(TELL.0)?;
        self.own_commits.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Flushes counters between two transactions, if the client flushes them often and the last flush was at least 0.2
    /// s ago.
    fn tell_if_due(&mut self) -> Result<(), ClientError> {
        if self.told.is_some_and(|told| told.elapsed() >= TELL_EVERY) && self.connection.transaction() == b'I' {
            self.tell()?;
            self.told = Some(Instant::now());
        }
        Ok(())
    }

    /// Executes one of the client's own statements in a separate round trip.
    fn command(&mut self, name: &'static str) -> Result<(), ClientError> {
        self.exchange(None, &[name]).map_err(|error| client_error(name, &error))
    }

    /// Makes one round trip: sends the client's own statements, then calls of a batch, and reads all answers.
    fn exchange(&mut self, calls: Option<(&mut Batch, Range<usize>)>, own: &[&'static str]) -> Result<(), PgError> {
        self.connection.wire.out.clear();
        for name in own {
            bind_and_execute(name, &mut self.connection.wire.out)?;
        }
        if let Some((batch, calls)) = &calls {
            for call in calls.clone() {
                let statement = &self.statements[usize::from(batch.statement(call).0)];
                if let Err(error) = bind_call(statement, batch, call, self.rows, &mut self.connection.wire.out) {
                    // Send no part of the exchange.
                    self.connection.wire.out.clear();
                    return Err(error);
                }
            }
        }
        self.send_and_answer(calls, own)
    }

    fn send_and_answer(&mut self, calls: Option<(&mut Batch, Range<usize>)>, own: &[&str]) -> Result<(), PgError> {
        frontend::sync(&mut self.connection.wire.out);
        self.round_trips += 1;
        self.connection.wire.flush()?;
        match self.answers(calls, own) {
            Ok(()) => self.connection.expect(b'Z'),
            Err(error) => Err(self.connection.recover(error)),
        }
    }

    fn answers(&mut self, calls: Option<(&mut Batch, Range<usize>)>, own: &[&str]) -> Result<(), PgError> {
        for name in own {
            answer(&mut self.connection, &mut |_| Ok(()))?;
            // Check the tag: COMMIT rolls a failed transaction back, and reports no error.
            if *name == COMMIT.0 && self.connection.wire.body() != b"COMMIT\0" {
                return Err(PgError::Value(
                    "the server rolled the transaction back instead of committing it".to_owned(),
                ));
            }
        }
        let Some((batch, calls)) = calls else { return Ok(()) };
        for call in calls {
            let statement = &self.statements[usize::from(batch.statement(call).0)];
            let kept = self.rows == RowUse::Kept;
            let mut rows = 0;
            batch.begin_rows(call);
            let affected = answer(&mut self.connection, &mut |body| {
                if kept {
                    push_row(body, &statement.described.columns, batch)?;
                }
                batch.end_row(call);
                rows += 1;
                Ok(())
            })?;
            self.rows_returned += rows;
            batch.set_affected(call, affected);
        }
        Ok(())
    }

    /// Executes some calls in one round trip. The round trip also begins the transaction if it has not begun at the
    /// server.
    fn execute_piece(&mut self, batch: &mut Batch, calls: Range<usize>) -> Result<(), ClientError> {
        let first = usize::from(batch.statement(calls.start).0);
        let begin = self.to_begin.take();
        let done = self.exchange(Some((&mut *batch, calls.clone())), begin.as_slice());
        done.map_err(|error| {
            // If several calls were sent together, the message names all their statements, because any of them may have
            // failed.
            let name = if calls.len() == 1 { self.statements[first].name.clone() } else { self.names(batch, calls) };
            client_error(&name, &error)
        })
    }

    /// Returns the statements of some calls, each once, for a message.
    #[cold]
    fn names(&self, batch: &Batch, calls: Range<usize>) -> String {
        let mut names: Vec<&str> =
            calls.map(|call| self.statements[usize::from(batch.statement(call).0)].name.as_str()).collect();
        names.dedup();
        names.join(", ")
    }

    /// Returns the calls from `first` on that the client sends together.
    fn piece(&self, batch: &Batch, first: usize) -> Range<usize> {
        if self.sending == Sending::Spec {
            return first..first + 1;
        }
        let (mut end, mut bytes) = (first, 0);
        while end < batch.len() && (end == first || bytes < PIECE_BYTES) {
            let texts = (0..batch.param_count(end)).map(|index| match batch.param(end, index) {
                Value::Text(text) => text.len(),
                _ => 16,
            });
            bytes += 64 + texts.sum::<usize>();
            end += 1;
        }
        first..end
    }
}

impl Client for PostgresClient {
    fn begin(&mut self, read_only: bool) -> Result<(), ClientError> {
        let begin = if read_only { BEGIN_READ_ONLY.0 } else { BEGIN.0 };
        match self.sending {
            Sending::Spec => self.command(begin),
            Sending::Batched => {
                self.to_begin = Some(begin);
                Ok(())
            }
        }
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        match self.to_begin.take() {
            // Also begin and commit a transaction that has executed no statement.
            Some(begin) => self.exchange(None, &[begin, COMMIT.0]).map_err(|error| client_error(COMMIT.0, &error))?,
            None => self.command(COMMIT.0)?,
        }
        self.tell_if_due()
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        let begun = self.to_begin.take().is_none() && self.connection.transaction() != b'I';
        if begun { self.command(ROLLBACK.0) } else { Ok(()) }
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        let mut call = 0;
        while call < batch.len() {
            let piece = self.piece(batch, call);
            call = piece.end;
            self.execute_piece(batch, piece)?;
        }
        self.tell_if_due()
    }

    fn rows_returned(&self) -> u64 {
        self.rows_returned
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
