//! Reads rows of the binary protocol in place. A DECIMAL becomes an integer in units of its last digit, and a date
//! becomes microseconds since 1970.

use std::io::Error;

use bufferlab_workload::client::Value;

use super::bytes::{Bytes, broken};
use bufferlab_workload::datetime::DateTime;

/// The flag of a column with unsigned numbers (mysql's include/mysql_com.h).
const UNSIGNED: u16 = 0x20;
/// The first two bits of a row's bitmap of nulls are not used.
const NULLS_OFFSET: usize = 2;

/// The encoding of a value in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Int {
        bytes: u8,
        unsigned: bool,
    },
    Float,
    Double,
    Decimal,
    Text,
    Date,
    Null,
    /// A time of day, or a type of a later server. No workload reads such a value.
    Other,
}

impl Form {
    /// Returns the encoding of the type with this number (mysql's include/field_types.h).
    fn of(kind: u8, unsigned: bool) -> Form {
        let int = |bytes| Form::Int { bytes, unsigned };
        match kind {
            1 => int(1),
            2 | 13 => int(2),
            3 | 9 => int(4),
            8 => int(8),
            4 => Form::Float,
            5 => Form::Double,
            0 | 246 => Form::Decimal,
            6 => Form::Null,
            7 | 10 | 12 => Form::Date,
            15 | 16 | 245 | 247..=255 => Form::Text,
            _ => Form::Other,
        }
    }
}

/// The columns of a statement's rows, as the server last described them.
#[derive(Debug, Default)]
pub struct Columns(Vec<Form>);

impl Columns {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a column from its definition, which has six names and then the type.
    pub(super) fn push(&mut self, definition: &[u8]) -> Result<(), Error> {
        let mut rest = Bytes(definition);
        for _name in 0..6 {
            rest.string()?;
        }
        let _length_of_the_rest = rest.length()?;
        let (_charset, _longest, kind, flags) = (rest.u16()?, rest.u32()?, rest.u8()?, rest.u16()?);
        self.0.push(Form::of(kind, flags & UNSIGNED != 0));
        Ok(())
    }
}

/// The reason why a workload cannot read a value.
#[derive(Debug)]
pub enum Unreadable {
    /// The row breaks the protocol.
    Broken(Error),
    /// No workload reads values of this type.
    Value {
        /// The value's column, counted from zero.
        column: usize,
        /// The value's type in words, for a message.
        what: &'static str,
    },
}

impl From<Error> for Unreadable {
    fn from(error: Error) -> Self {
        Unreadable::Broken(error)
    }
}

/// One row, in the buffer of its packet.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    columns: &'a [Form],
    nulls: &'a [u8],
    values: Bytes<'a>,
}

impl<'a> Row<'a> {
    pub(super) fn of(columns: &'a Columns, packet: &'a [u8]) -> Result<Self, Error> {
        let mut rest = Bytes(packet);
        rest.u8()?;
        let nulls = rest.take((columns.len() + NULLS_OFFSET).div_ceil(8))?;
        Ok(Row { columns: &columns.0, nulls, values: rest })
    }

    /// Passes the values of a row of this number of columns to `take`. The server describes the columns again at each
    /// execution, so their number may change.
    ///
    /// # Errors
    /// When the row has another number of columns, or no workload reads a value.
    #[inline]
    pub fn each(self, columns: usize, mut take: impl FnMut(Value<'a>)) -> Result<(), Unreadable> {
        if self.columns.len() != columns {
            return Err(broken("a row of another number of columns than its statement has").into());
        }
        self.values().try_for_each(|value| value.map(&mut take))
    }

    /// Returns the row's values, from the first column on. Ignore the values after an error.
    pub fn values(self) -> impl Iterator<Item = Result<Value<'a>, Unreadable>> {
        let mut rest = self.values;
        self.columns.iter().enumerate().map(move |(column, &form)| {
            let bit = column + NULLS_OFFSET;
            if self.nulls[bit / 8] & (1 << (bit % 8)) != 0 {
                return Ok(Value::Null);
            }
            read(form, &mut rest, column)
        })
    }
}

