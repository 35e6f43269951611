//! Reads the server's messages in place: their frames, and the bodies that a client needs.
//!
//! The formats are those of PostgreSQL's documentation ("Frontend/Backend Protocol", version 3.0, Message Formats). No
//! function here trusts a length: a message that does not fit is [`Malformed`]. This file uses no socket.

use std::borrow::Cow;
use std::fmt;

use super::error::ServerError;

/// Largest message that a client accepts: PostgreSQL itself builds none above one gigabyte.
const MAX_MESSAGE_BYTES: usize = 1 << 30;
/// Bytes of a message's header: one for its type, four for its length.
pub const HEADER_BYTES: usize = 5;

/// Bytes that are not a message of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub Cow<'static, str>);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const TRUNCATED: Malformed = Malformed(Cow::Borrowed("a message is shorter than its content"));

/// Returns the bytes of the message that begins here, with its header; none if the header is not complete.
///
/// # Errors
/// When the length in the header is impossible: below four, or above one gigabyte.
pub fn message_bytes(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER_BYTES>() else { return Ok(None) };
    // The length counts its own four bytes, but not the byte of the type.
    let length = i32::from_be_bytes([a, b, c, d]);
    match usize::try_from(length) {
        Ok(length) if (4..=MAX_MESSAGE_BYTES).contains(&length) => Ok(Some(1 + length)),
        _ => Err(Malformed(format!("a message {:?} of {length} bytes", char::from(tag)).into())),
    }
}

/// The bytes of a message's body that have not been read yet.
#[derive(Clone, Copy, Debug)]
pub struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    /// Returns the next `bytes` bytes.
    ///
    /// # Errors
    /// When the message has fewer bytes.
    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(TRUNCATED)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Returns the next byte.
    ///
    /// # Errors
    /// When the message ends before.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Returns the next two bytes as a number. It has no sign, because counts are never negative.
    ///
    /// # Errors
    /// When the message ends before.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        Ok(u16::from_be_bytes(self.array()?).into())
    }

    /// Returns the next four bytes as a number.
    ///
    /// # Errors
    /// When the message ends before.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.array()?))
    }

    /// Returns the next four bytes as an object identifier, the number of a type or a table.
    ///
    /// # Errors
    /// When the message ends before.
    pub fn oid(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Returns the text up to the next zero byte.
    ///
    /// # Errors
    /// When the message has no zero byte.
    pub fn text(&mut self) -> Result<Cow<'a, str>, Malformed> {
        let end = self.0.iter().position(|&byte| byte == 0).ok_or(TRUNCATED)?;
        let text = self.take(end)?;
        self.byte()?;
        Ok(String::from_utf8_lossy(text))
    }

    /// Returns the next value of a row; none for NULL. In the message it is a length, -1 for NULL, and that many bytes.
    ///
    /// # Errors
    /// When the message has fewer bytes.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, Malformed> {
        match self.int()? {
            -1 => Ok(None),
            length => Ok(Some(self.take(usize::try_from(length).map_err(|_| TRUNCATED)?)?)),
        }
    }
}

/// Returns the types of a statement's parameters, by their numbers at the server.
///
/// # Errors
/// When the body is not a `ParameterDescription`.
pub fn parameter_types(body: &[u8]) -> Result<Vec<u32>, Malformed> {
    let mut body = Body(body);
    let count = body.count()?;
    (0..count).map(|_| body.oid()).collect()
}

/// Returns the types of a statement's columns, by their numbers at the server.
///
/// # Errors
/// When the body is not a `RowDescription`.
pub fn column_types(body: &[u8]) -> Result<Vec<u32>, Malformed> {
    let mut body = Body(body);
    let count = body.count()?;
    let mut types = Vec::new();
    for _ in 0..count {
        body.text()?;
        // Skip the table and the column from which it comes.
        body.take(6)?;
        types.push(body.oid()?);
        // Skip its size, its modifier and its format.
        body.take(8)?;
    }
    Ok(types)
}

