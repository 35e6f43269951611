//! Reads the parts of X.509 certificates that rustls does not show: names, times, the algorithm of the signature.
//!
//! This file does not verify certificates, because rustls does.

use x509_cert::certificate::{CertificateInner, Raw, Version};
use x509_cert::der::Decode;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::name::Name;
use x509_cert::time::Time;

/// The parts of a certificate that this client needs.
#[derive(Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Whether the certificate is of version 1, which has no extensions and so no list of names.
    pub is_version_1: bool,
    /// Whether the certificate's issuer is its subject.
    pub is_self_issued: bool,
    /// The first and the last moment at which the certificate is valid, in microseconds since 1970.
    pub valid_micros: (i64, i64),
    /// The common names (CN) of the certificate's subject.
    pub common_names: Vec<String>,
    /// The algorithm with which the issuer signed the certificate.
    pub signature_algorithm: ObjectIdentifier,
}

impl Certificate {
    /// Returns the parts of a certificate; none for bytes that are not one.
    pub fn parse(der: &[u8]) -> Option<Self> {
        // Parse without strict checks: certificates that servers generate break rules of RFC 5280, such as the length
        // of the serial number.
        let certificate = CertificateInner::<Raw>::from_der(der).ok()?;
        let signed = certificate.tbs_certificate();
        let validity = signed.validity();
        Some(Certificate {
            is_version_1: signed.version() == Version::V1,
            is_self_issued: signed.issuer() == signed.subject(),
            valid_micros: (micros(validity.not_before)?, micros(validity.not_after)?),
            common_names: common_names(signed.subject()),
            signature_algorithm: certificate.signature_algorithm().oid,
        })
    }
}

fn common_names(subject: &Name) -> Vec<String> {
    let names = subject.iter().filter(|attribute| attribute.oid == COMMON_NAME);
    names.map(|name| String::from_utf8_lossy(name.value.value()).into_owned()).collect()
}

fn micros(time: Time) -> Option<i64> {
    i64::try_from(time.to_unix_duration().as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    use x509_cert::der::oid::db::rfc5912::ECDSA_WITH_SHA_256;

    use super::*;
    use bufferlab_workload::datetime::DateTime;

    /// A certificate of version 1 that OpenSSL 3.0 made by `x509 -req -signkey`. Its serial number has 24 bytes, and
    /// RFC 5280 allows 20.
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBSzCB8QIYcQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYMAoGCCqGSM49BAMCMCYx
DjAMBgNVBAoMBWhvdXNlMRQwEgYDVQQDDAtvbGQuZXhhbXBsZTAeFw0yNjExMjUx
MjQ5NTdaFw0zNjExMjIxMjQ5NTdaMCYxDjAMBgNVBAoMBWhvdXNlMRQwEgYDVQQD
DAtvbGQuZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABAPkWLSx9mP+
Y0CmAQrY1LNTWjQDjmBDeW93EUkGn5EQBfn3+PNjD+1cbwF/m16WgqiRp2fbol9/
HL/buz6c094wCgYIKoZIzj0EAwIDSQAwRgIhAIbfQWBeV3UmK5jKfMFHeujbk295
TwG/untdWaL7hbQFAiEA3ZJUnRX7hq2kuc2mi5K22tpcgF9Ve3vFjv23xDyQwhA=
-----END CERTIFICATE-----
";

    fn day(year: i64, month: u8, day: u8) -> i64 {
        DateTime { year, month, day, time: (0, 0, 0) }.micros()
    }

    #[test]
    fn a_certificate_has_the_parts_that_it_was_made_with() {
        let mut params = CertificateParams::new(vec!["db".to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::OrganizationName, "house");
        params.distinguished_name.push(DnType::CommonName, "db.example");
        (params.not_before, params.not_after) = (date_time_ymd(2001, 2, 3), date_time_ymd(2055, 12, 31));
        let made = params.self_signed(&KeyPair::generate().expect("a key")).expect("it is made");
        let parts = Certificate::parse(made.der()).expect("it is one");
        assert_eq!(parts.common_names.last().map(String::as_str), Some("db.example"));
        assert_eq!(parts.valid_micros, (day(2001, 2, 3), day(2055, 12, 31)));
        assert!(parts.is_self_issued && !parts.is_version_1);
    }

    #[test]
    fn a_certificate_of_version_1_with_a_long_number_is_read() {
        let der = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).expect("it is PEM");
        let expected = Certificate {
            is_version_1: true,
            is_self_issued: true,
            valid_micros: (1_795_610_997_000_000, 2_110_970_997_000_000),
            common_names: vec!["old.example".to_owned()],
            signature_algorithm: ECDSA_WITH_SHA_256,
        };
        assert_eq!(Certificate::parse(&der), Some(expected));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Certificate::parse(&bytes);
        }

        #[test]
        fn a_broken_certificate_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
            let made = rcgen::generate_simple_self_signed(vec!["db".to_owned()]).expect("it is made");
            let mut der = made.cert.der().to_vec();
            let at = at.index(der.len());
            der[at] = byte;
            let _ = Certificate::parse(&der);
        }
    }
}
