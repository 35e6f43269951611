//! Encodes rows as text, for LOAD DATA, COPY or INSERT, without an allocation for each value.

use std::io::Write;

use bufferlab_workload::client::Value;
use bufferlab_workload::datetime::DateTime;
use bufferlab_workload::population::ColumnKind;
use bufferlab_workload::population::RowBlock;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// The form of rows as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For LOAD DATA and COPY: tabs separate fields, a line feed ends a row, and `\N` is NULL.
    Lines,
    /// For INSERT: `(1,'a'),(2,'b')`, which follows VALUES.
    Tuples,
}

/// An encoder of one table's rows.
pub struct Encoder<'a> {
    form: Form,
    columns: &'a [ColumnKind],
    /// The last date and its text, because most rows of a load have the same date.
    date: (i64, Vec<u8>),
}

impl<'a> Encoder<'a> {
    /// Makes an encoder for rows of a table with these columns.
    pub fn new(form: Form, columns: &'a [ColumnKind]) -> Self {
        Encoder { form, columns, date: (i64::MIN, Vec::new()) }
    }

    /// Appends the rows `rows` of a block to `text`.
    pub fn append(&mut self, block: &RowBlock, rows: std::ops::Range<usize>, text: &mut Vec<u8>) {
        for row in rows {
            if self.form == Form::Tuples {
                text.extend_from_slice(if text.last() == Some(&b')') { b",(" } else { b"(" });
            }
            for (column, &kind) in self.columns.iter().enumerate() {
                if column > 0 {
                    text.push(if self.form == Form::Lines { b'\t' } else { b',' });
                }
                self.value(kind, block.value(row, column), text);
            }
            text.push(if self.form == Form::Lines { b'\n' } else { b')' });
        }
    }

    fn value(&mut self, kind: ColumnKind, value: Value<'_>, text: &mut Vec<u8>) {
        match (value, kind) {
            (Value::Null, _) if self.form == Form::Lines => text.extend_from_slice(b"\\N"),
            (Value::Null, _) => text.extend_from_slice(b"NULL"),
            (Value::Int(int), ColumnKind::Cents) => decimal(int, 100, text),
            (Value::Int(int), ColumnKind::BasisPoints) => decimal(int, 10_000, text),
            (Value::Int(int), ColumnKind::Micros) => self.date(int, text),
            (Value::Int(int), ColumnKind::Days) => self.day(int, text),
            (Value::Int(int), _) => integer(int, text),
            // No population has values of this kind.
            (Value::Real(real), _) => _ = write!(text, "{real}"),
            (Value::Text(value), _) => self.text(value.as_bytes(), text),
        }
    }

    fn text(&self, value: &[u8], text: &mut Vec<u8>) {
        let tuples = self.form == Form::Tuples;
        if tuples {
            text.push(b'\'');
        }
        let special = |byte: &u8| matches!(byte, b'\\' | b'\'' | b'\t' | b'\n' | 0);
        if value.iter().any(special) {
            for byte in value {
                if special(byte) {
                    text.push(b'\\');
                }
                // A backslash is written before the byte. A zero byte is written as the character 0; the other bytes
                // stay unchanged.
                text.push(if *byte == 0 { b'0' } else { *byte });
            }
        } else {
            text.extend_from_slice(value);
        }
        if tuples {
            text.push(b'\'');
        }
    }

    fn day(&self, days: i64, text: &mut Vec<u8>) {
        let DateTime { year, month, day, .. } = DateTime::from_micros(days.saturating_mul(DAY_US));
        let quote = if self.form == Form::Tuples { "'" } else { "" };
        // Writing to a vector cannot fail.
        let _ = write!(text, "{quote}{year:04}-{month:02}-{day:02}{quote}");
    }

    fn date(&mut self, micros: i64, text: &mut Vec<u8>) {
        if self.date.0 != micros {
            let DateTime { year, month, day, time: (hour, minute, second) } = DateTime::from_micros(micros);
            let quote = if self.form == Form::Tuples { "'" } else { "" };
            self.date.1.clear();
            // Writing to a vector cannot fail.
            let _ =
                write!(self.date.1, "{quote}{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{quote}");
            self.date.0 = micros;
        }
        text.extend_from_slice(&self.date.1);
    }
}