fn read<'a>(form: Form, rest: &mut Bytes<'a>, column: usize) -> Result<Value<'a>, Unreadable> {
    let unreadable = |what| Unreadable::Value { column, what };
    Ok(match form {
        Form::Int { bytes: 1, unsigned: false } => Value::Int((rest.u8()? as i8).into()),
        Form::Int { bytes: 1, unsigned: true } => Value::Int(rest.u8()?.into()),
        Form::Int { bytes: 2, unsigned: false } => Value::Int((rest.u16()? as i16).into()),
        Form::Int { bytes: 2, unsigned: true } => Value::Int(rest.u16()?.into()),
        Form::Int { bytes: 4, unsigned: false } => Value::Int((rest.u32()? as i32).into()),
        Form::Int { bytes: 4, unsigned: true } => Value::Int(rest.u32()?.into()),
        Form::Int { unsigned: false, .. } => Value::Int(rest.u64()? as i64),
        Form::Int { unsigned: true, .. } => {
            Value::Int(i64::try_from(rest.u64()?).map_err(|_| unreadable("an integer above 2^63 - 1"))?)
        }
        Form::Float => Value::Real(f32::from_bits(rest.u32()?).into()),
        Form::Double => Value::Real(f64::from_bits(rest.u64()?)),
        Form::Decimal => {
            Value::Int(unscaled(rest.string()?).ok_or_else(|| unreadable("a decimal of too many digits"))?)
        }
        Form::Text => {
            Value::Text(std::str::from_utf8(rest.string()?).map_err(|_| unreadable("text that is not UTF-8"))?)
        }
        Form::Date => Value::Int(date(rest)?),
        Form::Null => Value::Null,
        Form::Other => return Err(unreadable("of a type that no workload reads")),
    })
}

/// Reads a date, or a date and time, as microseconds since 1970. The server sends only as many bytes as the value
/// needs.
fn date(rest: &mut Bytes<'_>) -> Result<i64, Error> {
    let mut fields = Bytes(rest.string()?);
    let (mut date, mut micros) = (DateTime { year: 0, month: 0, day: 0, time: (0, 0, 0) }, 0);
    let length = fields.0.len();
    if !matches!(length, 0 | 4 | 7 | 11) {
        return Err(broken("a date of an invalid length"));
    }
    if length >= 4 {
        (date.year, date.month, date.day) = (fields.u16()?.into(), fields.u8()?, fields.u8()?);
    }
    if length >= 7 {
        date.time = (fields.u8()?, fields.u8()?, fields.u8()?);
    }
    if length == 11 {
        micros = i64::from(fields.u32()?);
    }
    Ok(date.micros() + micros)
}

