//! A control session of Python at a PostgreSQL server. It sends single statements, receives values as text, and limits
//! the time and the size of each whole answer.

use std::collections::HashMap;
use std::os::fd::RawFd;

use postgres_protocol::message::frontend;

use super::connection::{Connection, bind_and_execute, unexpected};
use super::error::PgError;
use super::message::{Body, Malformed};
use super::startup::logged_in;
use super::wire::{Silence, Wire};
use crate::server::patience::{Patience, is_a_step, was_ended};
use crate::server::python_session::{CLOSED, CLOSED_IN_LOGIN, Kind, Limits, Table, Unanswered, is_out_of_reach};
use crate::server::target::Target;

/// A session of Python's at a server, for single statements outside of a workload.
pub struct Questions {
    connection: Connection,
    limits: Limits,
    may_go_on: fn() -> bool,
    /// The statements executed so far, each with the name under which it is prepared, if it is.
    asked: HashMap<Vec<u8>, Option<String>>,
    /// The number of names used so far. The session never uses a name again, even if the statement with that name
    /// failed.
    named: usize,
}

impl Questions {
    /// Logs in to the target's database. The session calls `may_go_on` a few times a second, and ends when it returns
    /// false.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub fn open(target: &Target, limits: Limits, may_go_on: fn() -> bool) -> Result<Self, Unanswered> {
        let patience = Patience::new(Some(limits.login()), may_go_on);
        let own = [("application_name", limits.name.as_str()), ("client_encoding", "UTF8")];
        let settings = limits.startup.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let settings: Vec<(&str, &str)> = own.into_iter().chain(settings).collect();
        let start = |transport| {
            let mut wire = Wire::new(transport, Silence::Fatal, limits.login())?;
            wire.set_patience(patience);
            Connection::start(wire, target, &target.database, &settings)
        };
        let mut connection = logged_in(target, patience, &start).map_err(|error| match error {
            PgError::Io(error) if is_out_of_reach(&error) => Unanswered::Lost(format!("it cannot be reached: {error}")),
            error => unanswered(error, CLOSED_IN_LOGIN, || limits.late_login()),
        })?;
        connection.wire.set_limit(limits.most_answer_bytes);
        Ok(Questions { connection, limits, may_go_on, asked: HashMap::new(), named: 0 })
    }

    /// Executes a statement; returns its rows. `change_s` is the limit in seconds for a statement that changes
    /// something, and so may wait for other sessions' locks. After any error but [`Unanswered::Server`] the session has
    /// ended.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub fn ask(&mut self, sql: &[u8], change_s: Option<f64>) -> Result<Table, Unanswered> {
        self.connection.wire.set_patience(Patience::new(self.limits.statement(change_s), self.may_go_on));
        self.table(sql).map_err(|error| match error {
            PgError::Server(said) if said.severity != "ERROR" => Unanswered::Lost(said.message),
            error => unanswered(error, CLOSED, || self.limits.late(change_s)),
        })
    }

    fn table(&mut self, sql: &[u8]) -> Result<Table, PgError> {
        let name = self.name(sql)?;
        let out = &mut self.connection.wire.out;
        frontend::describe(b'S', &name, out)?;
        bind_and_execute(&name, out)?;
        frontend::sync(out);
        self.connection.wire.flush()?;
        self.rows().map_err(|error| {
            self.asked.remove(sql);
            self.connection.recover(error)
        })
    }

    /// Asks the server to prepare the statement, unless it is prepared; returns the name of the prepared statement.
    ///
    /// A statement gets a name only when it is executed a second time. So a statement that is executed once leaves
    /// nothing in the server's session, which a pooler may give to other clients.
    fn name(&mut self, sql: &[u8]) -> Result<String, PgError> {
        let text = std::str::from_utf8(sql).map_err(|_| PgError::Value("a statement is no UTF-8".to_owned()))?;
        let name = match self.asked.get(sql) {
            Some(Some(name)) => return Ok(name.clone()),
            Some(None) => {
                self.named += 1;
                format!("question_{}", self.named)
            }
            None => String::new(),
        };
        frontend::parse(&name, text, [], &mut self.connection.wire.out)?;
        if self.limits.prepares {
            self.asked.insert(sql.to_vec(), (!name.is_empty()).then(|| name.clone()));
        }
        Ok(name)
    }

    fn rows(&mut self) -> Result<Table, PgError> {
        let (connection, most_bytes) = (&mut self.connection, self.limits.most_answer_bytes);
        let mut table = Table::default();
        loop {
            match connection.wire.read()? {
                b'T' => describe(connection.wire.body(), &mut table)?,
                b'D' => {
                    if !table.push_row(values(connection.wire.body()))? {
                        return Err(Malformed("a row of another number of columns".into()).into());
                    }
                }
                b'Z' => {
                    connection.ready()?;
                    return Ok(table);
                }
                b'G' => connection.refuse_copy()?,
                // Ignore ends of steps, descriptions of parameters, and data of COPY TO STDOUT.
                b'1' | b'2' | b't' | b'n' | b'C' | b'I' | b'H' | b'd' | b'c' => {}
                b'E' => return Err(connection.said()),
                tag => return Err(unexpected(tag)),
            }
            if table.bytes() > most_bytes {
                return Err(Malformed(format!("it is longer than {most_bytes} bytes").into()).into());
            }
        }
    }

    /// Sets the most bytes that each later answer may have.
    pub fn allow_bytes(&mut self, most_answer_bytes: usize) {
        self.limits.most_answer_bytes = most_answer_bytes;
        self.connection.wire.set_limit(most_answer_bytes);
    }

    /// Returns the number of the server's process for the session.
    pub fn id(&self) -> i32 {
        self.connection.process_id
    }

    /// Returns the descriptor of the socket.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.connection.wire.descriptor()
    }
}

