//! Connecting to a server, with a session that is the same on every version.

use std::time::Duration;

use mysql::{Conn, Error, OptsBuilder};

use super::error::{failure, is_timeout};
use super::line::{ANSWER_WITHIN, Line};
use crate::failure::{Failure, FailureKind};
use crate::server::target::{Place, Target};

/// Longest time that connecting over TCP may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of every session, so that versions with other defaults behave alike: a value that does not fit is an
/// error (5.6 would cut it), dates are UTC, reads see one snapshot.
const SESSION: [&str; 3] = [
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    "SET SESSION time_zone = '+00:00'",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
];

/// Connects to the target's database. A statement may take as long as it likes: it may wait for locks.
///
/// # Errors
/// When the server is not there, does not greet within [`ANSWER_WITHIN`], refuses the account, or has no such database.
pub fn connect(target: &Target) -> Result<Conn, Failure> {
    let conn = connect_to_ask(target)?;
    unbound(conn, target)
}

/// Connects for questions that wait for no lock: each answer must come within [`ANSWER_WITHIN`].
///
/// # Errors
/// As [`connect`].
pub fn connect_to_ask(target: &Target) -> Result<Conn, Failure> {
    open(target, Some(&target.database))
}

/// Connects without choosing a database, as before it is created.
///
/// # Errors
/// As [`connect`].
pub fn connect_to_server(target: &Target) -> Result<Conn, Failure> {
    unbound(open(target, None)?, target)
}

fn unbound(conn: Conn, target: &Target) -> Result<Conn, Failure> {
    let unlimited = Line::of(&conn).and_then(|line| line.answer_within(None));
    unlimited.map_err(|error| no_socket(&error, &target.place()))?;
    Ok(conn)
}

/// Returns the failure when the process can get no further descriptor for a connection's socket.
pub(super) fn no_socket(error: &std::io::Error, place: &str) -> Failure {
    let what = format!("holding the connection's socket: {error}");
    Failure::new(FailureKind::Environment, what, place, "raise the limit of open files (ulimit -n)")
}

fn open(target: &Target, database: Option<&str>) -> Result<Conn, Failure> {
    let place = target.place();
    let options = match &target.place {
        Place::Socket(path) => OptsBuilder::new().socket(Some(path)),
        Place::Tcp { host, port } => OptsBuilder::new().ip_or_hostname(Some(host)).tcp_port(*port),
    };
    let options = options
        .user(Some(&target.user))
        .pass(Some(&target.password))
        .db_name(database)
        .tcp_connect_timeout(Some(CONNECT_TIMEOUT))
        .read_timeout(Some(ANSWER_WITHIN))
        // By default the library asks a TCP server for its socket and moves there: another transport than asked for.
        .prefer_socket(false)
        // The client itself prepares and keeps statements.
        .stmt_cache_size(0)
        // An update counts the rows that it found, also those that it did not change.
        .additional_capabilities(mysql::consts::CapabilityFlags::CLIENT_FOUND_ROWS)
        .init(SESSION.to_vec());
    Conn::new(options).map_err(|error| match error {
        Error::IoError(error) if !is_timeout(&error) => {
            let what = format!("connecting to the server: {error}");
            Failure::new(FailureKind::Environment, what, place, "is it running, and is this its socket or address?")
        }
        error => failure("connecting to the server", &place, &error),
    })
}
