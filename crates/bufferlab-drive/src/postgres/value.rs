//! Values to and from the server: integers, floats and dates in the binary format, decimals and texts unchanged.
//!
//! The binary formats follow PostgreSQL's src/backend/utils/adt (numeric.c: numeric_send; timestamp.c; int.c). A
//! NUMERIC becomes an integer in units of its last digit, by its column's scale: 12.50 is 1250. Times are microseconds
//! since 1970, and a DATE is days since 1970. Only errors allocate memory.

use std::fmt::Write;

use bufferlab_workload::client::{Batch, Value};
use bytes::{BufMut, BytesMut};

use super::error::PgError;

const BOOL: u32 = 16;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const FLOAT4: u32 = 700;
const FLOAT8: u32 = 701;
const BPCHAR: u32 = 1042;
const VARCHAR: u32 = 1043;
const DATE: u32 = 1082;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const NUMERIC: u32 = 1700;

/// Days from 1970-01-01 to 2000-01-01, with which the server's dates begin.
const EPOCH_DAYS: i64 = 10_957;
const EPOCH_US: i64 = EPOCH_DAYS * 86_400_000_000;

/// Largest number of digits after the decimal point.
const MAX_SCALE: i32 = 18;

/// The meaning of integers for a parameter that is a date at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// Integers are dates, as bufferlab's own workloads write them.
    MayBeDates,
    /// Integers are numbers, which the server refuses for a date.
    AreNumbers,
}

/// Returns true when the client sends a value in the binary format of the parameter's type; otherwise it sends text.
pub fn is_binary(value: Value<'_>, oid: u32, integers: Integers) -> bool {
    match value {
        Value::Int(_) => match oid {
            INT2 | INT4 | INT8 => true,
            DATE | TIMESTAMP | TIMESTAMPTZ => integers == Integers::MayBeDates,
            _ => false,
        },
        Value::Real(_) => oid == FLOAT8,
        Value::Null | Value::Text(_) => false,
    }
}

/// Appends a value that is not NULL, in the binary format or as text, as [`is_binary`] says.
///
/// # Errors
/// When the value does not fit the parameter's type.
pub fn encode(value: Value<'_>, oid: u32, integers: Integers, out: &mut BytesMut) -> Result<(), PgError> {
    let unfit = |name: &str| PgError::Value(format!("a parameter of type {name} cannot be {value:?}"));
    match value {
        Value::Null => {}
        Value::Int(int) if is_binary(value, oid, integers) => match oid {
            INT2 => out.put_i16(int.try_into().map_err(|_| unfit("smallint"))?),
            INT4 => out.put_i32(int.try_into().map_err(|_| unfit("integer"))?),
            DATE => {
                let days = int.checked_sub(EPOCH_DAYS).and_then(|days| i32::try_from(days).ok());
                out.put_i32(days.ok_or_else(|| unfit("date"))?);
            }
            TIMESTAMP | TIMESTAMPTZ => out.put_i64(int.checked_sub(EPOCH_US).ok_or_else(|| unfit("timestamp"))?),
            _ => out.put_i64(int),
        },
        Value::Real(real) if is_binary(value, oid, integers) => out.put_f64(real),
        // Writing to a buffer cannot fail.
        Value::Int(int) => _ = write!(out, "{int}"),
        Value::Real(real) => _ = write!(out, "{real}"),
        Value::Text(text) => out.put_slice(text.as_bytes()),
    }
    Ok(())
}

/// Returns true when workloads can read a column of this type.
pub fn is_readable(oid: u32) -> bool {
    matches!(
        oid,
        BOOL | INT2
            | INT4
            | INT8
            | FLOAT4
            | FLOAT8
            | NUMERIC
            | TEXT
            | VARCHAR
            | BPCHAR
            | DATE
            | TIMESTAMP
            | TIMESTAMPTZ
    )
}

