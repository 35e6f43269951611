//! Types for Python's control sessions at servers, whose statements are not part of a workload: a session's limits, the
//! answers as the server sent them, and the reasons for a missing answer.

use std::io::{self, ErrorKind};
use std::time::Duration;

use serde::Deserialize;

use super::patience::is_a_step;
use super::refusal::Refusal;

/// Bytes that are added to an answer's size for each row, and (`VALUE_BYTES`) for each value: the memory of the Python
/// objects made of them.
const ROW_BYTES: usize = 128;
const VALUE_BYTES: usize = 64;

/// The limits of a control session.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The time limit of the whole login, in seconds.
    pub login_s: f64,
    /// The time limit of a statement with its whole answer, in seconds; none for no limit.
    pub statement_s: Option<f64>,
    /// The most bytes of an answer, counted as [`Table::bytes`] does.
    pub most_answer_bytes: usize,
    /// The name that the server shows for the session.
    pub name: String,
    /// Parameters of PostgreSQL's startup message besides the account, the database and the name.
    #[serde(default)]
    pub startup: Vec<(String, String)>,
    /// Whether the session prepares each statement, so that PostgreSQL plans it once, however often it is executed.
    #[serde(default)]
    pub prepares: bool,
}

impl Limits {
    /// Returns the time limit of the whole login.
    pub fn login(&self) -> Duration {
        Duration::try_from_secs_f64(self.login_s).unwrap_or_default()
    }

    /// Returns the time limit of a statement with its whole answer, none for no limit; `change_s`, if given, replaces
    /// the session's limit.
    pub fn statement(&self, change_s: Option<f64>) -> Option<Duration> {
        change_s.or(self.statement_s).map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    /// Returns the message for a login that did not end within [`Limits::login_s`].
    pub fn late_login(&self) -> String {
        format!("it did not finish the login within {:.0} s", self.login_s)
    }

    /// Returns the message for an answer that did not come within `change_s`, if given, or else the session's limit.
    pub fn late(&self, change_s: Option<f64>) -> String {
        format!("it did not answer within {:.0} s", change_s.or(self.statement_s).unwrap_or_default())
    }
}

/// The message for a connection that ends during a login.
pub const CLOSED_IN_LOGIN: &str = "it closed the connection during the login";
/// The message for a connection that ends after its login.
pub const CLOSED: &str = "it closed the connection";

/// Returns true if the server could not be reached. Other errors are a wrong answer, an ended connection, or a wait
/// that was too long.
pub fn is_out_of_reach(error: &io::Error) -> bool {
    let said = [ErrorKind::InvalidData, ErrorKind::InvalidInput, ErrorKind::Other];
    let ended = [ErrorKind::UnexpectedEof, ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
    !is_a_step(error) && !said.contains(&error.kind()) && !ended.contains(&error.kind())
}

/// The type of a column's values, which come as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A text.
    Text,
    /// Bytes that are not text.
    Bytes,
    /// A whole number.
    Integer,
    /// A binary floating-point number.
    Float,
    /// An exact decimal number.
    Decimal,
    /// A truth value, which comes as `t` or `f`.
    Boolean,
}

/// The rows of an answer, in one buffer, because there may be millions.
#[derive(Debug, Default)]
pub struct Table {
    /// The name of each column and the type of its values.
    pub columns: Vec<(String, Kind)>,
    /// For each value its length in four bytes, then its bytes. A NULL has [`NULL`] in place of its length, and no
    /// bytes.
    values: Vec<u8>,
    count: usize,
    name_bytes: usize,
}

/// The number that represents a NULL in place of a value's length.
const NULL: u32 = u32::MAX;

impl Table {
    /// Adds a column.
    pub fn push_column(&mut self, name: &[u8], kind: Kind) {
        self.name_bytes += name.len() + VALUE_BYTES;
        self.columns.push((String::from_utf8_lossy(name).into_owned(), kind));
    }

    /// Adds a row. Returns false when the row has more or fewer values than there are columns; the table cannot be used
    /// then.
    ///
    /// # Errors
    /// The first error among the row's values.
    pub fn push_row<'a, E>(&mut self, row: impl Iterator<Item = Result<Option<&'a [u8]>, E>>) -> Result<bool, E> {
        let before = self.count;
        for value in row {
            let value = value?;
            self.values.extend_from_slice(&value.map_or(NULL, |value| value.len() as u32).to_le_bytes());
            self.values.extend_from_slice(value.unwrap_or_default());
            self.count += 1;
        }
        Ok(self.count - before == self.columns.len())
    }

    /// Returns the values, row by row.
    pub fn values(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let mut rest = &self.values[..];
        std::iter::from_fn(move || {
            let (length, behind) = rest.split_first_chunk()?;
            let length = u32::from_le_bytes(*length);
            let (value, behind) = behind.split_at(if length == NULL { 0 } else { length as usize });
            rest = behind;
            Some((length != NULL).then_some(value))
        })
    }

    /// Returns the size of the answer so far, in bytes: the bytes received, and the memory for the Python objects made
    /// of them.
    pub fn bytes(&self) -> usize {
        let rows = self.count / self.columns.len().max(1);
        self.name_bytes + self.values.len() + rows * ROW_BYTES + self.count * VALUE_BYTES
    }
}

/// The reason for a missing answer.
#[derive(Debug)]
pub enum Unanswered {
    /// This client refuses to use the server.
    Refused(Refusal),
    /// The server refused the statement, or the login. After a refused statement the session can be used.
    Server {
        /// The error's number (MySQL), or its SQLSTATE (PostgreSQL).
        code: String,
        /// The server's message.
        message: String,
    },
    /// The session has ended, or never began. The text is a sentence that begins with "it", the server.
    Lost(String),
    /// The wait ended because this process must end.
    Ended,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_says_wrong_is_not_out_of_reach() {
        let of = |kind| is_out_of_reach(&io::Error::from(kind));
        assert!(of(ErrorKind::ConnectionRefused) && of(ErrorKind::NotFound) && of(ErrorKind::PermissionDenied));
        // These are the kinds of a wrong proof (SCRAM), a broken message, an ended connection and a wait that was too
        // long.
        for kind in [ErrorKind::InvalidInput, ErrorKind::InvalidData, ErrorKind::UnexpectedEof, ErrorKind::TimedOut] {
            assert!(!of(kind), "{kind}");
        }
    }

    #[test]
    fn values_come_out_as_they_went_in() {
        let mut table = Table::default();
        table.push_column(b"a", Kind::Text);
        table.push_column(b"b", Kind::Integer);
        let rows: [[Option<&[u8]>; 2]; 2] = [[Some(b"one"), None], [Some(b""), Some(b"2")]];
        for row in rows {
            assert!(table.push_row(row.into_iter().map(Ok::<_, ()>)).expect("it is whole"));
        }
        assert!(table.values().eq(rows.concat()));
        assert_eq!(table.bytes(), 2 * (1 + 64) + (4 * 4 + 4) + 2 * 128 + 4 * 64);
        assert!(!table.push_row([Ok::<_, ()>(None)].into_iter()).expect("it is whole"), "a value is missing");
    }
}
