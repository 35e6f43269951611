//! Maps errors of a server or a connection to their meaning for a run. The numbers are those of mysql's
//! include/mysqld_error.h and errmsg.h.

use std::io;
use std::time::Duration;

use bufferlab_workload::client::ClientError;

use crate::failure::{FULL_DISK_HINT, Failure, FailureKind};
use crate::server::Meaning;
use crate::server::refusal::Refusal;
use crate::server::session::SERVER_GONE_HINT;

/// MariaDB with `innodb_snapshot_isolation` sends this error ("Record has changed since last read") if the row that a
/// transaction wants to lock has changed since the transaction's snapshot.
const ER_CHECKREAD: u16 = 1020;
const ER_DISK_FULL: u16 = 1021;
const ER_CON_COUNT_ERROR: u16 = 1040;
const ER_DBACCESS_DENIED_ERROR: u16 = 1044;
const ER_ACCESS_DENIED_ERROR: u16 = 1045;
const ER_BAD_DB_ERROR: u16 = 1049;
const ER_SERVER_SHUTDOWN: u16 = 1053;
const ER_RECORD_FILE_FULL: u16 = 1114;
const ER_NEW_ABORTING_CONNECTION: u16 = 1184;
const ER_SPECIFIC_ACCESS_DENIED_ERROR: u16 = 1227;
const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;
const ER_LOCK_DEADLOCK: u16 = 1213;
const ER_QUERY_INTERRUPTED: u16 = 1317;
const ER_MAX_PREPARED_STMT_COUNT_REACHED: u16 = 1461;
const ER_CONNECTION_KILLED: u16 = 1927;
const CR_SERVER_GONE_ERROR: u16 = 2006;
const CR_SERVER_LOST: u16 = 2013;

/// Longest time that a server may take for a login, a setting or its counters, which wait for no lock. Even an
/// overloaded server takes far less.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// An error message of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ERROR {code} ({state}): {message}")]
pub struct ServerError {
    /// The error's number, as in mysqld_error.h.
    pub code: u16,
    /// The error's SQLSTATE, five characters.
    pub state: String,
    /// The error's message in the server's words.
    pub message: String,
}

/// The error of a connection.
#[derive(Debug, thiserror::Error)]
pub enum MysqlError {
    /// The server's error.
    #[error("{0}")]
    Server(ServerError),
    /// The stream's error, or an answer that breaks the protocol.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// This client refuses to use the server.
    #[error("{0}")]
    Refused(Refusal),
}

fn meaning(error: &MysqlError) -> Meaning {
    let MysqlError::Server(server) = error else { return Meaning::Lost };
    match server.code {
        ER_LOCK_DEADLOCK | ER_LOCK_WAIT_TIMEOUT | ER_CHECKREAD => Meaning::Retry,
        ER_DISK_FULL | ER_RECORD_FILE_FULL => Meaning::DiskFull,
        ER_SERVER_SHUTDOWN
        | ER_NEW_ABORTING_CONNECTION
        | ER_QUERY_INTERRUPTED
        | ER_CONNECTION_KILLED
        | CR_SERVER_GONE_ERROR
        | CR_SERVER_LOST => Meaning::Lost,
        _ if says_no_space(&server.message) => Meaning::DiskFull,
        _ => Meaning::Statement,
    }
}

/// Returns true for the message of a full disk (ENOSPC). The text has the errno: "Got error 28 from storage engine",
/// "(Errcode: 28 ...".
fn says_no_space(message: &str) -> bool {
    ["No space left on device", "error 28 ", "error: 28 ", "Errcode: 28", "errno: 28", "Disk full"]
        .iter()
        .any(|words| message.contains(words))
}

/// Returns true when a read took longer than the socket's time limit, that is, EAGAIN of a blocking socket (recv(2)).
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Returns true when the server did not answer within the time limit.
fn is_silence(error: &MysqlError) -> bool {
    matches!(error, MysqlError::Io(error) if is_timeout(error))
}

/// Returns the error's text, for use in messages.
fn words(error: &MysqlError) -> String {
    match error {
        error if is_silence(error) => format!("the server has not answered for {} s", ANSWER_WITHIN.as_secs()),
        error => error.to_string(),
    }
}

/// Returns the error of a statement in the form that a workload gets.
pub fn client_error(statement: &str, error: &MysqlError) -> ClientError {
    meaning(error).client_error(statement, words(error))
}

/// The hint when the server's process runs, but does not answer.
pub(crate) const SERVER_SILENT_HINT: &str =
    "it is stopped, or waits for its device: see its process's state (ps -o stat,wchan) and the kernel's log (dmesg)";

