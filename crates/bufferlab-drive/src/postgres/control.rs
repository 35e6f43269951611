//! A control connection: it reads counters and executes statements outside of transactions.

use std::time::Duration;

use super::connection::{Connection, TextRows};
use super::error::{PgError, failure};
use super::interrupt::Handle;
use super::startup::{connect, connect_to, patient};
use super::wire::Silence;
use crate::failure::{Failure, FailureKind};
use crate::server::target::Target;

/// A database that every PostgreSQL server has, for connections before the target's database exists.
pub(super) const MAINTENANCE_DATABASE: &str = "postgres";

/// Longest silence of a server after a query for counters. Then the reader checks whether the server answers other
/// connections.
const READING_SILENCE: Duration = Duration::from_secs(30);

/// The oldest major version whose server flushes counters when a client asks.
const OLDEST_MAJOR: u32 = 15;

/// A connection outside of the measured transactions.
pub struct Control {
    connection: Connection,
    place: String,
}

impl Control {
    /// Connects to the target's database.
    ///
    /// # Errors
    /// The errors of [`connect`].
    pub fn open(target: &Target) -> Result<Self, Failure> {
        Ok(Control { connection: connect(target, patient(target))?, place: target.place() })
    }

    /// Connects to the target's database for short queries, such as for counters, with a limit of silence of 30 s.
    ///
    /// # Errors
    /// The errors of [`Control::open`].
    pub fn open_to_read(target: &Target) -> Result<Self, Failure> {
        let connection = connect_to(target, &target.database, patient(target), READING_SILENCE)?;
        Ok(Control { connection, place: target.place() })
    }

    /// Connects to `database` if it is given, else to the target's database, for short statements that wait for no
    /// other session. If the server is silent for 30 s, the connection ends, until [`Control::be_patient`] allows
    /// longer waits.
    ///
    /// # Errors
    /// The errors of [`Control::open`].
    pub fn open_to_ask(target: &Target, database: Option<&str>) -> Result<Self, Failure> {
        let connection = connect_to(target, database.unwrap_or(&target.database), Silence::Fatal, READING_SILENCE)?;
        Ok(Control { connection, place: target.place() })
    }

    /// Lets statements take any time from now on, while the server still answers other connections.
    pub fn be_patient(&mut self, target: &Target) {
        self.connection.wire.set_silence(patient(target));
    }

    /// Returns the server's place, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the version in the server's own words, such as "15.18 (Debian 15.18-0+deb12u1)".
    pub fn version(&self) -> &str {
        self.connection.server_version()
    }

    /// Returns the major number of the server's version.
    ///
    /// # Errors
    /// When the server is older than PostgreSQL 15.
    pub fn major(&self) -> Result<u32, Failure> {
        let major = major(self.version());
        if major >= OLDEST_MAJOR {
            return Ok(major);
        }
        let what = format!("this server says it is PostgreSQL {}", self.version());
        let hint =
            format!("use PostgreSQL {OLDEST_MAJOR} or later: older ones flush counters only at times of their choice");
        Err(Failure::new(FailureKind::Usage, what, &self.place, hint))
    }

    /// Returns the handle that interrupts the connection.
    ///
    /// # Errors
    /// The system's error.
    pub fn handle(&self) -> Result<Handle, Failure> {
        self.connection.handle().map_err(|error| failure("connecting", &self.place, &error))
    }

    /// Returns the connection, for COPY and other exchanges.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Executes statements and discards their rows.
    ///
    /// # Errors
    /// The server's error.
    pub fn execute(&mut self, action: &str, sql: &str) -> Result<(), Failure> {
        let done = self.connection.execute(sql);
        done.map_err(|error| failure(action, &self.place, &error))
    }

    /// Executes statements and discards their rows. An error has the connection's own type.
    ///
    /// # Errors
    /// The server's error.
    pub fn try_execute(&mut self, sql: &str) -> Result<(), PgError> {
        self.connection.execute(sql)
    }

    /// Returns the rows of a query as text.
    ///
    /// # Errors
    /// The server's error.
    pub fn rows(&mut self, action: &str, sql: &str) -> Result<TextRows, Failure> {
        let rows = self.connection.query(sql);
        rows.map_err(|error| failure(action, &self.place, &error))
    }

    /// Returns the first column of the first row; none for NULL, or without a row.
    ///
    /// # Errors
    /// The server's error.
    pub fn one(&mut self, action: &str, sql: &str) -> Result<Option<String>, Failure> {
        Ok(self.rows(action, sql)?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
    }

    /// Returns the first column of the first row as a number.
    ///
    /// # Errors
    /// The server's error; when the first column is not a number, or a row is missing.
    pub fn number(&mut self, action: &str, sql: &str) -> Result<i64, Failure> {
        let text = self.one(action, sql)?;
        text.as_deref().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let what = format!("{action}: the server answered {text:?}, which is no number");
            Failure::new(FailureKind::Internal, what, &self.place, "please report this with the server's version")
        })
    }
}

/// Returns the major number of a version such as "15.18 (Debian 15.18-0+deb12u1)" or "18beta1"; zero if it has none.
fn major(version: &str) -> u32 {
    let digits = version.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().unwrap_or(0)
}

/// A connection that only reads counters. It stays in one transaction as long as it lives. The server adds a
/// transaction's own pages, rows and commits to the counters only when the transaction ends, so samples do not change
/// the counters that later samples read. Each statement reads the counters as they are at that moment. Between
/// statements the transaction holds no snapshot, which would keep dead rows from being removed.
pub struct Reader {
    control: Control,
}

const BEGIN_READING: &str = "SET stats_fetch_consistency = none; BEGIN READ ONLY";

impl Reader {
    /// Makes a reader over this connection, and prepares `queries` by name.
    ///
    /// # Errors
    /// When the server does not answer, or refuses a query or the transaction.
    pub fn new(mut control: Control, queries: &[(&str, &str)]) -> Result<Self, Failure> {
        for (name, sql) in queries {
            let prepared = control.connection.prepare(name, sql);
            prepared.map_err(|error| failure("preparing to read counters", &control.place, &error))?;
        }
        control.execute("preparing to read counters", BEGIN_READING)?;
        Ok(Reader { control })
    }

    /// Returns the first row of a prepared query as numbers; none for NULL, or a value that is not a number.
    ///
    /// # Errors
    /// The server's error. The next call then reads in a new transaction.
    pub fn numbers(&mut self, name: &str) -> Result<Vec<Option<i64>>, Failure> {
        let rows = self.control.connection.execute_prepared(name).map_err(|error| {
            if error.leaves_the_connection_whole() {
                // A failed statement has failed the transaction too: begin a new one.
                let _ = self.control.try_execute("ROLLBACK; BEGIN READ ONLY");
            }
            failure("reading the server's counters", &self.control.place, &error)
        })?;
        let row = rows.into_iter().next().unwrap_or_default();
        Ok(row.into_iter().map(|value| value.as_deref().and_then(|text| text.parse().ok())).collect())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn control(connection: Connection) -> Control {
        Control { connection, place: "this test".to_owned() }
    }

    #[test]
    fn the_major_number_stands_first() {
        assert_eq!(major("15.18 (Debian 15.18-0+deb12u1)"), 15);
        assert_eq!(major("18beta1"), 18);
        assert_eq!(major(""), 0);
    }
}