/// Returns the number of rows that a command wrote or returned: the last word of its tag, such as "INSERT 0 1" or
/// "UPDATE 3". Returns zero for a tag without a number.
///
/// # Errors
/// When the body is not a `CommandComplete`.
pub fn tagged_rows(body: &[u8]) -> Result<u64, Malformed> {
    let tag = body.strip_suffix(&[0]).ok_or(TRUNCATED)?;
    let digits = tag.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let mut rows: u64 = 0;
    for &digit in &tag[tag.len() - digits..] {
        let grown = rows.checked_mul(10).and_then(|rows| rows.checked_add((digit - b'0').into()));
        rows = grown.ok_or(Malformed("a command's tag counts too many rows".into()))?;
    }
    Ok(rows)
}

/// Parses the fields of an error or a notice.
///
/// # Errors
/// When the body is not an `ErrorResponse`.
pub fn server_error(body: &[u8]) -> Result<ServerError, Malformed> {
    let mut body = Body(body);
    let mut error = ServerError::default();
    loop {
        let field = match body.byte()? {
            0 => return Ok(error),
            // The severity in English, which the server's language does not change.
            b'V' => &mut error.severity,
            b'C' => &mut error.code,
            b'M' => &mut error.message,
            b'D' => &mut error.detail,
            b'H' => &mut error.hint,
            _ => {
                body.text()?;
                continue;
            }
        };
        *field = body.text()?.into_owned();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_says_how_long_its_message_is() {
        assert_eq!(message_bytes(b"Z\0\0\0"), Ok(None));
        assert_eq!(message_bytes(b"Z\0\0\0\x05I"), Ok(Some(6)));
        for length in [0, 3, -1, i32::MIN, i32::MAX] {
            let mut bytes = vec![b'D'];
            bytes.extend_from_slice(&length.to_be_bytes());
            let refused = message_bytes(&bytes).expect_err("no message is that long");
            assert!(refused.to_string().contains(&length.to_string()), "{refused}");
        }
    }

    #[test]
    fn tags_tell_rows() {
        for (tag, rows) in [("INSERT 0 12\0", 12), ("UPDATE 3\0", 3), ("COMMIT\0", 0), ("SELECT 0\0", 0), ("\0", 0)] {
            assert_eq!(tagged_rows(tag.as_bytes()), Ok(rows), "{tag}");
        }
        assert!(tagged_rows(b"UPDATE 3").is_err());
        assert!(tagged_rows(b"UPDATE 99999999999999999999999\0").is_err());
    }

    #[test]
    fn an_errors_fields_are_found_in_any_order() {
        let body = b"SFEHLER\0VERROR\0C40001\0Mcould not serialize\0Hretry\0Fheapam.c\0\0";
        let error = server_error(body).expect("it is whole");
        assert_eq!((error.severity.as_str(), error.code.as_str(), error.hint.as_str()), ("ERROR", "40001", "retry"));
        assert!(server_error(&body[..body.len() - 1]).is_err());
        assert!(server_error(b"Mno end").is_err());
    }

    #[test]
    fn a_rows_values_end_where_it_ends() {
        let mut body = Body(b"\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\x09abc");
        assert_eq!(body.value(), Ok(Some(b"ab".as_slice())));
        assert_eq!(body.value(), Ok(None));
        assert_eq!(body.value(), Err(TRUNCATED));
        assert!(Body(b"\xff\xff\xff\xfe").value().is_err(), "there is no length of -2");
    }

    #[test]
    fn columns_are_described_by_their_types() {
        let mut body = b"\0\x02".to_vec();
        for (name, oid) in [("a", 23u32), ("b", 1700)] {
            body.extend_from_slice(name.as_bytes());
            body.extend_from_slice(&[0; 7]);
            body.extend_from_slice(&oid.to_be_bytes());
            body.extend_from_slice(&[0; 8]);
        }
        assert_eq!(column_types(&body), Ok(vec![23, 1700]));
        assert!(column_types(&body[..body.len() - 1]).is_err());
        assert_eq!(parameter_types(b"\0\x01\0\0\0\x17"), Ok(vec![23]));
        assert!(parameter_types(b"\xff\xff\0\0\0\x17").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_are_beyond_refusal(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Some(length)) = message_bytes(&bytes) {
                prop_assert!(length >= HEADER_BYTES);
            }
            let _ = (parameter_types(&bytes), column_types(&bytes), tagged_rows(&bytes), server_error(&bytes));
            let mut body = Body(&bytes);
            while body.value().is_ok() {}
        }
    }
}
