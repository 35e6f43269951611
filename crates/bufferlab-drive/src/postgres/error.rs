//! Maps errors of a server or a connection to their meaning for a run. The codes are those of PostgreSQL's
//! documentation, "Error Codes".

use std::fmt;
use std::io;

use bufferlab_workload::client::ClientError;

use super::message::Malformed;
use crate::failure::{FULL_DISK_HINT, Failure, FailureKind};
use crate::server::Meaning;
use crate::server::refusal::Refusal;
use crate::server::session::SERVER_GONE_HINT;

/// An error message of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    /// ERROR, FATAL or PANIC. After FATAL and PANIC the server closes the connection.
    pub severity: String,
    /// The error's SQLSTATE, five characters.
    pub code: String,
    /// The server's message, in one sentence.
    pub message: String,
    /// The server's details about the error; empty if it sent none.
    pub detail: String,
    /// The server's hint for the user; empty if it sent none.
    pub hint: String,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)?;
        for more in [&self.detail, &self.hint] {
            if !more.is_empty() {
                write!(f, " ({more})")?;
            }
        }
        Ok(())
    }
}

/// The error of a connection.
#[derive(Debug, thiserror::Error)]
pub enum PgError {
    /// The server's error.
    #[error("{0}")]
    Server(Box<ServerError>),
    /// The socket's error.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The connection has ended.
    #[error("the server closed the connection")]
    Closed,
    /// The server has sent nothing for this many seconds, and the client has given up.
    #[error("the server has sent nothing for {0} s: it is frozen, or cannot be reached any more")]
    Silent(u64),
    /// The server sent bytes that are not an answer.
    #[error("the server's answer is broken: {0}")]
    Malformed(Malformed),
    /// This client refuses to use the server.
    #[error("{0}")]
    Refused(Refusal),
    /// A value that the server or the workload cannot understand. The connection is usable.
    #[error("{0}")]
    Value(String),
}

impl From<Malformed> for PgError {
    fn from(malformed: Malformed) -> Self {
        PgError::Malformed(malformed)
    }
}

impl PgError {
    /// Returns true when the connection is usable after the error.
    pub fn leaves_the_connection_whole(&self) -> bool {
        match self {
            PgError::Server(error) => error.severity == "ERROR",
            PgError::Value(_) => true,
            PgError::Io(_) | PgError::Closed | PgError::Silent(_) | PgError::Malformed(_) | PgError::Refused(_) => {
                false
            }
        }
    }

    /// Returns the server's SQLSTATE; an empty text if the error is not the server's.
    pub fn code(&self) -> &str {
        match self {
            PgError::Server(error) => &error.code,
            _ => "",
        }
    }
}

fn meaning(error: &PgError) -> Meaning {
    let PgError::Server(server) = error else {
        return if error.leaves_the_connection_whole() { Meaning::Statement } else { Meaning::Lost };
    };
    match server.code.as_str() {
        // These are serialization_failure, deadlock_detected and lock_not_available.
        "40001" | "40P01" | "55P03" => Meaning::Retry,
        "53100" => Meaning::DiskFull,
        // For a full disk the server may also send the code 58030 (io_error); then only the message says that the disk
        // is full.
        _ if server.message.contains("No space left on device") => Meaning::DiskFull,
        // query_canceled: bufferlab's own statements are cancelled only if the user asks the run to stop.
        "57014" => Meaning::Lost,
        code if code.starts_with("08") || code.starts_with("57P0") => Meaning::Lost,
        _ if !error.leaves_the_connection_whole() => Meaning::Lost,
        _ => Meaning::Statement,
    }
}

/// Returns the error of a statement in the form that a workload gets.
pub fn client_error(statement: &str, error: &PgError) -> ClientError {
    meaning(error).client_error(statement, error.to_string())
}