/// Returns the failure of an error outside of any workload: in connecting, preparing, loading or controlling. `place`
/// is the server's place, or the name of the statement.
pub fn failure(action: &str, place: &str, error: &MysqlError) -> Failure {
    if let MysqlError::Refused(Refusal { what, hint }) = error {
        return Failure::new(FailureKind::Environment, format!("{action}: {what}"), place, *hint);
    }
    let (kind, hint) = match meaning(error) {
        Meaning::DiskFull => (FailureKind::FullDisk, FULL_DISK_HINT),
        Meaning::Lost if is_silence(error) => (FailureKind::Io, SERVER_SILENT_HINT),
        Meaning::Lost => (FailureKind::Io, SERVER_GONE_HINT),
        Meaning::Retry => {
            (FailureKind::Io, "another client holds locks in this database: use one that is bufferlab's own")
        }
        Meaning::Statement => statement_failure(error),
    };
    Failure::new(kind, format!("{action}: {}", words(error)), place, hint)
}

fn statement_failure(error: &MysqlError) -> (FailureKind, &'static str) {
    let MysqlError::Server(server) = error else { return (FailureKind::Internal, "please report this") };
    match server.code {
        ER_ACCESS_DENIED_ERROR => (
            FailureKind::Environment,
            "check the user and the password; an account with REQUIRE SSL needs sslmode=require or better",
        ),
        ER_DBACCESS_DENIED_ERROR | ER_SPECIFIC_ACCESS_DENIED_ERROR => (
            FailureKind::Environment,
            "the account lacks this right: grant it, or let bufferlab start a private server",
        ),
        ER_BAD_DB_ERROR => (FailureKind::Data, "the database differs from the loaded one: load it again"),
        ER_CON_COUNT_ERROR => (FailureKind::Environment, "raise max_connections, or use fewer connections"),
        ER_MAX_PREPARED_STMT_COUNT_REACHED => {
            (FailureKind::Environment, "raise max_prepared_stmt_count, or use fewer connections")
        }
        _ => (FailureKind::Data, "the database differs from the loaded one, or the server's version is unknown"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16, message: &str) -> MysqlError {
        MysqlError::Server(ServerError { state: "HY000".to_owned(), message: message.to_owned(), code })
    }

    fn told(error: &MysqlError) -> &'static str {
        match client_error("read_item", error) {
            ClientError::Retry { .. } => "retry",
            ClientError::Lost { .. } => "lost",
            ClientError::DiskFull { .. } => "full",
            ClientError::Statement { .. } => "statement",
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn deadlocks_and_lock_timeouts_are_tried_again() {
        assert_eq!(told(&server(1213, "Deadlock found")), "retry");
        assert_eq!(told(&server(1205, "Lock wait timeout exceeded")), "retry");
    }

    #[test]
    fn a_row_that_changed_since_the_snapshot_is_tried_again() {
        assert_eq!(told(&server(1020, "Record has changed since last read in table 'stock'")), "retry");
    }

    #[test]
    fn a_connection_that_ended_is_lost() {
        let reset = MysqlError::Io(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(told(&reset), "lost");
        assert_eq!(told(&server(1053, "Server shutdown in progress")), "lost");
        assert_eq!(told(&server(2013, "Lost connection")), "lost");
    }

    #[test]
    fn a_server_that_says_nothing_is_told_from_one_that_is_gone() {
        let quiet = MysqlError::Io(io::Error::from(io::ErrorKind::WouldBlock));
        let told = failure("reading counters", "a socket", &quiet);
        assert_eq!(told.hint, SERVER_SILENT_HINT);
        assert!(told.what.contains("has not answered for 30 s"), "{told}");
        let reset = MysqlError::Io(io::Error::from(io::ErrorKind::ConnectionReset));
        assert_eq!(failure("reading counters", "a socket", &reset).hint, SERVER_GONE_HINT);
    }

    #[test]
    fn an_unknown_way_to_log_in_is_the_accounts_and_no_lost_connection() {
        let unknown = MysqlError::Refused(Refusal::unknown_login("sha256_password"));
        assert!(failure("connecting", "a socket", &unknown).hint.contains("caching_sha2_password"));
    }

    #[test]
    fn a_full_disk_is_known_by_number_and_by_words() {
        assert_eq!(told(&server(1114, "The table 'stock' is full")), "full");
        assert_eq!(told(&server(1030, "Got error 28 from storage engine")), "full");
        assert_eq!(told(&server(3, "Error writing file (Errcode: 28 - No space left on device)")), "full");
        assert_eq!(told(&server(1030, "Got error 281 from storage engine")), "statement");
    }

    #[test]
    fn other_errors_name_their_statement() {
        let error = client_error("read_item", &server(1146, "Table 'item' doesn't exist"));
        assert!(error.to_string().contains("read_item"), "{error}");
    }

    #[test]
    fn too_many_prepared_statements_are_the_servers_setting_and_not_the_datas_fault() {
        let told = failure("preparing", "a socket", &server(1461, "Can't create more than max_prepared_stmt_count"));
        assert_eq!(told.kind, FailureKind::Environment);
        assert_eq!(told.hint, "raise max_prepared_stmt_count, or use fewer connections");
    }
}
