//! Reads the few parts of X.509 certificates and public keys that rustls does not show: names, times, numbers.
//!
//! DER is ITU-T X.690; certificates are RFC 5280, RSA keys RFC 8017. It never reads past the end, and believes nothing:
//! rustls verifies.

use crate::server::datetime::DateTime;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// The version of a certificate; version 1 leaves it out.
const VERSION: u8 = 0xa0;
/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The values that follow each other in some bytes.
#[derive(Clone, Copy)]
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    /// Takes the next value; returns its tag and content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&[tag, first], rest) = self.0.split_first_chunk::<2>()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Four bytes of length are more than any certificate needs.
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    /// Takes the next value, which must have this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|&(found, _)| found == tag).map(|(_, content)| content)
    }
}

/// Some parts of a certificate.
#[derive(Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// Whether it is of version 1, which has no extensions and so no names.
    pub is_version_1: bool,
    /// Whether its issuer is its subject.
    pub is_self_issued: bool,
    /// Microseconds since 1970 between which it is valid.
    pub valid_micros: (i64, i64),
    /// The common names of its subject.
    pub common_names: Vec<String>,
    /// Content of the algorithm with which it was signed: an object identifier, and parameters.
    pub signature_algorithm: &'a [u8],
}

impl<'a> Certificate<'a> {
    /// Returns the parts of a certificate; none when it is not encoded as one.
    pub fn parse(der: &'a [u8]) -> Option<Self> {
        let mut certificate = Values(Values(der).take(SEQUENCE)?);
        let mut signed = Values(certificate.take(SEQUENCE)?);
        let signature_algorithm = certificate.take(SEQUENCE)?;
        let mut after_version = signed;
        let is_version_1 = after_version.take(VERSION).is_none();
        if !is_version_1 {
            signed = after_version;
        }
        signed.take(INTEGER)?;
        signed.take(SEQUENCE)?;
        let issuer = signed.take(SEQUENCE)?;
        let mut validity = Values(signed.take(SEQUENCE)?);
        let valid_micros = (micros(validity.next()?)?, micros(validity.next()?)?);
        let subject = signed.take(SEQUENCE)?;
        let common_names = common_names(subject);
        Some(Certificate {
            is_version_1,
            is_self_issued: issuer == subject,
            valid_micros,
            common_names,
            signature_algorithm,
        })
    }
}

fn common_names(subject: &[u8]) -> Vec<String> {
    let (mut sets, mut names) = (Values(subject), Vec::new());
    while let Some(set) = sets.take(SET) {
        let mut attributes = Values(set);
        while let Some(attribute) = attributes.take(SEQUENCE) {
            let mut attribute = Values(attribute);
            if attribute.take(OBJECT) == Some(COMMON_NAME) {
                names.extend(attribute.next().map(|(_, name)| String::from_utf8_lossy(name).into_owned()));
            }
        }
    }
    names
}

/// Returns the microseconds since 1970 of a time: two or four digits of the year, two of each further part, and Z.
fn micros((tag, text): (u8, &[u8])) -> Option<i64> {
    let text = text.strip_suffix(b"Z").filter(|text| text.iter().all(u8::is_ascii_digit))?;
    let (year, rest) = match tag {
        UTC_TIME => text.split_at_checked(2)?,
        GENERALIZED_TIME => text.split_at_checked(4)?,
        _ => return None,
    };
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    let year = match (tag, number(year)) {
        (UTC_TIME, year @ 50..) => 1900 + year,
        (UTC_TIME, year) => 2000 + year,
        (_, year) => year,
    };
    let parts: Vec<u8> = rest.chunks(2).map(|digits| number(digits) as u8).collect();
    let &[month, day, hour, minute, second] = &parts[..] else { return None };
    Some(DateTime { year, month, day, time: (hour, minute, second) }.micros())
}

/// Returns modulus and exponent, big-endian, of a public RSA key in the form of certificates (`SubjectPublicKeyInfo`).
pub fn rsa_key(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut info = Values(Values(der).take(SEQUENCE)?);
    info.take(SEQUENCE)?;
    let key = info.take(BIT_STRING)?.strip_prefix(&[0])?;
    let mut numbers = Values(Values(key).take(SEQUENCE)?);
    Some((numbers.take(INTEGER)?, numbers.take(INTEGER)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

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
    fn times_of_both_forms_are_read() {
        assert_eq!(micros((UTC_TIME, b"491231235959Z")), Some(day(2050, 1, 1) - 1_000_000));
        assert_eq!(micros((UTC_TIME, b"500101000000Z")), Some(day(1950, 1, 1)));
        assert_eq!(micros((GENERALIZED_TIME, b"20500101000000Z")), Some(day(2050, 1, 1)));
        for broken in [&b"500101000000"[..], b"Z", b"5001010000Z", b"-00101000000Z"] {
            assert_eq!(micros((UTC_TIME, broken)), None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = (Certificate::parse(&bytes), rsa_key(&bytes));
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
