//! TLS to a server, by rustls with ring: the handshake, and a stream over it that a connection reads and writes.
//!
//! This client supports TLS 1.3, and TLS 1.2 with ECDHE. The caller begins the handshake at the point that its protocol
//! defines.

mod binding;
mod der;
pub(crate) mod rsa;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod verifier;

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ClientConnection, Error, InvalidMessage, StreamOwned};

pub(crate) use self::rsa::RsaKey;
use self::verifier::{Roots, Verifier, certificates};
use crate::lock;
use crate::server::patience::{Patience, is_a_step, was_ended};
use crate::server::refusal::Refusal;
use crate::server::security::{Security, SslMode};

/// The failure of a handshake.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The server cannot be trusted, or has no version of TLS that this client has. With the mode `prefer` the
    /// connection goes on without TLS.
    #[error("{0}")]
    Refused(Refusal),
    /// The server has not finished the handshake within the time limit.
    #[error("{0}")]
    Silent(Refusal),
    /// The handshake ended because this process must end.
    #[error("the handshake was ended")]
    Ended,
}

impl TlsError {
    /// Returns the refusal that shows this error to the user.
    pub fn refusal(self) -> Refusal {
        match self {
            TlsError::Refused(refusal) | TlsError::Silent(refusal) => refusal,
            TlsError::Ended => Refusal::new(self.to_string(), "begin again"),
        }
    }
}

/// A client that can make one handshake. It has the client's certificate, and the rules for checking the server's.
pub struct TlsClient {
    config: ClientConfig,
    verifier: Arc<Verifier>,
    name: Option<ServerName<'static>>,
}

impl TlsClient {
    /// Returns a client for connections to `host`; none when the mode is `disable`.
    ///
    /// # Errors
    /// When a file of certificates or keys that the user names is missing, does not hold them or cannot be used. Also
    /// when the user names only one of certificate and key, or no root certificate for a mode that verifies by one.
    pub fn of(security: &Security, host: &str) -> Result<Option<Self>, Refusal> {
        if security.mode == SslMode::Disable {
            return Ok(None);
        }
        let roots = match &security.root_cert {
            Some(path) => Some(Roots::read(path.clone())?),
            None if matches!(security.mode, SslMode::VerifyCa | SslMode::VerifyFull) => {
                let what = format!("sslmode={} needs the certificate that signed the server's", security.mode);
                return Err(Refusal::new(what, "name its file: sslrootcert=FILE"));
            }
            None => None,
        };
        let provider = Arc::new(default_provider());
        let verifier = Arc::new(Verifier {
            algorithms: provider.signature_verification_algorithms,
            roots,
            host: (security.mode == SslMode::VerifyFull).then(|| host.to_owned()),
            refused: std::sync::Mutex::default(),
            unproven: AtomicBool::new(false),
        });
        let unusable = |error: Error| {
            Refusal::new(format!("sslcert and sslkey cannot be used: {error}"), "name the two files of one certificate")
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _);
        let mut config = match (&security.cert, &security.key) {
            (None, None) => config.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let chain = certificates(cert, "sslcert")?;
                config.with_client_auth_cert(chain, private_key(key)?).map_err(unusable)?
            }
            (cert, _) => {
                let (there, missing) = if cert.is_some() { ("sslcert", "sslkey") } else { ("sslkey", "sslcert") };
                return Err(Refusal::new(format!("{there} is given without {missing}"), "name both files, or neither"));
            }
        };
        // Each connection has its own configuration, so no session can be resumed.
        config.resumption = Resumption::disabled();
        Ok(Some(TlsClient { config, verifier, name: ServerName::try_from(host.to_owned()).ok() }))
    }

    /// Makes the handshake, within the time that `patience` leaves. Afterwards the socket has timeouts.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn handshake(self, socket: TcpStream, patience: Patience) -> Result<Tls, TlsError> {
        let closed = |error: io::Error| TlsError::Refused(ended(&error));
        let name = match self.name {
            Some(name) => name,
            // The host's name is not valid in a certificate, so use the server's IP address instead.
            None => ServerName::from(socket.peer_addr().map_err(closed)?.ip()),
        };
        let refused = |error: &Error, hello: bool| {
            let said = lock(&self.verifier.refused).take();
            TlsError::Refused(said.unwrap_or_else(|| explained(error, hello)))
        };
        let session = ClientConnection::new(Arc::new(self.config), name);
        let mut session = session.map_err(|error| refused(&error, false))?;
        let within = patience.left().unwrap_or_default();
        let mut socket = socket;
        loop {
            while session.wants_write() {
                session.write_tls(&mut socket).map_err(closed)?;
            }
            if !session.is_handshaking() {
                break;
            }
            let step = patience.step().map_err(|error| match was_ended(&error) {
                true => TlsError::Ended,
                false => TlsError::Silent(Refusal::silent_handshake(within.as_secs())),
            })?;
            let left = patience.left().or(Some(step));
            socket.set_read_timeout(Some(step)).and_then(|()| socket.set_write_timeout(left)).map_err(closed)?;
            match session.read_tls(&mut socket) {
                Ok(0) => return Err(closed(ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if is_a_step(&error) => {}
                Err(error) => return Err(closed(error)),
            }
            if let Err(error) = session.process_new_packets() {
                // Send the server the reason; ignore a server that no longer listens.
                let _ = session.write_tls(&mut socket);
                return Err(refused(&error, session.protocol_version().is_some()));
            }
        }
        let proven = !self.verifier.unproven.load(Ordering::Relaxed);
        let endpoint = session.peer_certificates().and_then(|chain| chain.first()).filter(|_| proven);
        let endpoint = endpoint.and_then(|certificate| binding::server_end_point(certificate));
        let is_verified = self.verifier.roots.is_some();
        Ok(Tls { stream: StreamOwned::new(session, socket), is_verified, endpoint })
    }
}

