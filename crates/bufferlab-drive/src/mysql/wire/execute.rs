//! Encodes the command `COM_STMT_EXECUTE`: a prepared statement's number, and its parameters in binary.

use bufferlab_workload::client::Value;

const COM_STMT_EXECUTE: u8 = 0x17;
const NO_CURSOR: u8 = 0;
const ONE_ITERATION: u32 = 1;
const TYPES_FOLLOW: u8 = 1;

const DOUBLE: u8 = 5;
const NULL: u8 = 6;
const LONGLONG: u8 = 8;
const VAR_STRING: u8 = 253;

/// Appends the command that executes a prepared statement to a request.
pub(super) fn encode<'v>(statement: u32, params: impl Iterator<Item = Value<'v>> + Clone, request: &mut Vec<u8>) {
    request.push(COM_STMT_EXECUTE);
    request.extend_from_slice(&statement.to_le_bytes());
    request.push(NO_CURSOR);
    request.extend_from_slice(&ONE_ITERATION.to_le_bytes());
    let count = params.clone().count();
    if count == 0 {
        return;
    }
    let nulls = request.len();
    request.resize(nulls + count.div_ceil(8), 0);
    request.push(TYPES_FOLLOW);
    for (at, param) in params.clone().enumerate() {
        let kind = match param {
            Value::Null => {
                request[nulls + at / 8] |= 1 << (at % 8);
                NULL
            }
            Value::Int(_) => LONGLONG,
            Value::Real(_) => DOUBLE,
            Value::Text(_) => VAR_STRING,
        };
        // The second byte is zero for a signed type.
        request.extend_from_slice(&[kind, 0]);
    }
    for param in params {
        match param {
            Value::Null => {}
            Value::Int(int) => request.extend_from_slice(&int.to_le_bytes()),
            Value::Real(real) => request.extend_from_slice(&real.to_le_bytes()),
            Value::Text(text) => {
                length(text.len() as u64, request);
                request.extend_from_slice(text.as_bytes());
            }
        }
    }
}

fn length(length: u64, request: &mut Vec<u8>) {
    let bytes = length.to_le_bytes();
    match length {
        0..=0xfa => request.push(bytes[0]),
        0xfb..=0xffff => {
            request.push(0xfc);
            request.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            request.push(0xfd);
            request.extend_from_slice(&bytes[..3]);
        }
        _ => {
            request.push(0xfe);
            request.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Bytes;
    use super::*;

    #[test]
    fn a_command_is_laid_out_as_the_protocol_says() {
        let mut request = Vec::new();
        let params = [Value::Int(-2), Value::Null, Value::Text("ab"), Value::Real(0.5)];
        encode(7, params.into_iter(), &mut request);
        let mut expected = vec![0x17, 7, 0, 0, 0, 0, 1, 0, 0, 0, 0b10, 1, 8, 0, 6, 0, 253, 0, 5, 0];
        expected.extend_from_slice(&(-2_i64).to_le_bytes());
        expected.extend_from_slice(&[2, b'a', b'b']);
        expected.extend_from_slice(&0.5_f64.to_le_bytes());
        assert_eq!(request, expected);
    }

    #[test]
    fn without_parameters_nothing_follows_and_nine_have_two_bytes_of_nulls() {
        let mut request = Vec::new();
        encode(1, [].into_iter(), &mut request);
        assert_eq!(request.len(), 10);
        request.clear();
        encode(1, [Value::Null; 9].into_iter(), &mut request);
        assert_eq!(request[10..12], [0xff, 1]);
    }

    #[test]
    fn lengths_are_read_back_as_written() {
        for value in [0, 250, 251, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::from(u32::MAX)] {
            let mut request = Vec::new();
            length(value, &mut request);
            assert_eq!(Bytes(&request).length().expect("it is whole"), value);
        }
    }
}