/// Returns the failure of an error outside of any workload: in connecting, preparing, loading or controlling. `place`
/// is the server's place, or the name of the statement.
pub fn failure(action: &str, place: &str, error: &PgError) -> Failure {
    if let PgError::Refused(Refusal { what, hint }) = error {
        return Failure::new(FailureKind::Environment, format!("{action}: {what}"), place, *hint);
    }
    let (kind, hint) = match meaning(error) {
        Meaning::DiskFull => (FailureKind::FullDisk, FULL_DISK_HINT),
        Meaning::Retry => {
            (FailureKind::Io, "another client holds locks in this database: use one that is bufferlab's own")
        }
        // A refusal to connect is FATAL, too, but has its own hint.
        Meaning::Lost | Meaning::Statement => match refusal(error.code()) {
            Some(refusal) => refusal,
            None if meaning(error) == Meaning::Lost => (FailureKind::Io, SERVER_GONE_HINT),
            None => (FailureKind::Data, "the database differs from the loaded one, or the server's version is unknown"),
        },
    };
    Failure::new(kind, format!("{action}: {error}"), place, hint)
}

fn refusal(code: &str) -> Option<(FailureKind, &'static str)> {
    match code {
        "28000" | "28P01" => Some((
            FailureKind::Environment,
            "check the user, the password, and what pg_hba.conf allows (a line `hostssl` needs sslmode=require or better)",
        )),
        "3D000" => Some((FailureKind::Data, "the database differs from the loaded one: load it again")),
        "42501" => Some((
            FailureKind::Environment,
            "the role lacks this right: grant it, or let bufferlab start a private server",
        )),
        "53300" => Some((FailureKind::Environment, "raise max_connections, or use fewer connections")),
        "57P03" => Some((FailureKind::Io, "the server is starting up or shutting down: try again when it is ready")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(severity: &str, code: &str, message: &str) -> PgError {
        let [severity, code, message] = [severity, code, message].map(str::to_owned);
        PgError::Server(Box::new(ServerError { severity, code, message, ..ServerError::default() }))
    }

    fn told(error: &PgError) -> &'static str {
        match client_error("read_item", error) {
            ClientError::Retry { .. } => "retry",
            ClientError::Lost { .. } => "lost",
            ClientError::DiskFull { .. } => "full",
            ClientError::Statement { .. } => "statement",
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn conflicts_are_tried_again() {
        for code in ["40001", "40P01", "55P03"] {
            assert_eq!(told(&server("ERROR", code, "conflict")), "retry", "{code}");
        }
    }

    #[test]
    fn a_connection_that_ended_is_lost() {
        assert_eq!(told(&PgError::Io(io::ErrorKind::ConnectionReset.into())), "lost");
        assert_eq!(told(&PgError::Closed), "lost");
        assert_eq!(told(&PgError::Silent(60)), "lost");
        assert_eq!(told(&PgError::Malformed(Malformed("?".into()))), "lost");
        for code in ["57P01", "57P02", "08006", "57014"] {
            assert_eq!(told(&server("ERROR", code, "the end")), "lost", "{code}");
        }
        assert_eq!(told(&server("PANIC", "XX000", "could not write")), "lost");
    }

    #[test]
    fn a_full_disk_is_known_by_code_and_by_words_even_when_it_ends_the_server() {
        assert_eq!(told(&server("ERROR", "53100", "could not extend file")), "full");
        assert_eq!(told(&server("PANIC", "53100", "could not write to log file")), "full");
        assert_eq!(told(&server("ERROR", "58030", "could not fsync: No space left on device")), "full");
    }

    #[test]
    fn other_errors_name_their_statement() {
        let error = client_error("read_item", &server("ERROR", "42P01", "relation \"item\" does not exist"));
        assert!(error.to_string().contains("read_item"), "{error}");
        assert_eq!(told(&PgError::Value("40000 does not fit".to_owned())), "statement");
    }

    #[test]
    fn refusals_say_what_to_do() {
        let refused = |code| failure("connecting", "here", &server("FATAL", code, "no"));
        assert_eq!(refused("28P01").kind, FailureKind::Environment);
        assert_eq!(refused("3D000").kind, FailureKind::Data);
        assert!(refused("53300").hint.contains("max_connections"));
        assert_eq!(refused("57P01").kind, FailureKind::Io);
    }
}