fn integer(int: i64, text: &mut Vec<u8>) {
    if int < 0 {
        text.push(b'-');
    }
    unsigned(int.unsigned_abs(), text);
}

fn unsigned(mut int: u64, text: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (int % 10) as u8;
        int /= 10;
        if int == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}

/// Appends an integer as a decimal number. `unit` is a power of ten, the integer that represents 1: 100 for cents.
fn decimal(int: i64, unit: u64, text: &mut Vec<u8>) {
    if int < 0 {
        text.push(b'-');
    }
    let int = int.unsigned_abs();
    unsigned(int / unit, text);
    text.push(b'.');
    let mut place = unit / 10;
    while place > 0 {
        text.push(b'0' + (int / place % 10) as u8);
        place /= 10;
    }
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::population::Population;
    use bufferlab_workload::tpcc::TpccConfig;
    use bufferlab_workload::tpcc::population::TpccPopulation;
    use bufferlab_workload::tpcc::schema::TableId;

    use super::*;

    fn shown(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut text = Vec::new();
        write(&mut text);
        String::from_utf8(text).expect("it is ASCII")
    }

    #[test]
    fn numbers_are_written_as_they_are_stored() {
        for int in [0, 7, -7, 10, 123_456_789, i64::MIN, i64::MAX] {
            assert_eq!(shown(|text| integer(int, text)), int.to_string());
        }
        assert_eq!(shown(|text| decimal(-1_005, 100, text)), "-10.05");
        assert_eq!(shown(|text| decimal(1_234, 10_000, text)), "0.1234");
        assert_eq!(shown(|text| decimal(30_000_000, 100, text)), "300000.00");
    }

    #[test]
    fn texts_are_escaped_and_dates_are_not_confused() {
        let mut lines = Encoder::new(Form::Lines, &[]);
        let mut tuples = Encoder::new(Form::Tuples, &[]);
        let odd = Value::Text("a\tb'c\\d\n\0");
        let kind = ColumnKind::Text { max_chars: 9 };
        let mut text = Vec::new();
        lines.value(kind, odd, &mut text);
        tuples.value(kind, odd, &mut text);
        assert_eq!(text, b"a\\\tb\\'c\\\\d\\\n\\0'a\\\tb\\'c\\\\d\\\n\\0'");
        let mut text = Vec::new();
        for micros in [0, 0, 951_782_400_000_000] {
            tuples.value(ColumnKind::Micros, Value::Int(micros), &mut text);
        }
        assert_eq!(text, b"'1970-01-01 00:00:00''1970-01-01 00:00:00''2000-02-29 00:00:00'");
    }

    #[test]
    fn days_are_written_as_dates() {
        for (form, expected) in [(Form::Lines, "1970-01-011998-09-02"), (Form::Tuples, "'1970-01-01''1998-09-02'")] {
            let mut encoder = Encoder::new(form, &[]);
            let mut text = Vec::new();
            for days in [0, 10_471] {
                encoder.value(ColumnKind::Days, Value::Int(days), &mut text);
            }
            assert_eq!(text, expected.as_bytes());
        }
    }

    #[test]
    fn every_row_is_one_line_with_all_its_fields() {
        let population = TpccPopulation::new(TpccConfig::new(1, 1, 0).expect("the scale is valid"));
        let mut block = RowBlock::new();
        for partition in (0..population.partitions()).step_by(7) {
            population.generate(partition, &mut block);
            let columns: Vec<ColumnKind> =
                TableId::ALL[block.table()].columns().iter().map(|column| column.kind).collect();
            let text = shown(|text| Encoder::new(Form::Lines, &columns).append(&block, 0..block.rows(), text));
            assert_eq!(text.lines().count(), block.rows());
            assert!(text.lines().all(|line| line.split('\t').count() == columns.len()));
            let text = shown(|text| Encoder::new(Form::Tuples, &columns).append(&block, 0..2, text));
            assert!(text.starts_with('(') && text.ends_with(')') && text.contains("),("));
        }
    }
}