/// Returns the digits of a decimal as an integer, such as -1250 for "-12.50"; none if they do not fit 64 bits.
fn unscaled(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, digits),
    };
    let mut int: i64 = 0;
    for &digit in digits.iter().filter(|&&byte| byte != b'.') {
        int = int.checked_mul(10)?.checked_add(i64::from(digit.checked_sub(b'0').filter(|&digit| digit < 10)?))?;
    }
    Some(if negative { -int } else { int })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns(forms: &[(u8, bool)]) -> Columns {
        Columns(forms.iter().map(|&(kind, unsigned)| Form::of(kind, unsigned)).collect())
    }

    fn read_all(forms: &[(u8, bool)], packet: &[u8]) -> Result<String, Unreadable> {
        let columns = columns(forms);
        let values: Result<Vec<Value<'_>>, Unreadable> = Row::of(&columns, packet)?.values().collect();
        values.map(|values| format!("{values:?}"))
    }

    #[test]
    fn a_row_of_another_width_is_refused() {
        let columns = columns(&[(1, false), (1, false)]);
        let row = Row::of(&columns, &[0, 0, 5, 6]).expect("it is whole");
        let mut values = 0;
        row.each(2, |_| values += 1).expect("it has two");
        assert_eq!(values, 2);
        for width in [1, 14] {
            assert!(matches!(row.each(width, |_| panic!("it has two")), Err(Unreadable::Broken(_))));
        }
    }

    #[test]
    fn integers_have_their_size_and_sign() {
        let forms = [(1, false), (1, true), (2, false), (13, true), (3, false), (9, true), (8, false), (8, true)];
        let mut packet = vec![0, 0, 0, 0xfe, 0xfe, 0xfe, 0xff, 0xe6, 7];
        packet.extend_from_slice(&(-7_i32).to_le_bytes());
        packet.extend_from_slice(&4_000_000_000_u32.to_le_bytes());
        packet.extend_from_slice(&i64::MIN.to_le_bytes());
        packet.extend_from_slice(&7_u64.to_le_bytes());
        let shown = read_all(&forms, &packet).expect("it is whole");
        let expected =
            "[Int(-2), Int(254), Int(-2), Int(2022), Int(-7), Int(4000000000), Int(-9223372036854775808), Int(7)]";
        assert_eq!(shown, expected);
        assert!(matches!(
            read_all(&[(8, true)], &[0, 0, 255, 255, 255, 255, 255, 255, 255, 255]),
            Err(Unreadable::Value { .. })
        ));
    }

    #[test]
    fn decimals_texts_dates_and_nulls_are_read_as_workloads_want_them() {
        let forms = [(246, false), (253, false), (12, false), (254, false), (5, false), (12, false)];
        let mut packet = vec![0, 0b0010_0000];
        packet.extend_from_slice(b"\x06-12.50\x02ab");
        packet.extend_from_slice(&[7, 0xb2, 7, 1, 2, 0, 0, 1]);
        packet.extend_from_slice(&0.25_f64.to_le_bytes());
        packet.extend_from_slice(&[11, 0xb2, 7, 1, 1, 0, 0, 0, 5, 0, 0, 0]);
        let shown = read_all(&forms, &packet).expect("it is whole");
        assert_eq!(shown, "[Int(-1250), Text(\"ab\"), Int(86401000000), Null, Real(0.25), Int(5)]");
    }

    #[test]
    fn a_value_no_workload_reads_is_told_with_its_column() {
        let time = read_all(&[(8, false), (11, false)], &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(matches!(time, Err(Unreadable::Value { column: 1, .. })));
        assert!(matches!(read_all(&[(253, false)], &[0, 0, 1, 0xff]), Err(Unreadable::Value { column: 0, .. })));
        assert!(matches!(read_all(&[(12, false)], &[0, 0, 3, 1, 2, 3]), Err(Unreadable::Broken(_))));
    }

    #[test]
    fn a_decimal_is_read_as_an_integer_of_its_last_digit() {
        for (digits, int) in [("0.1234", 1_234), ("-10.00", -1_000), ("300000.05", 30_000_005), ("7", 7), ("-0.01", -1)]
        {
            assert_eq!(unscaled(digits.as_bytes()), Some(int), "{digits}");
        }
        assert_eq!(unscaled(b""), None);
        assert_eq!(unscaled(b"1e5"), None);
        assert_eq!(unscaled(b"99999999999999999999.00"), None);
    }

    #[test]
    fn a_definition_gives_type_and_sign_and_a_short_one_is_broken() {
        let mut definition = b"\x03def\x01s\x01t\x01t\x01c\x01c\x0c".to_vec();
        definition.extend_from_slice(&[63, 0, 11, 0, 0, 0, 3, 0x20, 0, 0, 0, 0]);
        let mut columns = Columns::default();
        columns.push(&definition).expect("it is whole");
        assert_eq!(columns.0, [Form::Int { bytes: 4, unsigned: true }]);
        assert!(columns.push(&definition[..20]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            forms in proptest::collection::vec(any::<(u8, bool)>(), 0..12),
            packet in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let _ = read_all(&forms, &packet);
            let _ = Columns::default().push(&packet);
        }
    }
}
