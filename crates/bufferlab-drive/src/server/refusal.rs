//! The messages of connections that refuse a server. Python's sessions with servers use the same code, so they give the
//! same messages.

use std::path::Path;

use super::security::SslMode;

/// The refusal of a server that a connection does not trust, or of a user's file that the connection cannot use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct Refusal {
    /// What happened.
    pub what: String,
    /// What to do.
    pub hint: &'static str,
}

const CERTIFICATE_HINT: &str =
    "name the certificate of the authority that signed the server's: sslrootcert=FILE; it must be the right server";

/// The hint when the password would go to an unknown server.
const PASSWORD_HINT: &str = "verify its certificate (sslmode=verify-full and sslrootcert=FILE), or use \
    sslmode=disable with server_public_key=FILE; get_server_public_key=true (without TLS) and \
    allow_unverified_password=true (with it) trust the network";

impl Refusal {
    /// Makes a refusal from its texts.
    pub fn new(what: impl Into<String>, hint: &'static str) -> Self {
        Refusal { what: what.into(), hint }
    }

    /// Makes the refusal of a server that has no TLS although the mode requires it.
    #[must_use]
    pub fn no_tls(mode: SslMode) -> Self {
        Refusal::new(
            format!("the server does not offer TLS, and sslmode={mode} requires it"),
            "let the server have a certificate (ssl_cert, ssl_key; PostgreSQL: ssl = on), or use sslmode=prefer",
        )
    }

    /// Makes the refusal of a server that shares no version of TLS, or no cipher, with this client.
    #[must_use]
    pub fn too_old() -> Self {
        Refusal::new(
            "the server offers TLS 1.1 at most, or only DHE ciphers, which are refused",
            "use a server with TLS 1.2 and ECDHE (MySQL 5.7.28, 8.0.16 or later), or its Unix socket",
        )
    }

    /// Makes the refusal of a certificate that no root certificate has signed.
    #[must_use]
    pub fn not_signed(root_cert: &Path) -> Self {
        let what = format!("the server's certificate is not signed by a certificate of {}", root_cert.display());
        Refusal::new(what, CERTIFICATE_HINT)
    }

    /// Makes the refusal of a certificate for other hosts than `host`.
    #[must_use]
    pub fn wrong_name(names: &[String], host: &str) -> Self {
        let names = if names.is_empty() { "no name".to_owned() } else { names.join(", ") };
        let hint =
            "connect to a name in the certificate, or use sslmode=verify-ca if any server of this authority will do";
        Refusal::new(format!("the server's certificate is for {names}, not for {host}"), hint)
    }

    /// Makes the refusal of a certificate that has the host's name only in its CN (common name), which clients do not
    /// use.
    #[must_use]
    pub fn name_in_cn_alone(host: &str) -> Self {
        let hint = "let the certificate have a subjectAltName (RFC 6125), or use sslmode=verify-ca";
        Refusal::new(format!("the server's certificate names {host} in its CN alone, which is no name"), hint)
    }

    /// Makes the refusal of a certificate that expired on `date`, a day in UTC.
    #[must_use]
    pub fn expired(date: &str) -> Self {
        let hint = "give the server a new certificate; check the clock of this host";
        Refusal::new(format!("the server's certificate expired on {date}"), hint)
    }

    /// Makes the refusal of a certificate that is not valid before `date`, a day in UTC.
    #[must_use]
    pub fn not_yet_valid(date: &str) -> Self {
        let hint = "check the clocks of this host and of the one that made the certificate";
        Refusal::new(format!("the server's certificate is not valid before {date}"), hint)
    }

    /// Makes the refusal of a certificate whose signer's certificate has expired.
    #[must_use]
    pub fn signer_expired() -> Self {
        Refusal::new("a certificate that signed the server's has expired", CERTIFICATE_HINT)
    }

    /// Makes the refusal to send the password itself to an unverified server.
    #[must_use]
    pub fn unverified_password() -> Self {
        Refusal::new("the server asks for the password itself, and nothing proves who it is", PASSWORD_HINT)
    }

    /// Makes the refusal of an authentication method that shows the password to every host between client and server.
    #[must_use]
    pub fn clear_text() -> Self {
        let hint = "let the account have caching_sha2_password, mysql_native_password or, in PostgreSQL, scram-sha-256";
        Refusal::new("the server asks for the password in clear text, which is refused", hint)
    }

    /// Makes the refusal of an authentication method that this client lacks; `method` is its number in PostgreSQL's
    /// protocol.
    #[must_use]
    pub fn other_method(method: i32) -> Self {
        let hint = "let pg_hba.conf say scram-sha-256 for this account: gss, password, ldap and pam are refused";
        let what = format!("the server asks for authentication method {method}, and no password (SCRAM, MD5)");
        Refusal::new(what, hint)
    }

    /// Makes the refusal of an account whose authentication method, `plugin`, this client lacks.
    #[must_use]
    pub fn unknown_login(plugin: &str) -> Self {
        let hint = "let the account have caching_sha2_password, or on MariaDB and before MySQL 8.0 \
            mysql_native_password";
        Refusal::new(format!("the account logs in by '{plugin}', which is not known here"), hint)
    }

    /// Makes the refusal of a server that asks for a file although no statement loads one.
    #[must_use]
    pub fn local_file() -> Self {
        let hint = "this is no honest server, or a statement of the script is LOAD DATA LOCAL: load without LOCAL";
        Refusal::new("the server asks for a file of this host (LOCAL INFILE), which is refused", hint)
    }

    /// Makes the refusal of a server that does not finish the handshake of TLS within `seconds`.
    #[must_use]
    pub fn silent_handshake(seconds: u64) -> Self {
        let hint = "is this the port of a database server, and is the server overloaded?";
        Refusal::new(format!("the server has not finished the TLS handshake within {seconds} s"), hint)
    }
}