fn describe(body: &[u8], table: &mut Table) -> Result<(), Malformed> {
    let mut body = Body(body);
    for _ in 0..body.count()? {
        let name = body.text()?;
        // Skip the table and the column from which it comes.
        body.take(6)?;
        let kind = kind_of(body.oid()?);
        // Skip its size, its modifier and its format.
        body.take(8)?;
        table.push_column(name.as_bytes(), kind);
    }
    Ok(())
}

/// Returns the type of values for a type's number (PostgreSQL's pg_type.dat).
fn kind_of(oid: u32) -> Kind {
    match oid {
        16 => Kind::Boolean,
        20 | 21 | 23 | 26 => Kind::Integer,
        700 | 701 => Kind::Float,
        1700 => Kind::Decimal,
        _ => Kind::Text,
    }
}

/// Returns the values of a row; a value is none for NULL. A row whose count cannot be read gives one error.
fn values(row: &[u8]) -> impl Iterator<Item = Result<Option<&[u8]>, Malformed>> {
    let mut body = Body(row);
    let count = body.count();
    let broken = count.as_ref().err().cloned().map(Err);
    broken.into_iter().chain((0..count.unwrap_or(0)).map(move |_| body.value()))
}

fn unanswered(error: PgError, closed: &str, late: impl FnOnce() -> String) -> Unanswered {
    match error {
        PgError::Server(error) if error.detail.is_empty() => {
            Unanswered::Server { code: error.code, message: error.message }
        }
        PgError::Server(error) => {
            Unanswered::Server { message: format!("{}: {}", error.message, error.detail), code: error.code }
        }
        PgError::Refused(refusal) => Unanswered::Refused(refusal),
        PgError::Closed => Unanswered::Lost(closed.to_owned()),
        PgError::Io(error) if was_ended(&error) => Unanswered::Ended,
        PgError::Io(error) if is_a_step(&error) => Unanswered::Lost(late()),
        PgError::Silent(_) => Unanswered::Lost(late()),
        error => Unanswered::Lost(error.to_string()),
    }
}
