//! An open connection: executes statements as text, and has the wire for prepared statements.

use super::error::MysqlError;
use super::login::{Login, LoginError, login};
use super::stream::Stream;
use super::wire::{End, Statement, TextRows, Wire};
use crate::server::target::Target;
use crate::tls::TlsClient;

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
    /// The errors of [`Conn::query_drop`].
    pub fn rows(&mut self, sql: impl AsRef<str>) -> Result<TextRows, MysqlError> {
        self.wire.rows(sql.as_ref())
    }

    /// Executes a statement, and returns the first column of its first row; none without a row, or for NULL.
    ///
    /// # Errors
    /// The errors of [`Conn::query_drop`].
    pub fn first(&mut self, sql: impl AsRef<str>) -> Result<Option<String>, MysqlError> {
        Ok(self.rows(sql)?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
    }

    /// Executes a statement, and returns the first column of its first row as a number; none without a row or a number.
    ///
    /// # Errors
    /// The errors of [`Conn::query_drop`].
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
