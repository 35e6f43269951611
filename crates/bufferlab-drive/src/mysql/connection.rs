//! A connection to a MySQL or MariaDB server, with the same session settings on every version. It executes statements
//! as text; the client executes prepared statements over its wire.

use super::error::{ANSWER_WITHIN, MysqlError, failure, is_timeout};
use super::line::Line;
use super::login::{Login, LoginError, Purpose, login, may_go_on_without};
use super::wire::{End, Statement, TextRows, Wire};
use crate::failure::{Failure, FailureKind};
use crate::server::patience::Patience;
use crate::server::refusal::Refusal;
use crate::server::stream::Stream;
use crate::server::target::{Place, Target};
use crate::tls::TlsClient;

/// The settings of every session, which make versions with different defaults behave alike. A value that does not fit
/// is an error (by default 5.6 truncates it), dates are UTC, reads of a transaction see one snapshot, and no answer is
/// truncated.
const SESSION: [&str; 3] = [
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
    sql_big_selects = 1",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
];

/// A connection that has logged in and can execute statements.
pub struct Conn {
    pub(super) wire: Wire,
    id: u32,
}

impl Conn {
    /// Logs in over a stream, with TLS if `tls` is given and the server has it.
    pub(super) fn start(
        stream: Stream,
        target: &Target,
        asked: &Login<'_>,
        tls: Option<TlsClient>,
    ) -> Result<Self, LoginError> {
        let (wire, id) = login(stream, target, asked, tls)?;
        Ok(Conn { wire, id })
    }

    /// Returns the connection's number at the server, as in SHOW PROCESSLIST.
    pub fn connection_id(&self) -> u32 {
        self.id
    }

    /// Executes a statement and discards its rows. Returns the numbers of affected rows and of warnings.
    ///
    /// # Errors
    /// When the connection fails, or the server refuses the statement.
    pub fn query_drop(&mut self, sql: impl AsRef<str>) -> Result<End, MysqlError> {
        self.wire.command(sql.as_ref())
    }

    /// Executes a statement that returns few rows, and returns them as text.
    ///
    /// # Errors
    /// The errors of [`Conn::query_drop`]; when the rows have more than 32 MiB.
    pub fn rows(&mut self, sql: impl AsRef<str>) -> Result<TextRows, MysqlError> {
        self.wire.rows(sql.as_ref())
    }

    /// Executes a statement, and returns the first column of its first row; none without a row, or for NULL.
    ///
    /// # Errors
    /// The errors of [`Conn::rows`].
    pub fn first(&mut self, sql: impl AsRef<str>) -> Result<Option<String>, MysqlError> {
        Ok(self.rows(sql)?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
    }

    /// Executes a statement, and returns the first column of its first row as a number; none without a row or a number.
    ///
    /// # Errors
    /// The errors of [`Conn::rows`].
    pub fn number(&mut self, sql: impl AsRef<str>) -> Result<Option<u64>, MysqlError> {
        Ok(self.first(sql)?.and_then(|text| text.parse().ok()))
    }

    /// Prepares a statement; returns its number at the server, its number of parameters, and its columns.
    ///
    /// # Errors
    /// The errors of [`Conn::query_drop`].
    pub fn prepare(&mut self, sql: &str) -> Result<Statement, MysqlError> {
        self.wire.prepare(sql)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.wire.quit();
    }
}

/// Connects to the target's database. Statements have no time limit, because they may wait for locks.
///
/// # Errors
/// When the server cannot be reached, does not finish the login within [`ANSWER_WITHIN`](super::error::ANSWER_WITHIN),
/// refuses the account or a setting of the session, or has no such database. Also when the target's security refuses
/// the server, or the process has no more descriptors.
pub fn connect(target: &Target) -> Result<Conn, Failure> {
    let conn = connect_to_ask(target)?;
    unbound(conn, target)
}

/// Connects to the target's database for statements that load a "file" which this client sends.
///
/// # Errors
/// The errors of [`connect`].
pub(super) fn connect_to_load(target: &Target) -> Result<Conn, Failure> {
    unbound(open(target, Some(&target.database), Purpose::Load)?, target)
}

/// Connects for statements that do not wait for locks. Each answer must come within
/// [`ANSWER_WITHIN`](super::error::ANSWER_WITHIN).
///
/// # Errors
/// The errors of [`connect`].
pub fn connect_to_ask(target: &Target) -> Result<Conn, Failure> {
    open(target, Some(&target.database), Purpose::Work)
}

/// Connects to the target's server without a database, for example before a load creates the database.
///
/// # Errors
/// The errors of [`connect`].
pub fn connect_to_server(target: &Target) -> Result<Conn, Failure> {
    unbound(open(target, None, Purpose::Work)?, target)
}

/// Removes the time limit of the server's answers, because the connection's statements may wait for locks.
pub(super) fn unbound(conn: Conn, target: &Target) -> Result<Conn, Failure> {
    let unlimited = Line::of(&conn).and_then(|line| line.answer_within(None));
    unlimited.map_err(|error| no_socket(&error, &target.place()))?;
    Ok(conn)
}

/// Returns the failure for a process that has no file descriptor left for a connection's socket.
pub(super) fn no_socket(error: &std::io::Error, place: &str) -> Failure {
    let what = format!("holding the connection's socket: {error}");
    Failure::new(FailureKind::Environment, what, place, "raise the limit of open files (ulimit -n)")
}

fn open(target: &Target, database: Option<&str>, purpose: Purpose) -> Result<Conn, Failure> {
    let place = target.place();
    let patience = Patience::of(ANSWER_WITHIN);
    let asked = Login { database, purpose, name: "bufferlab", patience, limit_bytes: usize::MAX };
    let mut conn = logged_in(target, &asked).map_err(|error| match error {
        LoginError::Tls(error) => failure("connecting to the server", &place, &MysqlError::Refused(error.refusal())),
        LoginError::Other(MysqlError::Io(error)) if !is_timeout(&error) => {
            let what = format!("connecting to the server: {error}");
            Failure::new(FailureKind::Environment, what, &place, "is it running, and is this its socket or address?")
        }
        LoginError::Other(error) => failure("connecting to the server", &place, &error),
    })?;
    for sql in SESSION {
        conn.rows(sql).map_err(|error| failure("setting up the session", &place, &error))?;
    }
    Ok(conn)
}

/// Logs in, with TLS if the target's mode asks for it. If the mode only prefers TLS and the handshake fails, logs in
/// without.
pub(super) fn logged_in(target: &Target, asked: &Login<'_>) -> Result<Conn, LoginError> {
    let tls = tls_client(target).map_err(MysqlError::Refused)?;
    let started = start(target, asked, tls);
    if started.as_ref().is_err_and(|error| may_go_on_without(target.security.as_ref(), error)) {
        return start(target, asked, None);
    }
    started
}

/// Returns the client for TLS, if the target is a TCP address and its mode asks for TLS.
fn tls_client(target: &Target) -> Result<Option<TlsClient>, Refusal> {
    match (&target.place, &target.security) {
        (Place::Tcp { host, .. }, Some(security)) => TlsClient::of(security, host),
        // A connection through a Unix socket has no TLS, whichever mode is asked for, as with libpq.
        _ => Ok(None),
    }
}

fn start(target: &Target, asked: &Login<'_>, tls: Option<TlsClient>) -> Result<Conn, LoginError> {
    let stream = Stream::connect(&target.place).map_err(MysqlError::from)?;
    Conn::start(stream, target, asked, tls)
}
