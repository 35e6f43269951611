//! Decides by libpq's modes whether to trust a server's certificate, and explains a refusal.
//!
//! rustls and webpki do the checks; this file chooses which are done. Without root certificates it accepts every
//! certificate, but still checks that the server has the certificate's key, because PostgreSQL's channel binding relies
//! on that.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::der::Certificate;
use crate::lock;
use crate::server::refusal::Refusal;
use bufferlab_workload::datetime::DateTime;

/// The root certificates, which may sign a server's certificate.
#[derive(Debug)]
pub(super) struct Roots {
    path: PathBuf,
    store: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// Reads a file of root certificates.
    pub fn read(path: PathBuf) -> Result<Self, Refusal> {
        let certificates = certificates(&path, "sslrootcert")?;
        let mut store = RootCertStore::empty();
        for certificate in &certificates {
            store.add(certificate.clone()).map_err(|error| {
                let what = format!("{} holds a certificate that cannot be used: {error}", path.display());
                Refusal::new(what, "name a file of certificates in PEM form: sslrootcert=FILE")
            })?;
        }
        Ok(Roots { path, store, certificates })
    }
}

/// Reads a file of at least one certificate (PEM). `option` is the user's option that names the file.
pub(super) fn certificates(path: &std::path::Path, option: &str) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    let hint = "name a readable file of certificates in PEM form";
    let unusable = |why: String| Refusal::new(format!("{option}: {} cannot be used: {why}", path.display()), hint);
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = read.map_err(|error| unusable(error.to_string()))?;
    if found.is_empty() { Err(unusable("it holds no certificate".to_owned())) } else { Ok(found) }
}

/// The verifier of one connection.
#[derive(Debug)]
pub(super) struct Verifier {
    pub algorithms: WebPkiSupportedAlgorithms,
    /// The root certificates; without them the verifier accepts every certificate.
    pub roots: Option<Roots>,
    /// The host that the certificate must name; none if it may have any name.
    pub host: Option<String>,
    /// The last refusal, for the user.
    pub refused: Mutex<Option<Refusal>>,
    /// True if the server's key was not checked, because webpki cannot read its certificate.
    pub unproven: AtomicBool,
}

impl Verifier {
    fn trusted(
        &self,
        roots: &Roots,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        if roots.certificates.contains(certificate) {
            // The server's certificate is self-signed and is itself among the roots. webpki refuses such a certificate,
            // but OpenSSL accepts it.
            holds_now(certificate, now)?;
        } else {
            let parsed = ParsedCertificate::try_from(certificate)?;
            let all = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &roots.store, intermediates, now, all)?;
        }
        if self.host.is_some() { verify_server_name(&ParsedCertificate::try_from(certificate)?, name) } else { Ok(()) }
    }

    fn sentence(&self, roots: &Roots, error: &Error, certificate: &CertificateDer<'_>) -> Refusal {
        let parts = Certificate::parse(certificate);
        let Error::InvalidCertificate(why) = error else { return unusable(error) };
        match why {
            CertificateError::ExpiredContext { not_after, .. } => {
                let is_own = parts.is_none_or(|parts| parts.valid_micros.1 == micros(*not_after));
                if is_own { Refusal::expired(&day(*not_after)) } else { Refusal::signer_expired() }
            }
            CertificateError::NotValidYetContext { not_before, .. } => Refusal::not_yet_valid(&day(*not_before)),
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Refusal::not_signed(&roots.path),
            CertificateError::NotValidForNameContext { presented, .. } => {
                let host = self.host.as_deref().unwrap_or_default();
                let names: Vec<String> = presented.iter().filter_map(|name| plain_name(name)).collect();
                let in_cn = |parts: Certificate| parts.common_names.iter().any(|cn| cn.eq_ignore_ascii_case(host));
                if names.is_empty() && parts.is_some_and(in_cn) {
                    return Refusal::name_in_cn_alone(host);
                }
                Refusal::wrong_name(&names, host)
            }
            // If a server presents an authority's certificate as its own, webpki refuses it before it looks for the signer.
            CertificateError::Other(_) if parts.is_some_and(|parts| parts.is_self_issued) => {
                Refusal::not_signed(&roots.path)
            }
            _ => unusable(error),
        }
    }

    /// Returns the result of checking the handshake's signature. Without root certificates, accepts a certificate of
    /// version 1, which webpki cannot read, and records that the server has not proven that it has the key.
    fn or_unproven(
        &self,
        checked: Result<HandshakeSignatureValid, Error>,
        certificate: &CertificateDer<'_>,
    ) -> Result<HandshakeSignatureValid, Error> {
        if checked.is_err()
            && self.roots.is_none()
            && Certificate::parse(certificate).is_some_and(|parts| parts.is_version_1)
        {
            self.unproven.store(true, Ordering::Relaxed);
            return Ok(HandshakeSignatureValid::assertion());
        }
        checked
    }
}

fn unusable(error: &Error) -> Refusal {
    let hint = "see what is wrong with it: openssl x509 -text";
    Refusal::new(format!("the server's certificate cannot be used: {error}"), hint)
}

fn holds_now(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (first, last) = Certificate::parse(certificate).ok_or(CertificateError::BadEncoding)?.valid_micros;
    let time = |micros: i64| {
        UnixTime::since_unix_epoch(std::time::Duration::from_micros(u64::try_from(micros).unwrap_or_default()))
    };
    if micros(now) < first {
        return Err(CertificateError::NotValidYetContext { time: now, not_before: time(first) }.into());
    }
    if micros(now) > last {
        return Err(CertificateError::ExpiredContext { time: now, not_after: time(last) }.into());
    }
    Ok(())
}

fn micros(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX / 1_000_000).saturating_mul(1_000_000)
}

fn day(time: UnixTime) -> String {
    let date = DateTime::from_micros(micros(time));
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// Returns the plain name in an entry of webpki's list, such as `DnsName("db")` or `IpAddress(127.0.0.1)`; none for
/// other kinds of names.
fn plain_name(shown: &str) -> Option<String> {
    let (kind, name) = shown.strip_suffix(')')?.split_once('(')?;
    matches!(kind, "DnsName" | "IpAddress").then(|| name.trim_matches('"').to_owned())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(roots) = &self.roots else { return Ok(ServerCertVerified::assertion()) };
        let trusted = self.trusted(roots, end_entity, intermediates, server_name, now);
        trusted.map(|()| ServerCertVerified::assertion()).inspect_err(|error| {
            *lock(&self.refused) = Some(self.sentence(roots, error, end_entity));
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.or_unproven(verify_tls12_signature(message, cert, dss, &self.algorithms), cert)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.or_unproven(verify_tls13_signature(message, cert, dss, &self.algorithms), cert)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
