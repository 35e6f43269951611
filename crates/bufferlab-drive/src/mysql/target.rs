//! The address of a server, and the account.

use std::fmt;

use serde::Deserialize;

/// A server, an account and a database. Either `socket` or `host` names the server; a socket wins.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Path of the server's Unix socket.
    pub socket: Option<String>,
    /// Name or address of a server reached over TCP.
    pub host: Option<String>,
    /// TCP port; 3306 when there is none.
    pub port: Option<u16>,
    /// Account.
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
        match (&self.socket, &self.host) {
            (Some(socket), _) => socket.clone(),
            (None, Some(host)) => format!("{host}:{}", self.port_or_default()),
            (None, None) => "no socket and no host".to_owned(),
        }
    }

    /// Returns the port to connect to.
    #[must_use]
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(3306)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}/{}", self.user, self.place(), self.database)
    }
}
