//! A connection beside the drivers': reads counters, runs what belongs to no transaction, interrupts statements.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::connection::{Connection, Handle, TextRows, connect, connect_to, patient, transport};
use super::error::{PgError, failure};
use super::target::Target;
use super::wire::{HangUp, SILENCE};
use crate::failure::{Failure, FailureKind};

/// The database that every server has.
const MAINTENANCE_DATABASE: &str = "postgres";

/// How long a server may be silent when it is asked for counters, before somebody looks whether it answers others.
const READING_SILENCE: Duration = Duration::from_secs(30);

/// The oldest server whose counters can be told to be told.
const OLDEST_MAJOR: u32 = 15;

/// A connection that no transaction is measured on.
pub struct Control {
    connection: Connection,
    place: String,
}

impl Control {
    /// Connects to the target's database.
    ///
    /// # Errors
    /// When the server is not there, or refuses.
    pub fn open(target: &Target) -> Result<Self, Failure> {
        Ok(Control { connection: connect(target, patient(target))?, place: target.place() })
    }

    /// Connects to the target's database to read what takes no time: a server that is silent is found out sooner.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub fn open_to_read(target: &Target) -> Result<Self, Failure> {
        let connection = connect_to(target, &target.database, patient(target), READING_SILENCE)?;
        Ok(Control { connection, place: target.place() })
    }

    /// Connects to the database that every server has, as before the target's is created.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub fn open_server(target: &Target) -> Result<Self, Failure> {
        let connection = connect_to(target, MAINTENANCE_DATABASE, patient(target), SILENCE)?;
        Ok(Control { connection, place: target.place() })
    }

    /// Where the server is, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The server's own name of its version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.connection.server_version()
    }

    /// The major number of the server's version.
    ///
    /// # Errors
    /// When it is older than what is known here.
    pub fn major(&self) -> Result<u32, Failure> {
        let major = major(self.version());
        if major >= OLDEST_MAJOR {
            return Ok(major);
        }
        let what = format!("this server says it is PostgreSQL {}", self.version());
        let hint = format!("use PostgreSQL {OLDEST_MAJOR} or later: older ones tell counters only when they please");
        Err(Failure::new(FailureKind::Usage, what, &self.place, hint))
    }

    /// How the connection can be interrupted.
    ///
    /// # Errors
    /// The system's.
    pub fn handle(&self) -> Result<Handle, Failure> {
        self.connection.handle().map_err(|error| failure("connecting", &self.place, &error))
    }

    /// The connection itself.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Executes statements; their rows are thrown away.
    ///
    /// # Errors
    /// The server's.
    pub fn execute(&mut self, action: &str, sql: &str) -> Result<(), Failure> {
        let done = self.connection.execute(sql);
        done.map_err(|error| failure(action, &self.place, &error))
    }

    /// The same with the error as it came.
    ///
    /// # Errors
    /// The server's.
    pub fn try_execute(&mut self, sql: &str) -> Result<(), PgError> {
        self.connection.execute(sql)
    }

    /// Rows of a query as text.
    ///
    /// # Errors
    /// The server's.
    pub fn rows(&mut self, action: &str, sql: &str) -> Result<TextRows, Failure> {
        let rows = self.connection.query(sql);
        rows.map_err(|error| failure(action, &self.place, &error))
    }

    /// The first column of the first row, if there is one.
    ///
    /// # Errors
    /// The server's.
    pub fn one(&mut self, action: &str, sql: &str) -> Result<Option<String>, Failure> {
        Ok(self.rows(action, sql)?.into_iter().next().and_then(|row| row.into_iter().next().flatten()))
    }

    /// The first column of the first row as a number.
    ///
    /// # Errors
    /// The server's, or when it is no number.
    pub fn number(&mut self, action: &str, sql: &str) -> Result<i64, Failure> {
        let text = self.one(action, sql)?;
        text.as_deref().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let what = format!("{action}: the server answered {text:?}, which is no number");
            Failure::new(FailureKind::Internal, what, &self.place, "please report this with the server's version")
        })
    }
}

/// The major number of "15.18 (Debian 15.18-0+deb12u1)" or of "18beta1".
fn major(version: &str) -> u32 {
    let digits = version.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().unwrap_or(0)
}

/// A connection that only reads counters. It stays in one transaction for as long as it lives: what it does itself, in pages,
/// rows and commits, the server adds to the counters only at a transaction's end, so that no sample is in the next. Each
/// statement sees the counters of its moment, and holds no snapshot afterwards that could keep dead rows alive.
pub struct Reader {
    control: Control,
}

const BEGIN_READING: &str = "SET stats_fetch_consistency = none; BEGIN READ ONLY";

