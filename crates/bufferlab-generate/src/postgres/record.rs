//! Bytes of PostgreSQL's heap tuples and index tuples. Files are those of src/include and
//! src/backend.

use bufferlab_workload::client::Value;
use bufferlab_workload::tpcc::schema::TableId;

use crate::loaded::{Columns, Records};
use crate::schema::{Column, Schema, Type};

/// Bytes of a tuple's header without null bits (htup_details.h, `SizeofHeapTupleHeader`).
const HEAP_HEADER: u32 = 23;
/// Bytes of an index tuple's header (itup.h, `IndexTupleData`).
const INDEX_HEADER: u32 = 8;
/// The most bytes of a text with a header of one byte (varatt.h, `VARATT_CAN_MAKE_SHORT`).
const SHORT_MOST: u32 = 126;
/// Bytes of a line pointer (itemid.h, `ItemIdData`).
pub(super) const POINTER: u32 = 4;

/// Rounds up to a multiple of a power of two (c.h, `TYPEALIGN`).
pub(super) fn aligned(bytes: u32, to: u32) -> u32 {
    bytes.next_multiple_of(to)
}

/// Rounds up as tuples are placed on pages (c.h, `MAXALIGN`).
pub(super) fn max_aligned(bytes: u32) -> u32 {
    aligned(bytes, 8)
}

/// Bytes of tuples, by the schema of the servers' tables.
#[derive(Debug, Default)]
pub struct Tuples {
    schema: Schema,
}

impl Records for Tuples {
    /// The bytes of a heap tuple, not yet rounded up (heaptuple.c, `heap_form_tuple`).
    fn row(&self, table: TableId, columns: &Columns<'_>) -> u32 {
        let of = self.schema.columns(table);
        let has_null = columns.all().any(|value| value == Value::Null);
        let null_bits = if has_null { (of.len() as u32).div_ceil(8) } else { 0 };
        max_aligned(HEAP_HEADER + null_bits) + data(of.iter().copied().zip(columns.all()))
    }

    /// The bytes of an index tuple with its line pointer (indextuple.c, `index_form_tuple`).
    fn entry(&self, table: TableId, row: &Columns<'_>, columns: &[usize]) -> u32 {
        let of = self.schema.columns(table);
        let data = data(columns.iter().map(|&column| (of[column], row.value(column))));
        max_aligned(INDEX_HEADER + data) + POINTER
    }
}

impl Tuples {
    /// Returns the bytes of an entry of a table's primary key, whose columns are numbers.
    pub(super) fn key_entry(&self, table: TableId) -> u32 {
        let key = self.schema.columns(table)[..table.key_columns()].iter();
        max_aligned(INDEX_HEADER + data(key.map(|&column| (column, Value::Int(1))))) + POINTER
    }
}

/// Returns the bytes of an index tuple of one number of four bytes, with its line pointer.
pub(super) fn number_entry() -> u32 {
    max_aligned(INDEX_HEADER + 4) + POINTER
}

/// Returns the bytes of a heap tuple with `data` bytes of values, none of them null.
pub(super) fn with_header(data: u32) -> u32 {
    max_aligned(HEAP_HEADER) + data
}

/// Returns the bytes of a tuple's values (heaptuple.c, `heap_compute_data_size`).
fn data<'a>(columns: impl Iterator<Item = (Column, Value<'a>)>) -> u32 {
    columns.fold(0, |bytes, (column, value)| match (column.kind, value) {
        (_, Value::Null) => bytes,
        // TINYINT is SMALLINT in this dialect.
        (Type::Int(1 | 2), _) => aligned(bytes, 2) + 2,
        (Type::Int(own), _) => aligned(bytes, own) + own,
        (Type::Datetime, _) => aligned(bytes, 8) + 8,
        (Type::Char(chars), _) => text(bytes, chars),
        (Type::Varchar(_), Value::Text(value)) => text(bytes, value.len() as u32),
        (Type::Varchar(_), _) => text(bytes, 0),
        (Type::Decimal(_, behind), Value::Int(int)) => bytes + 1 + numeric(int, behind),
        (Type::Decimal(..), _) => bytes + 1 + numeric(0, 0),
    })
}

/// Returns the bytes of values of `bytes` bytes with a text of `chars` characters after them. A short text has a header
/// of one byte and is not aligned.
pub(super) fn text(bytes: u32, chars: u32) -> u32 {
    if chars <= SHORT_MOST { bytes + 1 + chars } else { aligned(bytes, 4) + 4 + chars }
}

/// Returns the bytes of a number with `behind` digits after the decimal point, without the header of its length. The
/// number has a header of two bytes, and two bytes for each digit of base 10,000, without zeros at both ends
/// (numeric.c, `make_result`, `strip_var`).
fn numeric(int: i64, behind: u32) -> u32 {
    let mut digits = int.unsigned_abs() * 10_u64.pow(behind.next_multiple_of(4) - behind);
    while digits > 0 && digits.is_multiple_of(10_000) {
        digits /= 10_000;
    }
    2 + 2 * (digits.checked_ilog(10_000).map_or(0, |most| most + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of `pg_column_size` in PostgreSQL 17.2 for numbers in a table, less the one byte of the length's
    /// header.
    #[test]
    fn numbers_have_the_servers_sizes() {
        let sizes = [(0, 2, 2), (-1000, 2, 4), (1050, 2, 6), (5_000_000, 2, 4), (30_000_000, 2, 4)];
        for (int, behind, bytes) in sizes {
            assert_eq!(numeric(int, behind), bytes, "{int}");
        }
        assert_eq!((numeric(1234, 4), numeric(12_345, 2), numeric(1_234_567, 2)), (4, 6, 8));
    }

    #[test]
    fn keys_have_the_servers_sizes() {
        let tuples = Tuples::default();
        let of = [TableId::Item, TableId::Stock, TableId::Customer, TableId::OrderLine].map(|t| tuples.key_entry(t));
        assert_eq!(of, [20, 20, 20, 28]);
        assert_eq!((text(0, 126), text(1, 127)), (127, 135));
    }
}
