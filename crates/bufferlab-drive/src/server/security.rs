//! The security of connections to a server: libpq's modes, certificates, and the user's explicit permissions for
//! MySQL's logins.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

/// Whether connections use TLS, and how much of the server's certificate they verify: libpq's `sslmode` (PostgreSQL's
/// documentation, "SSL Mode Descriptions"), for every kind of server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SslMode {
    /// No TLS.
    #[default]
    Disable,
    /// TLS if the server offers it and the handshake succeeds.
    Prefer,
    /// TLS. If the user names a root certificate, the same as `VerifyCa`, as in libpq.
    Require,
    /// TLS with a server whose certificate is signed by the root certificate.
    VerifyCa,
    /// The same as `VerifyCa`, and the certificate must name the host.
    VerifyFull,
}

impl SslMode {
    /// Returns true when the mode refuses a connection without TLS.
    #[must_use]
    pub fn requires_tls(self) -> bool {
        !matches!(self, SslMode::Disable | SslMode::Prefer)
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SslMode::Disable => "disable",
            SslMode::Prefer => "prefer",
            SslMode::Require => "require",
            SslMode::VerifyCa => "verify-ca",
            SslMode::VerifyFull => "verify-full",
        })
    }
}

/// The security of the connections to one server. The default uses no TLS and trusts no key. A Unix socket never has
/// TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Security {
    /// Whether connections use TLS, and what they verify.
    pub mode: SslMode,
    /// File with root certificates (PEM), of which one must have signed the server's certificate.
    #[serde(default)]
    pub root_cert: Option<PathBuf>,
    /// File with the client's certificate and its chain (PEM).
    #[serde(default)]
    pub cert: Option<PathBuf>,
    /// File with the client's private key (PEM, not encrypted).
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// MySQL: file with the server's public RSA key (PEM), for full logins by `caching_sha2_password` without TLS.
    #[serde(default)]
    pub server_public_key: Option<PathBuf>,
    /// MySQL: whether to trust the RSA key that the server itself sends.
    #[serde(default)]
    pub get_server_public_key: bool,
    /// MySQL: whether to send the password itself over TLS with an unverified certificate.
    #[serde(default)]
    pub allow_unverified_password: bool,
}
