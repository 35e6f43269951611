//! Encrypts a password with a server's public RSA key: RSAES-OAEP with SHA-1 (RFC 8017, section 7.1.1), as MySQL's
//! `caching_sha2_password` wants it (sql/auth/sha2_password.cc, `decrypt_RSA_private_key`; OpenSSL's default OAEP).

use num_bigint::BigUint;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use super::der::rsa_key;

/// Sizes of keys that are used: MySQL makes 2048 bits; a longer key would only cost time.
const KEY_BITS: std::ops::RangeInclusive<u64> = 1024..=16_384;

/// A public key.
pub(crate) struct RsaKey {
    modulus: BigUint,
    exponent: BigUint,
}

impl RsaKey {
    /// Reads a key from its PEM text; none when it is no RSA key of a usual size.
    pub fn from_pem(pem: &[u8]) -> Option<Self> {
        let der = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
        let (modulus, exponent) = rsa_key(&der)?;
        let (modulus, exponent) = (BigUint::from_bytes_be(modulus), BigUint::from_bytes_be(exponent));
        // An even modulus is no product of two odd primes; an exponent of more than 64 bits is nobody's.
        let is_usual = KEY_BITS.contains(&modulus.bits()) && modulus.bit(0) && (2..=64).contains(&exponent.bits());
        is_usual.then_some(RsaKey { modulus, exponent })
    }

    /// Encrypts a message; none when it is too long for the key.
    pub fn encrypt(&self, message: &[u8]) -> Option<Vec<u8>> {
        let mut seed = [0; SHA1_OUTPUT_LEN];
        SystemRandom::new().fill(&mut seed).ok()?;
        let size = self.modulus.bits().div_ceil(8) as usize;
        let block = encoded(message, &seed, size)?;
        let cipher = BigUint::from_bytes_be(&block).modpow(&self.exponent, &self.modulus).to_bytes_be();
        let mut whole = vec![0; size - cipher.len()];
        whole.extend_from_slice(&cipher);
        Some(whole)
    }
}

/// Returns the encoded message of a size: zero, the masked seed, and the masked block of hash, padding and message.
fn encoded(message: &[u8], seed: &[u8; SHA1_OUTPUT_LEN], size: usize) -> Option<Vec<u8>> {
    let padding = size.checked_sub(message.len() + 2 * SHA1_OUTPUT_LEN + 2)?;
    let mut block = digest(&SHA1_FOR_LEGACY_USE_ONLY, b"").as_ref().to_vec();
    block.resize(block.len() + padding, 0);
    block.push(1);
    block.extend_from_slice(message);
    mask(&mut block, seed);
    let mut masked_seed = *seed;
    mask(&mut masked_seed, &block);
    Some([&[0], &masked_seed[..], &block].concat())
}

/// Combines bytes with the mask that MGF1 makes of a seed.
fn mask(bytes: &mut [u8], seed: &[u8]) {
    for (counter, part) in (0u32..).zip(bytes.chunks_mut(SHA1_OUTPUT_LEN)) {
        let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[seed, &counter.to_be_bytes()].concat());
        part.iter_mut().zip(hash.as_ref()).for_each(|(byte, mask)| *byte ^= mask);
    }
}

#[cfg(test)]
pub(crate) mod tests {
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
    /// "a golden message" and a zero byte: `openssl pkeyutl -encrypt -pkeyopt rsa_padding_mode:oaep`.
    const FROM_OPENSSL: &[u8] = b"\
        73329c835d86a923c652541ec760455ccca81bdbb7a3bffcc14446a1326d38df56c2693b65bdf18137698a243505e7aa\
        5835c49060c348c17d90c3cdccc5e7558a8dd2d0940e484d976d191207c47ae4c00955609daae59cb5c750ee2256ddb1\
        8f117b311e91b2bb704c4938fd7f8d147448a288d991fed8617c157e6684be6b";

    /// Decrypts what was encrypted with [`PUBLIC_KEY`], as a server does.
    pub(crate) fn decrypted(cipher: &[u8]) -> Option<Vec<u8>> {
        let key = RsaKey::from_pem(PUBLIC_KEY.as_bytes())?;
        let exponent = BigUint::parse_bytes(PRIVATE_EXPONENT, 16)?;
        let mut block = BigUint::from_bytes_be(cipher).modpow(&exponent, &key.modulus).to_bytes_be();
        block.splice(0..0, vec![0; 128 - block.len()]);
        let (seed, rest) = block[1..].split_at_mut(SHA1_OUTPUT_LEN);
        mask(seed, rest);
        mask(rest, seed);
        let padded = rest.strip_prefix(digest(&SHA1_FOR_LEGACY_USE_ONLY, b"").as_ref())?;
        let one = padded.iter().position(|&byte| byte != 0)?;
        (padded[one] == 1).then(|| padded[one + 1..].to_vec())
    }

    #[test]
    fn what_openssl_encrypts_is_read_and_what_is_encrypted_here_too() {
        let golden = BigUint::parse_bytes(FROM_OPENSSL, 16).expect("digits").to_bytes_be();
        assert_eq!(decrypted(&golden).as_deref(), Some(&b"a golden message\0"[..]));
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