/// Reads a private key. Refuses a file that other users may read, as libpq does (fe-secure-openssl.c,
/// `initialize_SSL`).
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Refusal> {
    let unusable = |why: String, hint| Refusal::new(format!("sslkey: {} cannot be used: {why}", path.display()), hint);
    let hint = "name a readable file with a private key in PEM form that is not encrypted";
    let about = std::fs::metadata(path).map_err(|error| unusable(error.to_string(), hint))?;
    let others = if about.uid() == 0 { 0o037 } else { 0o077 };
    if about.mode() & others != 0 {
        return Err(unusable("others may read it".to_owned(), "take their rights away: chmod 600 FILE"));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(error.to_string(), hint))
}

/// Returns the refusal that explains an error of the handshake. `hello` is true if the server had chosen a version of
/// TLS.
fn explained(error: &Error, hello: bool) -> Refusal {
    match error {
        Error::PeerIncompatible(_) => Refusal::too_old(),
        // MySQL 5.7 with yaSSL, which has no TLS later than 1.1, answers with a packet of MySQL's protocol, whose
        // length looks like the header of a TLS record.
        Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion) if !hello => Refusal::too_old(),
        Error::AlertReceived(
            AlertDescription::ProtocolVersion
            | AlertDescription::HandshakeFailure
            | AlertDescription::InsufficientSecurity,
        ) if !hello => Refusal::too_old(),
        error => Refusal::new(
            format!("the TLS handshake failed: {error}"),
            "see the server's log; it may demand a client's certificate (sslcert, sslkey)",
        ),
    }
}

fn ended(error: &io::Error) -> Refusal {
    let hint = "see the server's log; it may have no TLS 1.2, or be no database server";
    Refusal::new(format!("the server ended the TLS handshake: {error}"), hint)
}

/// A stream over TLS.
pub struct Tls {
    stream: StreamOwned<ClientConnection, TcpStream>,
    is_verified: bool,
    endpoint: Option<Vec<u8>>,
}

impl Tls {
    /// Returns true when the client has verified the server's certificate by a root certificate.
    pub fn is_verified(&self) -> bool {
        self.is_verified
    }

    /// Returns the hash of the server's certificate, to which SCRAM is bound (`tls-server-end-point`, RFC 5929).
    /// Returns none if the certificate has no such hash, or the server has not proven that it has the certificate's
    /// key.
    pub fn endpoint(&self) -> Option<&[u8]> {
        self.endpoint.as_deref()
    }

    /// Returns the socket over which the stream goes.
    pub fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    /// Returns true when decrypted bytes, or the stream's end, can be read without waiting. TLS has messages without
    /// data, so a readable socket is not enough.
    pub fn has_input(&mut self) -> bool {
        loop {
            match self.stream.conn.process_new_packets() {
                Ok(state) if state.plaintext_bytes_to_read() == 0 && !state.peer_has_closed() => {}
                _ => return true,
            }
            if self.stream.sock.set_nonblocking(true).is_err() {
                return false;
            }
            let read = self.stream.conn.read_tls(&mut self.stream.sock);
            if self.stream.sock.set_nonblocking(false).is_err() {
                return true;
            }
            match read {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                // The next read returns the end or the error.
                Ok(0) | Err(_) => return true,
            }
        }
    }
}

impl Read for Tls {
    /// Reads the decrypted bytes that come with one read of the socket. If that read ends inside a record, returns the
    /// error `Interrupted`. So the caller can check its time limit, even if a record comes byte by byte.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let StreamOwned { conn, sock } = &mut self.stream;
        // Send answers to the server's messages, such as requests for new keys.
        while conn.wants_write() {
            conn.write_tls(sock)?;
        }
        for is_new in [false, true] {
            match conn.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The server closed the connection without TLS's closing message, as when it is killed.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            if !is_new {
                conn.read_tls(sock)?;
                conn.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            }
        }
        Err(ErrorKind::Interrupted.into())
    }
}

impl Write for Tls {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl AsFd for Tls {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }
}
