//! The hash of a server's certificate to which a login binds: `tls-server-end-point` (RFC 5929, section 4.1).

use ring::digest::{self, SHA256, SHA384, SHA512};

use super::der::Certificate;

/// Object identifiers, as content, of signature algorithms that name their hash; RFC 5929 says SHA-256 for older hashes.
const SIGNED_WITH: [(&[u8], &digest::Algorithm); 9] = [
    // md5, sha1, sha256, sha384 and sha512 with RSA: 1.2.840.113549.1.1.
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", &SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", &SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", &SHA256),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", &SHA384),
    (b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", &SHA512),
    // ECDSA with sha1, sha256, sha384 and sha512: 1.2.840.10045.4.
    (b"\x2a\x86\x48\xce\x3d\x04\x01", &SHA256),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x02", &SHA256),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x03", &SHA384),
    (b"\x2a\x86\x48\xce\x3d\x04\x03\x04", &SHA512),
];

/// Returns the hash of a certificate; none for signatures without a hash of their own (Ed25519) or with parameters
/// (RSASSA-PSS).
pub(super) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = Certificate::parse(certificate)?.signature_algorithm;
    let (&[_tag, length], rest) = algorithm.split_first_chunk::<2>()?;
    let identifier = rest.get(..usize::from(length))?;
    let (_, hash) = SIGNED_WITH.iter().find(|(known, _)| *known == identifier)?;
    Some(digest::digest(hash, certificate).as_ref().to_vec())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    use super::*;

    #[test]
    fn the_hash_is_that_of_the_signature() {
        for (made_with, hash) in
            [(&PKCS_ECDSA_P256_SHA256, Some(&SHA256)), (&PKCS_ECDSA_P384_SHA384, Some(&SHA384)), (&PKCS_ED25519, None)]
        {
            let key = KeyPair::generate_for(made_with).expect("a key");
            let made = CertificateParams::new(Vec::new()).expect("no names").self_signed(&key).expect("it is made");
            let expected = hash.map(|hash| digest::digest(hash, made.der()).as_ref().to_vec());
            assert_eq!(server_end_point(made.der()), expected);
        }
        assert_eq!(server_end_point(b"no certificate"), None);
    }
}
