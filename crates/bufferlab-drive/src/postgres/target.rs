//! The address of a PostgreSQL server, and the account.

use std::fmt;

use serde::Deserialize;

/// A server, an account and a database. Either `socket_dir` or `host` names the server; a socket wins.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Directory of the server's Unix socket, which is named after the port.
    pub socket_dir: Option<String>,
    /// Name or address of a server reached over TCP.
    pub host: Option<String>,
    /// Port; 5432 when there is none.
    pub port: Option<u16>,
    /// Role.
    pub user: String,
    /// Its password; never printed.
    pub password: String,
    /// The database that holds the workload's tables.
    pub database: String,
}

impl Target {
    /// Returns the server's name in messages.
    #[must_use]
    pub fn place(&self) -> String {
        match (self.socket_path(), &self.host) {
            (Some(socket), _) => socket,
            (None, Some(host)) => format!("{host}:{}", self.port_or_default()),
            (None, None) => "no socket and no host".to_owned(),
        }
    }

    /// Returns the path of the Unix socket, if the target has one.
    #[must_use]
    pub fn socket_path(&self) -> Option<String> {
        let directory = self.socket_dir.as_ref()?;
        Some(format!("{}/.s.PGSQL.{}", directory.trim_end_matches('/'), self.port_or_default()))
    }

    /// Returns the port to connect to.
    #[must_use]
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(5432)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}/{}", self.user, self.place(), self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_wins_and_the_password_is_not_shown() {
        let mut target = Target {
            socket_dir: Some("/run/pg/".to_owned()),
            host: Some("db".to_owned()),
            port: Some(5433),
            user: "u".to_owned(),
            password: "secret".to_owned(),
            database: "d".to_owned(),
        };
        assert_eq!(format!("{target:?}"), "u@/run/pg/.s.PGSQL.5433/d");
        target.socket_dir = None;
        assert_eq!(target.place(), "db:5433");
    }
}
