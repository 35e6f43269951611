//! The rows of one partition, stored flat and reused for the next.

use crate::client::{Cells, Value};
use crate::tpcc::schema::TableId;

/// Rows of one table, in primary-key order. Once it has held its largest partition it allocates no more.
#[derive(Debug)]
pub struct RowBlock {
    table: TableId,
    columns: usize,
    cells: Cells,
}

impl Default for RowBlock {
    fn default() -> Self {
        RowBlock::new()
    }
}

impl RowBlock {
    /// An empty block.
    #[must_use]
    pub fn new() -> Self {
        let table = TableId::Item;
        RowBlock { table, columns: table.columns().len(), cells: Cells::default() }
    }

    /// The table whose rows these are.
    #[must_use]
    pub fn table(&self) -> TableId {
        self.table
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.cells.len() / self.columns
    }

    /// Number of columns of each row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// One value; columns are those of [`TableId::columns`].
    ///
    /// # Panics
    /// When the block has no such row or column.
    #[must_use]
    pub fn value(&self, row: usize, column: usize) -> Value<'_> {
        assert!(column < self.columns, "{} has no column {column}", self.table.name());
        self.cells.get(row * self.columns + column)
    }

    /// Forgets the rows and takes those of `table` from now on.
    pub(super) fn reset(&mut self, table: TableId) {
        self.table = table;
        self.columns = table.columns().len();
        self.cells.clear();
    }

    pub(super) fn int(&mut self, value: impl Into<i64>) {
        self.cells.push(Value::Int(value.into()));
    }

    pub(super) fn null(&mut self) {
        self.cells.push(Value::Null);
    }

    pub(super) fn text(&mut self, value: &str) {
        self.cells.push(Value::Text(value));
    }
}