/// Reads a column in the binary format of its type, and appends its value to the current row of `batch`.
///
/// # Errors
/// When the bytes are not a value of that type, or no workload reads the type. Also when a NUMERIC is infinite, NaN or
/// too large for 64 bits, or a time is too late for 64 bits.
pub fn decode(bytes: Option<&[u8]>, oid: u32, batch: &mut Batch) -> Result<(), PgError> {
    let Some(bytes) = bytes else {
        batch.push_column(Value::Null);
        return Ok(());
    };
    let value = match oid {
        TEXT | VARCHAR => text(bytes).map(Value::Text),
        // Remove the blanks at the end of a CHAR(n), which mean nothing.
        BPCHAR => text(bytes.trim_ascii_end()).map(Value::Text),
        NUMERIC => unscaled(bytes).map(Value::Int),
        FLOAT4 => fixed(bytes).map(|bytes| Value::Real(f32::from_be_bytes(bytes).into())),
        FLOAT8 => fixed(bytes).map(|bytes| Value::Real(f64::from_be_bytes(bytes))),
        _ => integer(bytes, oid).map(Value::Int),
    };
    let unreadable = || PgError::Value(format!("a column of type {oid} holds {bytes:?}, which no workload reads"));
    batch.push_column(value.ok_or_else(unreadable)?);
    Ok(())
}

fn fixed<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    bytes.try_into().ok()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

fn integer(bytes: &[u8], oid: u32) -> Option<i64> {
    match oid {
        BOOL => fixed(bytes).map(|[byte]: [u8; 1]| byte.into()),
        INT2 => fixed(bytes).map(|bytes| i16::from_be_bytes(bytes).into()),
        INT4 => fixed(bytes).map(|bytes| i32::from_be_bytes(bytes).into()),
        INT8 => fixed(bytes).map(i64::from_be_bytes),
        DATE => i64::from(i32::from_be_bytes(fixed(bytes)?)).checked_add(EPOCH_DAYS),
        // The dates "infinity" and "-infinity" are the largest and the smallest number, and may overflow.
        TIMESTAMP | TIMESTAMPTZ => i64::from_be_bytes(fixed(bytes)?).checked_add(EPOCH_US),
        _ => None,
    }
}

