//! Encrypts a password with a server's public RSA key: RSAES-OAEP with SHA-1 (RFC 8017, section 7.1.1), as MySQL's
//! `caching_sha2_password` expects it (sql/auth/sha2_password.cc, `decrypt_RSA_private_key`; OpenSSL's default OAEP).

use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;
use sha1::Sha1;

/// A server's public RSA key.
pub(crate) struct RsaKey(PublicKey);

impl RsaKey {
    /// Reads a key from its PEM text. Returns none if it is not an RSA key of 1024 to 8192 bits, which are the limits
    /// of the crate that encrypts.
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        PublicKey::from_public_key_der(&der).ok().map(RsaKey)
    }

    /// Encrypts a message. Returns none if it is too long for the key.
    pub fn encrypt(&self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.oaep_encrypt::<Sha1>(message).ok()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use rsa::traits::PublicKeyParts;
    use rsa::{BoxedUint, PrivateKey};

    use super::*;

    /// A key that `openssl genrsa 1024` made.
    pub(crate) const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDvSjJT7v3fC3fDGGXqe0i6CbrI
ZQNzXGMqo4bd6keSwIGfyeLSObc51j/g0mhNFFRd9ca2MsNi8cHCvUkm3hfq61I6
kek+jabEjtvuqsdDTHT5+nzHGXgj0f3yMn1mQ7QmsCb4P/R93vTFF+8GY49H9gWM
dKHSb9jJFNg4mDJkWQIDAQAB
-----END PUBLIC KEY-----
";
    const PRIVATE_EXPONENT: &[u8] = b"\
        e0b4f553fa7f2ec04f23c73a959a562e55cab03aa3a5e6613d7e38bd162f46313ec8b5c62992876c69b4acc409ac3066\
        15a2228ba059f9057be60ae8b1f627cfe3777bb3ebc56c3819048625287554c9782af3e203b65cc94da55a160d2df3a1\
        509153370f21475af49e4fd5208ef8ac9e6f56dc60369dcc45c881b345bc836d";
    /// "a golden message" and a zero byte, encrypted by `openssl pkeyutl -encrypt -pkeyopt rsa_padding_mode:oaep`.
    const FROM_OPENSSL: &[u8] = b"\
        73329c835d86a923c652541ec760455ccca81bdbb7a3bffcc14446a1326d38df56c2693b65bdf18137698a243505e7aa\
        5835c49060c348c17d90c3cdccc5e7558a8dd2d0940e484d976d191207c47ae4c00955609daae59cb5c750ee2256ddb1\
        8f117b311e91b2bb704c4938fd7f8d147448a288d991fed8617c157e6684be6b";

    /// Decrypts a text that was encrypted with [`PUBLIC_KEY`], as a server does.
    pub(crate) fn decrypted(cipher: &[u8]) -> Option<Vec<u8>> {
        let RsaKey(key) = RsaKey::from_pem(PUBLIC_KEY.as_bytes())?;
        let exponent = BoxedUint::from_be_slice(&bytes(PRIVATE_EXPONENT), 1024).ok()?;
        let key = PrivateKey::from_components(key.n().as_ref().clone(), key.e().clone(), exponent, Vec::new()).ok()?;
        key.oaep_decrypt::<Sha1>(cipher).ok()
    }

    /// Returns the bytes that hexadecimal digits give.
    fn bytes(digits: &[u8]) -> Vec<u8> {
        let digit = |&digit: &u8| char::from(digit).to_digit(16).expect("a digit") as u8;
        digits.chunks(2).map(|pair| digit(&pair[0]) << 4 | digit(&pair[1])).collect()
    }

    #[test]
    fn what_openssl_encrypts_is_read_and_what_is_encrypted_here_too() {
        assert_eq!(decrypted(&bytes(FROM_OPENSSL)).as_deref(), Some(&b"a golden message\0"[..]));
        let key = RsaKey::from_pem(PUBLIC_KEY.as_bytes()).expect("a key");
        for message in [&b"a golden message\0"[..], b"", &[7; 86]] {
            let cipher = key.encrypt(message).expect("it fits");
            assert_eq!((cipher.len(), decrypted(&cipher).as_deref()), (128, Some(message)));
            assert_ne!(Some(cipher), key.encrypt(message), "each time another");
        }
        assert_eq!(key.encrypt(&[7; 87]), None);
    }

    #[test]
    fn what_is_no_usual_key_is_refused() {
        let short = PUBLIC_KEY.replace("MIGf", "MIGe");
        for broken in ["", "-----BEGIN PUBLIC KEY-----\nMAA=\n-----END PUBLIC KEY-----\n", &short] {
            assert!(RsaKey::from_pem(broken.as_bytes()).is_none(), "{broken}");
        }
        let ours = rcgen::KeyPair::generate().expect("a key of an elliptic curve").public_key_pem();
        assert!(RsaKey::from_pem(ours.as_bytes()).is_none());
    }
}
