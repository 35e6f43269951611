//! A workload's initial database, in the form that loaders need: tables, divided into slices in load order, and the
//! rows of each slice.
//!
//! A partition is a slice of one table. It is small, so that several threads can generate partitions in bounded memory.
//! The rows of a partition depend only on the load seed and on the partition, not on the number of threads or the order
//! of generation. This file has no SQL.

use crate::bundle::Refused;
use crate::client::{Cells, Value};

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A number without a unit: keys, counts, quantities.
    Integer,
    /// An amount of money as integer cents.
    Cents,
    /// A tax rate or a discount as integer basis points (2000 is 20 %), the specification's four decimals.
    BasisPoints,
    /// A date and time as integer microseconds since 1970.
    Micros,
    /// A date as integer days since 1970.
    Days,
    /// ASCII text of at most this many characters.
    Text {
        /// Number of characters that the longest value may have.
        max_chars: u16,
    },
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The specification's name in lower case, the same in every dialect.
    pub name: &'static str,
    /// The kind of the column's values.
    pub kind: ColumnKind,
    /// Whether a value may be NULL.
    pub nullable: bool,
}

impl Column {
    const fn of(name: &'static str, kind: ColumnKind) -> Self {
        Column { name, kind, nullable: false }
    }

    pub(crate) const fn nullable(self) -> Self {
        Column { nullable: true, ..self }
    }
}

pub(crate) const fn int(name: &'static str) -> Column {
    Column::of(name, ColumnKind::Integer)
}

pub(crate) const fn cents(name: &'static str) -> Column {
    Column::of(name, ColumnKind::Cents)
}

pub(crate) const fn basis_points(name: &'static str) -> Column {
    Column::of(name, ColumnKind::BasisPoints)
}

pub(crate) const fn micros(name: &'static str) -> Column {
    Column::of(name, ColumnKind::Micros)
}

pub(crate) const fn days(name: &'static str) -> Column {
    Column::of(name, ColumnKind::Days)
}

pub(crate) const fn text(name: &'static str, max_chars: u16) -> Column {
    Column::of(name, ColumnKind::Text { max_chars })
}

/// A table for a loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedTable {
    /// The table's name, the same in every dialect.
    pub name: &'static str,
    /// The kind of each column, in the order of every dialect's schema.
    pub columns: Vec<ColumnKind>,
}

impl LoadedTable {
    /// Makes a table of its declared columns.
    pub(crate) fn of(name: &'static str, columns: &[Column]) -> Self {
        LoadedTable { name, columns: columns.iter().map(|column| column.kind).collect() }
    }
}

/// The initial database of a workload, divided into partitions, which are counted from zero in load order.
pub trait Population: Send + Sync {
    /// Returns the name of the workload, which is also the name of its folder in every dialect.
    fn workload(&self) -> &'static str;

    /// Returns the version of the rows and of how loaders write them. Raise it when either changes: the cache of
    /// databases reuses data with the same version, schema, scale, seed and page size.
    fn version(&self) -> u32 {
        1
    }

    /// Refuses a scale that the columns of servers' tables cannot hold.
    ///
    /// # Errors
    /// When the scale is too large; the failure names the largest scale.
    fn check_columns(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// Returns the tables. A [`RowBlock`] names its table by the index in this list.
    fn tables(&self) -> Vec<LoadedTable>;

    /// Returns the number of partitions, at least one. The partitions of a table follow each other.
    fn partitions(&self) -> usize;

    /// Returns the table whose rows a partition holds, by its index in [`Population::tables`].
    fn table_of(&self, partition: usize) -> usize;

    /// Returns the number of rows of all partitions: the exact number, or the expected one if the generator draws it.
    fn expected_rows(&self) -> u64;

    /// Replaces the content of `block` by the rows of a partition.
    fn generate(&self, partition: usize, block: &mut RowBlock);
}

/// Rows of one table, in memory that all partitions reuse. Once the block has held the largest partition, it allocates
/// no more memory.
#[derive(Debug, Default)]
pub struct RowBlock {
    table: usize,
    columns: usize,
    cells: Cells,
}

impl RowBlock {
    /// Makes an empty block.
    pub fn new() -> Self {
        RowBlock::default()
    }

    /// Returns the index of the rows' table in [`Population::tables`].
    pub fn table(&self) -> usize {
        self.table
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Returns the number of columns of each row.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns one value; columns are in the order of the table's declaration.
    ///
    /// # Panics
    /// When the block has no such row or column.
    pub fn value(&self, row: usize, column: usize) -> Value<'_> {
        assert!(column < self.columns, "table {} has no column {column}", self.table);
        self.cells.get(row * self.columns + column)
    }

    /// Forgets the rows, and prepares the block for another table.
    pub(crate) fn reset(&mut self, table: usize, columns: usize) {
        (self.table, self.columns) = (table, columns);
        self.cells.clear();
    }

    pub(crate) fn int(&mut self, value: impl Into<i64>) {
        self.cells.push(Value::Int(value.into()));
    }

    pub(crate) fn null(&mut self) {
        self.cells.push(Value::Null);
    }

    pub(crate) fn text(&mut self, value: &str) {
        self.cells.push(Value::Text(value));
    }
}
