//! A control session of Python at a MySQL or MariaDB server. It sends single statements as text, and limits the time
//! and the size of each whole answer.

use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use super::connection::{Conn, logged_in};
use super::error::{MysqlError, is_timeout};
use super::login::{Login, LoginError, Purpose};
use crate::server::patience::{Patience, was_ended};
use crate::server::python_session::{CLOSED, CLOSED_IN_LOGIN, Limits, Table, Unanswered, is_out_of_reach};
use crate::server::target::Target;
use crate::tls::TlsError;

/// The errors after which a server ends the session: `ER_SERVER_SHUTDOWN`, `ER_CONNECTION_KILLED`,
/// `ER_CLIENT_INTERACTION_TIMEOUT`.
const ENDS: [u16; 3] = [1053, 1927, 4031];

/// A session of Python's at a server, for single statements outside of a workload.
pub struct Questions {
    conn: Conn,
    limits: Limits,
    may_go_on: fn() -> bool,
}

impl Questions {
    /// Logs in, to the target's database unless its name is empty. The session calls `may_go_on` a few times a second,
    /// and ends when it returns false.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub fn open(target: &Target, limits: Limits, may_go_on: fn() -> bool) -> Result<Self, Unanswered> {
        let asked = Login {
            database: Some(&target.database),
            purpose: Purpose::Ask,
            name: &limits.name,
            patience: Patience::new(Some(limits.login()), may_go_on),
            limit_bytes: limits.most_answer_bytes,
        };
        let conn = logged_in(target, &asked).map_err(|error| match error {
            LoginError::Tls(TlsError::Refused(refusal)) => Unanswered::Refused(refusal),
            LoginError::Tls(TlsError::Silent(_)) => Unanswered::Lost(limits.late_login()),
            LoginError::Tls(TlsError::Ended) => Unanswered::Ended,
            LoginError::Other(MysqlError::Io(error)) if is_out_of_reach(&error) => {
                Unanswered::Lost(format!("it cannot be reached: {error}"))
            }
            LoginError::Other(error) => unanswered(error, CLOSED_IN_LOGIN, || limits.late_login()),
        })?;
        Ok(Questions { conn, limits, may_go_on })
    }

    /// Executes a statement; returns its rows. `change_s` is the limit in seconds for a statement that changes
    /// something, and so may wait for other sessions' locks. After any error but [`Unanswered::Server`] the session has
    /// ended.
    ///
    /// # Errors
    /// See [`Unanswered`].
    pub fn ask(&mut self, sql: &[u8], change_s: Option<f64>) -> Result<Table, Unanswered> {
        let patience = Patience::new(self.limits.statement(change_s), self.may_go_on);
        self.conn.wire.table(sql, patience, self.limits.most_answer_bytes).map_err(|error| match error {
            MysqlError::Server(said) if ENDS.contains(&said.code) => Unanswered::Lost(said.message),
            error => unanswered(error, CLOSED, || self.limits.late(change_s)),
        })
    }

    /// Sets the most bytes that each later answer may have.
    pub fn allow_bytes(&mut self, most_answer_bytes: usize) {
        self.limits.most_answer_bytes = most_answer_bytes;
        self.conn.wire.logged_in(most_answer_bytes);
    }

    /// Returns the session's number at the server, as in SHOW PROCESSLIST.
    pub fn id(&self) -> u32 {
        self.conn.connection_id()
    }

    /// Returns the descriptor of the socket.
    pub fn descriptor(&self) -> RawFd {
        self.conn.wire.stream().as_fd().as_raw_fd()
    }
}

fn unanswered(error: MysqlError, closed: &str, late: impl FnOnce() -> String) -> Unanswered {
    match error {
        MysqlError::Server(error) => Unanswered::Server { code: error.code.to_string(), message: error.message },
        MysqlError::Refused(refusal) => Unanswered::Refused(refusal),
        MysqlError::Io(error) if was_ended(&error) => Unanswered::Ended,
        MysqlError::Io(error) if is_timeout(&error) => Unanswered::Lost(late()),
        MysqlError::Io(error) if error.kind() == ErrorKind::UnexpectedEof => Unanswered::Lost(closed.to_owned()),
        MysqlError::Io(error) => Unanswered::Lost(error.to_string()),
    }
}