/// Returns a NUMERIC as an integer in units of its last digit. The server sends digits to the base of 10,000, the
/// weight of the first digit, a sign, and the number of decimal digits after the point.
fn unscaled(bytes: &[u8]) -> Option<i64> {
    let (header, digits) = bytes.split_first_chunk::<8>()?;
    let [count, weight, sign, scale] =
        [0, 2, 4, 6].map(|at| i32::from(i16::from_be_bytes([header[at], header[at + 1]])));
    let negative = match sign {
        0 => false,
        0x4000 => true,
        // NaN and the infinities are no integers.
        _ => return None,
    };
    if digits.len() != usize::try_from(count).ok()? * 2 || !(0..=MAX_SCALE).contains(&scale) {
        return None;
    }
    let mut int: i128 = 0;
    for digit in digits.chunks_exact(2) {
        let digit = u16::from_be_bytes([digit[0], digit[1]]);
        int =
            int.checked_mul(10_000)?.checked_add(i128::from(digit).checked_rem(10_000).filter(|_| digit < 10_000)?)?;
    }
    if int == 0 {
        return Some(0);
    }
    // The last digit has the value 10,000 to the power of weight - count + 1.
    let shift = 4 * (weight - count + 1) + scale;
    let unit = 10_i128.checked_pow(shift.unsigned_abs())?;
    let int = if shift >= 0 {
        int.checked_mul(unit)?
    } else {
        // The decimal digits after the last one of the column's scale are zero.
        Some(int / unit).filter(|_| int % unit == 0)?
    };
    i64::try_from(if negative { -int } else { int }).ok()
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::client::StatementId;
    use proptest::prelude::*;

    use super::*;

    fn numeric(weight: i16, sign: u16, scale: i16, digits: &[u16]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(digits.len() as i16).to_be_bytes());
        bytes.extend_from_slice(&weight.to_be_bytes());
        bytes.extend_from_slice(&sign.to_be_bytes());
        bytes.extend_from_slice(&scale.to_be_bytes());
        digits.iter().for_each(|digit| bytes.extend_from_slice(&digit.to_be_bytes()));
        bytes
    }

    #[test]
    fn a_numeric_is_read_as_an_integer_of_its_last_digit() {
        for (bytes, int) in [
            (numeric(0, 0, 2, &[]), 0),
            (numeric(0, 0, 2, &[12, 5_000]), 1_250),
            (numeric(0, 0x4000, 2, &[10]), -1_000),
            (numeric(-1, 0, 4, &[1_234]), 1_234),
            (numeric(-1, 0x4000, 2, &[100]), -1),
            (numeric(1, 0, 2, &[30, 0, 500]), 30_000_005),
            (numeric(1, 0, 0, &[7]), 70_000),
        ] {
            assert_eq!(unscaled(&bytes), Some(int), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_large_is_refused() {
        for bytes in [
            numeric(0, 0xC000, 0, &[]),
            numeric(0, 0, 2, &[10_000]),
            numeric(0, 0, 2, &[1, 1]),
            numeric(9, 0, 2, &[1]),
            numeric(0, 0, -1, &[1]),
            numeric(i16::MAX, 0, 0, &[1]),
            numeric(0, 0, 2, &[1])[..9].to_vec(),
            Vec::new(),
        ] {
            assert_eq!(unscaled(&bytes), None, "{bytes:?}");
        }
    }

    fn there_and_back(value: Value<'_>, oid: u32) -> Option<i64> {
        let (mut out, mut batch) = (BytesMut::new(), Batch::default());
        batch.call(StatementId(0), &[]);
        encode(value, oid, Integers::MayBeDates, &mut out).ok()?;
        batch.begin_rows(0);
        decode(Some(&out), oid, &mut batch).ok()?;
        batch.end_row(0);
        match batch.value(0, 1, 0, 0) {
            Value::Int(int) => Some(int),
            _ => None,
        }
    }

    #[test]
    fn integers_and_dates_come_back_and_what_does_not_fit_is_refused() {
        for (oid, int) in
            [(INT2, -7), (INT4, 1 << 30), (INT8, i64::MIN), (TIMESTAMP, 1_767_225_601_000_001), (DATE, 0), (DATE, -1)]
        {
            assert_eq!(there_and_back(Value::Int(int), oid), Some(int));
        }
        for (oid, int) in [(INT2, 40_000), (INT4, 1 << 31), (DATE, i64::MAX), (TIMESTAMP, i64::MIN)] {
            assert_eq!(there_and_back(Value::Int(int), oid), None);
        }
    }

    #[test]
    fn blanks_at_the_end_of_a_char_are_no_part_of_it() {
        let mut batch = Batch::default();
        batch.call(StatementId(0), &[]);
        batch.begin_rows(0);
        decode(Some(b"BC  "), BPCHAR, &mut batch).expect("it is text");
        decode(Some(b"BC  "), VARCHAR, &mut batch).expect("it is text");
        decode(None, INT4, &mut batch).expect("it is NULL");
        batch.end_row(0);
        let values = [0, 1, 2].map(|column| batch.value(0, 3, 0, column));
        assert_eq!(values, [Value::Text("BC"), Value::Text("BC  "), Value::Null]);
    }

    #[test]
    fn a_scripts_numbers_are_no_dates() {
        assert!(!is_binary(Value::Int(1), TIMESTAMP, Integers::AreNumbers));
        let mut out = BytesMut::new();
        encode(Value::Int(-5), NUMERIC, Integers::AreNumbers, &mut out).expect("any number is a text");
        encode(Value::Real(2.5), NUMERIC, Integers::AreNumbers, &mut out).expect("any number is a text");
        assert_eq!(&out[..], b"-52.5");
    }

    proptest! {
        #[test]
        fn every_amount_comes_back_from_its_digits(int in any::<i32>(), scale in 0i16..6) {
            // As in numeric_send: digits are aligned to the point, and zeros at the end are left out.
            let power = 10_i128.pow(scale as u32);
            let (whole, mut part) = (i128::from(int).abs() / power, i128::from(int).abs() % power);
            let mut digits = Vec::new();
            let mut rest = whole;
            while rest > 0 {
                digits.insert(0, (rest % 10_000) as u16);
                rest /= 10_000;
            }
            let weight = digits.len() as i16 - 1;
            part *= 10_i128.pow(8 - scale as u32);
            digits.extend([(part / 10_000) as u16, (part % 10_000) as u16]);
            while digits.last() == Some(&0) {
                digits.pop();
            }
            let sign = if int < 0 { 0x4000 } else { 0 };
            prop_assert_eq!(unscaled(&numeric(weight, sign, scale, &digits)), Some(i64::from(int)));
        }

        #[test]
        fn no_bytes_stop_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..40), oid in 0u32..2000) {
            let mut batch = Batch::default();
            batch.call(StatementId(0), &[]);
            batch.begin_rows(0);
            for oid in [oid, BOOL, INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC, TEXT, BPCHAR, DATE, TIMESTAMP] {
                let _ = decode(Some(&bytes), oid, &mut batch);
            }
        }
    }
}
