//! Certificates and servers for tests of TLS. Each test makes its own certificates, and its servers listen on loopback.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::server::security::{Security, SslMode};

/// A server's certificate with its key, in files and in memory.
pub(crate) struct Identity {
    pub chain: Vec<CertificateDer<'static>>,
    pub cert: PathBuf,
    pub key: PathBuf,
    secret: Vec<u8>,
}

/// An authority that signs certificates, and a directory with the authority's own certificate.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub root_cert: PathBuf,
    place: tempfile::TempDir,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("it is made");
        let place = tempfile::tempdir().expect("a directory");
        let root_cert = place.path().join("root.pem");
        std::fs::write(&root_cert, issuer.pem()).expect("there is room");
        Authority { issuer, root_cert, place }
    }

    /// Signs a certificate for these names, after `edit` has changed it.
    pub fn sign(&self, names: &[&str], edit: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("they are names");
        params.distinguished_name.push(DnType::CommonName, "server");
        edit(&mut params);
        let key = KeyPair::generate().expect("a key");
        let made = params.signed_by(&key, &self.issuer).expect("it is made");
        self.identity(made.pem(), made.der().clone(), &key)
    }

    /// Returns the authority's own certificate, for use as a server's.
    pub fn itself(&self) -> Identity {
        self.identity(self.issuer.pem(), self.issuer.der().clone(), self.issuer.key())
    }

    fn identity(&self, pem: String, der: CertificateDer<'static>, key: &KeyPair) -> Identity {
        let (cert, key_file) = (self.place.path().join("cert.pem"), self.place.path().join("key.pem"));
        std::fs::write(&cert, pem).expect("there is room");
        write_secret(&key_file, &key.serialize_pem());
        Identity { chain: vec![der], cert, key: key_file, secret: key.serialize_der() }
    }

    /// Returns the security of connections with this mode and this authority's root certificate.
    pub fn security(&self, mode: SslMode) -> Security {
        Security { mode, root_cert: Some(self.root_cert.clone()), ..Security::default() }
    }
}

/// Writes a file that no other user may read.
pub(crate) fn write_secret(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).expect("there is room");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
}

impl Identity {
    fn key(&self) -> PrivateKeyDer<'static> {
        PrivatePkcs8KeyDer::from(self.secret.clone()).into()
    }

    /// Makes the server's handshake over a socket. With `clients`, demands a client's certificate that this authority
    /// signed.
    pub fn accept(&self, socket: TcpStream, clients: Option<&Authority>) -> Option<Accepted> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let config = config.with_safe_default_protocol_versions().expect("all of them");
        let config = match clients {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(authority.issuer.der().clone()).expect("it is one");
                let verifier =
                    rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                config.with_client_cert_verifier(verifier.expect("it has roots"))
            }
        };
        let config = config.with_single_cert(self.chain.clone(), self.key()).expect("they fit");
        let mut session = ServerConnection::new(Arc::new(config)).expect("it is whole");
        let mut socket = socket;
        while session.is_handshaking() {
            session.complete_io(&mut socket).ok()?;
        }
        Some(StreamOwned::new(session, socket))
    }
}

pub(crate) type Accepted = StreamOwned<ServerConnection, TcpStream>;

/// Starts a thread that acts as a server for a number of connections, one after the other. Returns the server's address
/// and the thread.
pub(crate) fn serve(
    connections: usize,
    mut play: impl FnMut(TcpStream, usize) + Send + 'static,
) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let thread = std::thread::spawn(move || {
        for number in 0..connections {
            play(listener.accept().expect("the test connects").0, number);
        }
    });
    (address, thread)
}
