//! A workload's initial database for loaders: tables, slices of them in load order, and the rows of each.
//!
//! A partition is a slice of one table, small enough to generate many at once in bounded memory. Its rows depend only
//! on the load seed and on the partition, not on the number of threads nor on the order. This file has no SQL.

use crate::bundle::Refused;
use crate::client::{Cells, Value};

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A number without a unit: keys, counts, quantities.
    Integer,
    /// Money as integer cents.
    Cents,
    /// A tax rate or a discount as integer basis points (2000 is 20 %), the specification's four decimals.
    BasisPoints,
    /// A date and time as integer microseconds since 1970.
    Micros,
    /// A date as integer days since 1970.
    Days,
    /// ASCII text of at most this many characters.
    Text {
        /// Longest value.
        max_chars: u16,
    },
}

/// A table for a loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedTable {
    /// Its name, the same in every dialect.
    pub name: &'static str,
    /// The kind of each column, in the order of every dialect's schema.
    pub columns: Vec<ColumnKind>,
}

/// The initial database of a workload, cut into partitions that are counted from zero in load order.
pub trait Population: Send + Sync {
    /// Returns the name of the workload, which is also the name of its folder in every dialect.
    fn workload(&self) -> &'static str;

    /// Returns the version of everything that decides loaded data besides schema, scale, seed and page size: the rows,
    /// and the order and manner of writing them. Raise it when any of them changes, or old cached data will count as
    /// new.
    fn version(&self) -> u32 {
        1
    }

    /// Refuses a scale that the columns of servers' tables cannot hold.
    ///
    /// # Errors
    /// When the scale is too large; the failure names the largest one.
    fn check_columns(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// Returns the tables; blocks name them by their index here.
    fn tables(&self) -> Vec<LoadedTable>;

    /// Returns the number of partitions, at least one. Those of a table follow each other.
    fn partitions(&self) -> usize;

    /// Returns the table whose rows a partition holds, by its index in [`Population::tables`].
    fn table_of(&self, partition: usize) -> usize;

    /// Returns the number of rows of all partitions: exact, or expected where a generator draws it.
    fn expected_rows(&self) -> u64;

    /// Replaces the content of `block` by the rows of a partition.
    fn generate(&self, partition: usize, block: &mut RowBlock);
}

/// Rows of one table, stored flat and reused: once it has held its largest partition it allocates no more.
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

    /// Returns the index of the table of these rows.
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