impl Reader {
    /// Begins to read over this connection. `queries` are prepared by name.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn new(mut control: Control, queries: &[(&str, &str)]) -> Result<Self, Failure> {
        for (name, sql) in queries {
            let prepared = control.connection.prepare(name, sql);
            prepared.map_err(|error| failure("preparing to read counters", &control.place, &error))?;
        }
        control.execute("preparing to read counters", BEGIN_READING)?;
        Ok(Reader { control })
    }

    /// The first row of a prepared query as numbers; what is NULL, or no number, is none.
    ///
    /// # Errors
    /// The server's; the next reading begins anew.
    pub fn numbers(&mut self, name: &str) -> Result<Vec<Option<i64>>, Failure> {
        let rows = self.control.connection.execute_prepared(name).map_err(|error| {
            if error.leaves_the_connection_whole() {
                // The transaction has failed with it.
                let _ = self.control.try_execute("ROLLBACK; BEGIN READ ONLY");
            }
            failure("reading the server's counters", &self.control.place, &error)
        })?;
        let row = rows.into_iter().next().unwrap_or_default();
        Ok(row.into_iter().map(|value| value.as_deref().and_then(|text| text.parse().ok())).collect())
    }
}

/// How long a server may take to take a request to interrupt.
const CANCEL_TIMEOUT: Duration = Duration::from_millis(500);
/// Statements that were asked to end this long ago and have not are left with their connections.
const HANG_UP_AFTER: Duration = Duration::from_secs(3);

/// Interrupts whatever statements some connections are executing: asks the server first, and when that does not help, which
/// is when the server is frozen, ends the connections from this side.
pub struct Interrupter {
    target: Target,
    connections: Mutex<(Vec<Handle>, Option<Instant>)>,
    /// Connections that execute nothing long: they are ended with the others, and not asked to be interrupted.
    watching: Vec<HangUp>,
}

impl Interrupter {
    /// Nobody's statements yet.
    #[must_use]
    pub fn new(target: &Target) -> Self {
        Interrupter { target: target.clone(), connections: Mutex::default(), watching: Vec::new() }
    }

    /// When connections have to be ended, these are too: who waits for a frozen server on one of them must not wait longer.
    #[must_use]
    pub fn with_watching(mut self, watching: Vec<HangUp>) -> Self {
        self.watching = watching;
        self
    }

    /// From now on the statements of these connections.
    pub fn set(&self, handles: Vec<Handle>) {
        *self.connections.lock().unwrap_or_else(PoisonError::into_inner) = (handles, None);
    }

    /// Those of one more connection too.
    pub fn add(&self, handle: Handle) {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).0.push(handle);
    }

    /// Interrupts them. A connection that executes nothing, or is gone, is left as it is.
    pub fn interrupt(&self) {
        let (handles, first) = {
            let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
            let first = *connections.1.get_or_insert_with(Instant::now);
            (connections.0.clone(), first)
        };
        let hang_up = first.elapsed() >= HANG_UP_AFTER;
        if hang_up {
            self.watching.iter().for_each(|watching| watching());
        }
        for handle in &handles {
            if hang_up {
                (handle.hang_up)();
            } else if self.cancel(handle).is_err() {
                // Whoever does not take one request does not take the others either.
                break;
            }
        }
    }

    fn cancel(&self, handle: &Handle) -> std::io::Result<()> {
        let mut stream = transport(&self.target)?;
        stream.set_timeout(CANCEL_TIMEOUT)?;
        let mut request = BytesMut::new();
        frontend::cancel_request(handle.process_id, handle.secret_key, &mut request);
        stream.write_all(&request)?;
        // The server hangs up once it has passed the request on.
        stream.read(&mut [0]).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn the_major_number_stands_first() {
        assert_eq!(major("15.18 (Debian 15.18-0+deb12u1)"), 15);
        assert_eq!(major("18beta1"), 18);
        assert_eq!(major(""), 0);
    }

    #[test]
    fn a_server_that_takes_no_requests_is_left() {
        let place = tempfile::tempdir().expect("a directory");
        let target = Target {
            socket_dir: Some(place.path().display().to_string()),
            host: None,
            port: None,
            user: String::new(),
            password: String::new(),
            database: String::new(),
        };
        // It takes connections and never says a word, as a stopped process does.
        let _frozen = std::os::unix::net::UnixListener::bind(target.socket_path().expect("it has one")).expect("free");
        let hung_up = Arc::new(AtomicU32::new(0));
        let interrupter = Interrupter::new(&target);
        let handle = || {
            let hung_up = Arc::clone(&hung_up);
            let hang_up = Arc::new(move || _ = hung_up.fetch_add(1, Ordering::Relaxed));
            Handle { process_id: 1, secret_key: 2, hang_up }
        };
        interrupter.set(vec![handle(), handle()]);
        let begun = Instant::now();
        while hung_up.load(Ordering::Relaxed) == 0 {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody hangs up");
            interrupter.interrupt();
        }
        assert!(begun.elapsed() >= HANG_UP_AFTER, "it is asked first");
        assert_eq!(hung_up.load(Ordering::Relaxed), 2);
    }
}
