//! Reads numbers and strings of MySQL's protocol from bytes that a server sent. It never reads past their end.

use std::io::{Error, ErrorKind};

/// The bytes of a packet that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub(in crate::mysql) struct Bytes<'a>(pub(in crate::mysql) &'a [u8]);

/// Returns the error of a packet that breaks the protocol.
pub(in crate::mysql) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the server's answer is broken: {what}"))
}

impl<'a> Bytes<'a> {
    pub(in crate::mysql) fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| broken("a packet ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// Takes the bytes before the next zero byte, or all remaining bytes if there is none.
    pub(in crate::mysql) fn until_zero(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        taken
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(in crate::mysql) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.array::<1>()?[0])
    }

    pub(in crate::mysql) fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(in crate::mysql) fn u32(&mut self) -> Result<u32, Error> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(in crate::mysql) fn u64(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads an integer whose first byte is its value or says how many bytes of it follow.
    pub(in crate::mysql) fn length(&mut self) -> Result<u64, Error> {
        Ok(match self.u8()? {
            small @ 0..=0xfa => small.into(),
            0xfc => self.u16()?.into(),
            0xfd => {
                let [a, b, c] = self.array()?;
                u32::from_le_bytes([a, b, c, 0]).into()
            }
            0xfe => self.u64()?,
            0xfb | 0xff => return Err(broken("an invalid length")),
        })
    }

    /// Reads a length, and the string of this length that follows.
    pub(in crate::mysql) fn string(&mut self) -> Result<&'a [u8], Error> {
        let length = self.length()?;
        self.take(usize::try_from(length).map_err(|_| broken("a length beyond memory"))?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_are_read_in_their_four_forms() {
        let read = |bytes: &[u8]| Bytes(bytes).length();
        assert_eq!(read(&[0xfa]).expect("it is whole"), 250);
        assert_eq!(read(&[0xfc, 1, 2]).expect("it is whole"), 0x201);
        assert_eq!(read(&[0xfd, 1, 2, 3]).expect("it is whole"), 0x3_0201);
        assert_eq!(read(&[0xfe, 1, 0, 0, 0, 0, 0, 0, 1]).expect("it is whole"), (1 << 56) + 1);
        for broken in [&[][..], &[0xfb], &[0xff], &[0xfc, 1], &[0xfe, 0, 0]] {
            assert!(read(broken).is_err(), "{broken:?}");
        }
    }

    #[test]
    fn a_string_longer_than_its_packet_is_broken() {
        assert_eq!(Bytes(b"\x03abc!").string().expect("it is whole"), b"abc");
        assert!(Bytes(b"\x05abc").string().is_err());
        assert!(Bytes(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xffabc").string().is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut rest = Bytes(&bytes);
            while rest.string().is_ok() && !rest.0.is_empty() {}
        }
    }
}
