//! A control connection: it reads counters, executes statements outside of transactions, and interrupts statements.

use std::sync::{Arc, Mutex};

use bufferlab_workload::client::Value;

use super::connection::{Conn, connect_to_ask, connect_to_server, no_socket};
use super::error::{ANSWER_WITHIN, MysqlError, failure};
use super::line::{Line, Lines};
use super::version::Version;
use crate::failure::{Failure, FailureKind};
use crate::lock;
use crate::server::target::Target;

/// A connection outside of the measured transactions. The server must answer on it within [`ANSWER_WITHIN`], unless a
/// method's documentation says otherwise.
pub struct Control {
    conn: Conn,
    line: Line,
    /// The connections of the run. They end together when one of them finds that the server does not answer.
    lines: Arc<Lines>,
    place: String,
}

impl Control {
    /// Connects to the target's database.
    ///
    /// # Errors
    /// The errors of [`connect_to_ask`]; when the process has no more descriptors.
    pub fn open(target: &Target) -> Result<Self, Failure> {
        Control::open_among(target, &Arc::default())
    }

    /// Connects to the target's database, as one of a run's connections, which `lines` ends together.
    ///
    /// # Errors
    /// The errors of [`connect_to_ask`]; when the process has no more descriptors.
    pub fn open_among(target: &Target, lines: &Arc<Lines>) -> Result<Self, Failure> {
        let (conn, place) = (connect_to_ask(target)?, target.place());
        let line = lines.hold_of(&conn).map_err(|error| no_socket(&error, &place))?;
        Ok(Control { conn, line, lines: Arc::clone(lines), place })
    }

    /// Removes the time limit of statements: from now on they may read whole tables, or wait for locks.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn be_patient(&mut self) -> Result<(), Failure> {
        self.line.answer_within(None).map_err(|error| no_socket(&error, &self.place))
    }

    /// Returns the connection's number at the server, as in SHOW PROCESSLIST.
    pub fn id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Returns the server's version, parsed from its own words.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn version(&mut self) -> Result<Version, Failure> {
        let text = self.answered("asking for the version", |conn| conn.first("SELECT VERSION()"))?;
        Ok(Version::parse(&text.unwrap_or_default()))
    }

    /// Executes a statement and discards its rows.
    ///
    /// # Errors
    /// The server's error.
    pub fn execute(&mut self, action: &str, sql: &str) -> Result<(), Failure> {
        self.answered(action, |conn| conn.query_drop(sql).map(drop))
    }

    /// Executes a statement of a script, with parameters, however long it takes.
    ///
    /// # Errors
    /// The server's error, unchanged; when the statement has another number of parameters than `params`.
    pub fn execute_with(&mut self, sql: &str, params: &[Value<'_>]) -> Result<(), MysqlError> {
        self.line.answer_within(None)?;
        let done = if params.is_empty() { self.conn.query_drop(sql).map(drop) } else { self.execute_once(sql, params) };
        self.line.answer_within(Some(ANSWER_WITHIN))?;
        done
    }

    fn execute_once(&mut self, sql: &str, params: &[Value<'_>]) -> Result<(), MysqlError> {
        let statement = self.conn.prepare(sql)?;
        if statement.parameters != params.len() {
            let what = format!("the statement has {} parameters, {} given", statement.parameters, params.len());
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, what).into());
        }
        self.conn.wire.execute(statement.id, params.iter().copied())?;
        self.conn.wire.skip()?;
        self.conn.wire.close(statement.id)
    }

    /// Returns names and values: the first two columns of a query's rows, without rows that have NULL there.
    ///
    /// # Errors
    /// The server's error.
    pub fn pairs(&mut self, action: &str, sql: &str) -> Result<Vec<(String, String)>, Failure> {
        let rows = self.answered(action, |conn| conn.rows(sql))?;
        let pair = |row: Vec<Option<String>>| {
            let mut values = row.into_iter();
            Some((values.next()??, values.next()??))
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    }

    /// Returns the server's plan for a statement, as JSON.
    ///
    /// # Errors
    /// The server's error.
    pub fn explain(&mut self, sql: &str) -> Result<String, Failure> {
        let explain = format!("EXPLAIN FORMAT=JSON {sql}");
        let text = self.answered("explaining a statement", |conn| conn.first(explain))?;
        Ok(text.unwrap_or_default())
    }

    /// Returns the text of InnoDB's monitor; none if the server refuses it, for example to an account without the
    /// privilege. Most of its numbers are also among the counters. Reading the text restarts the averages in it.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn innodb_status(&mut self) -> Result<Option<String>, Failure> {
        let rows = match self.answered("reading InnoDB's status", |conn| conn.rows("SHOW ENGINE INNODB STATUS")) {
            Err(failure) if failure.kind != FailureKind::Io => return Ok(None),
            rows => rows?,
        };
        // The columns of the statement's row are type, name and text.
        Ok(Some(rows.into_iter().next().and_then(|row| row.into_iter().nth(2).flatten()).unwrap_or_default()))
    }

    fn answered<T>(
        &mut self,
        action: &str,
        ask: impl FnOnce(&mut Conn) -> Result<T, MysqlError>,
    ) -> Result<T, Failure> {
        let answer = ask(&mut self.conn).map_err(|error| failure(action, &self.place, &error));
        answer.inspect_err(|failure| self.lines.met(failure))
    }
}

/// An interrupter of the running statements of some connections. It uses a new connection each time.
pub struct Killer {
    target: Target,
    ids: Mutex<Vec<u32>>,
}

impl Killer {
    /// Makes a killer that interrupts no connection yet.
    pub fn new(target: &Target) -> Self {
        Killer { target: target.clone(), ids: Mutex::default() }
    }

    /// Sets the connections that the killer interrupts, by their numbers at the server.
    pub fn set(&self, ids: Vec<u32>) {
        *lock(&self.ids) = ids;
    }

    /// Interrupts the running statements of the killer's connections. Ignores a connection that executes no statement
    /// or has ended. Does nothing when the server does not answer, because its connections then end by themselves.
    pub fn kill(&self) {
        let ids = lock(&self.ids).clone();
        let Ok(mut conn) = connect_to_server(&self.target) else { return };
        for id in ids {
            let _ = conn.query_drop(format!("KILL QUERY {id}"));
        }
    }
}
