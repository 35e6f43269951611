//! Computes the hash of a server's certificate to which a login is bound: `tls-server-end-point` (RFC 5929, section
//! 4.1).

use ring::digest::{self, SHA256, SHA384, SHA512};
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::db::rfc5912::{
    ECDSA_WITH_SHA_256, ECDSA_WITH_SHA_384, ECDSA_WITH_SHA_512, MD_5_WITH_RSA_ENCRYPTION, SHA_1_WITH_RSA_ENCRYPTION,
    SHA_256_WITH_RSA_ENCRYPTION, SHA_384_WITH_RSA_ENCRYPTION, SHA_512_WITH_RSA_ENCRYPTION,
};

use super::der::Certificate;

/// Signature algorithms, each with its hash: the algorithm's own hash, or SHA-256 in place of MD5 and SHA-1, as RFC
/// 5929 says.
const SIGNED_WITH: [(ObjectIdentifier, &digest::Algorithm); 9] = [
    (MD_5_WITH_RSA_ENCRYPTION, &SHA256),
    (SHA_1_WITH_RSA_ENCRYPTION, &SHA256),
    (SHA_256_WITH_RSA_ENCRYPTION, &SHA256),
    (SHA_384_WITH_RSA_ENCRYPTION, &SHA384),
    (SHA_512_WITH_RSA_ENCRYPTION, &SHA512),
    // The algorithm ecdsa-with-SHA1, for which the crate has no name.
    (ObjectIdentifier::new_unwrap("1.2.840.10045.4.1"), &SHA256),
    (ECDSA_WITH_SHA_256, &SHA256),
    (ECDSA_WITH_SHA_384, &SHA384),
    (ECDSA_WITH_SHA_512, &SHA512),
];

/// Returns the hash of a certificate; none if its signature defines no hash (Ed25519) or has parameters (RSASSA-PSS).
pub(super) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let algorithm = Certificate::parse(certificate)?.signature_algorithm;
    let (_, hash) = SIGNED_WITH.iter().find(|(known, _)| *known == algorithm)?;
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
