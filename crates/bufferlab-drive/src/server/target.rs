//! The address of a server, and the account and database that a connection uses.

use std::fmt;

use serde::Deserialize;

use super::security::Security;

/// The place at which a server listens.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Place {
    /// The path of the server's Unix socket.
    Socket(String),
    /// A name or address, and a TCP port.
    Tcp {
        /// The name or address.
        host: String,
        /// The TCP port.
        port: u16,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Socket(path) => f.write_str(path),
            Place::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A server, an account and a database.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The place at which the server listens.
    pub place: Place,
    /// The account's name.
    pub user: String,
    /// The account's password; never printed.
    pub password: String,
    /// The database that holds the workload's tables.
    pub database: String,
    /// The security of connections; none for connections without TLS, as to a private server.
    #[serde(default)]
    pub security: Option<Security>,
}

impl Target {
    /// Returns the server's name in messages.
    pub fn place(&self) -> String {
        self.place.to_string()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}/{}", self.user, self.place, self.database)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::security::SslMode;
    use super::*;

    #[test]
    fn a_place_is_a_socket_or_a_host_and_the_password_is_not_shown() {
        let target = |place| {
            let job = json!({ "place": place, "user": "u", "password": "secret", "database": "d" });
            serde_json::from_value::<Target>(job)
        };
        let socket = target(json!({ "socket": "/run/pg/.s.PGSQL.5433" })).expect("it is a place");
        assert_eq!(format!("{socket:?}"), "u@/run/pg/.s.PGSQL.5433/d");
        assert_eq!(target(json!({ "tcp": { "host": "db", "port": 5433 } })).expect("it is a place").place(), "db:5433");
        target(json!({})).expect_err("it names no server");
        assert_eq!(target(json!({ "socket": "s" })).expect("it is a place").security, None);
    }

    #[test]
    fn security_has_a_mode_and_everything_else_may_be_left_out_or_null() {
        let read = |security| {
            let place = json!({ "socket": "s" });
            let job = json!({ "place": place, "user": "u", "password": "", "database": "d", "security": security });
            serde_json::from_value::<Target>(job).map(|target| target.security.expect("it is given"))
        };
        let whole = read(json!({
            "mode": "verify-ca", "root_cert": "/ca.pem", "cert": null, "key": null, "server_public_key": null,
            "get_server_public_key": true, "allow_unverified_password": false
        }));
        let expected = Security {
            mode: SslMode::VerifyCa,
            root_cert: Some("/ca.pem".into()),
            get_server_public_key: true,
            ..Security::default()
        };
        assert_eq!(whole.expect("it is right"), expected);
        for mode in ["disable", "prefer", "require", "verify-ca", "verify-full"] {
            assert_eq!(read(json!({ "mode": mode })).expect("a mode").mode.to_string(), mode);
        }
        read(json!({ "mode": "allow" })).expect_err("it is no mode here");
        read(json!({ "mode": "prefer", "root_key": "/ca.pem" })).expect_err("there is no such word");
        read(json!({})).expect_err("a mode is needed");
    }
}
