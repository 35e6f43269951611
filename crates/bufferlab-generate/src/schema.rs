//! The columns of TPC-C's tables on servers, read from the statements that create these tables:
//! crates/bufferlab-drive/dialects/servers/tpcc/schema.sql.

use bufferlab_workload::tpcc::schema::TableId;

const SCHEMA: &str = include_str!("../../bufferlab-drive/dialects/servers/tpcc/schema.sql");

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// TINYINT, SMALLINT or INT, with the number's bytes.
    Int(u32),
    /// CHAR, with the number of characters.
    Char(u32),
    /// VARCHAR, with the most characters that a text may have.
    Varchar(u32),
    /// DECIMAL, with the number of digits, and how many of these are after the point.
    Decimal(u32, u32),
    /// DATETIME in whole seconds.
    Datetime,
}

/// A column of a server's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column's type.
    pub kind: Type,
    /// Whether the column may be null.
    pub nullable: bool,
}

/// The columns of every table.
#[derive(Debug)]
pub struct Schema {
    tables: Vec<Vec<Column>>,
}

impl Default for Schema {
    fn default() -> Self {
        Schema { tables: TableId::ALL.iter().map(|table| columns(table.name())).collect() }
    }
}

impl Schema {
    /// Returns the columns of a table.
    pub fn columns(&self, table: TableId) -> &[Column] {
        &self.tables[table as usize]
    }
}

fn columns(table: &str) -> Vec<Column> {
    let from = SCHEMA.find(&format!("CREATE TABLE {table} (")).unwrap_or(SCHEMA.len());
    let lines = SCHEMA[from..].lines().skip(1).take_while(|line| !line.starts_with(')'));
    lines.filter(|line| !line.contains("PRIMARY KEY")).filter_map(column).collect()
}

fn column(line: &str) -> Option<Column> {
    let (_, told) = line.trim().split_once(' ')?;
    let numbers: Vec<u32> =
        told.split(|letter: char| !letter.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let word = told.split(|letter: char| !letter.is_ascii_alphabetic()).next()?;
    let kind = match (word, &numbers[..]) {
        ("TINYINT", _) => Type::Int(1),
        ("SMALLINT", _) => Type::Int(2),
        ("INT", _) => Type::Int(4),
        ("CHAR", &[chars, ..]) => Type::Char(chars),
        ("VARCHAR", &[chars, ..]) => Type::Varchar(chars),
        ("DECIMAL", &[digits, behind, ..]) => Type::Decimal(digits, behind),
        ("DATETIME", _) => Type::Datetime,
        _ => return None,
    };
    Some(Column { kind, nullable: !told.contains("NOT NULL") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_of_the_workload_has_a_type() {
        let schema = Schema::default();
        for table in TableId::ALL {
            assert_eq!(schema.columns(table).len(), table.columns().len(), "{}", table.name());
        }
        let c_data = schema.columns(TableId::Customer)[20];
        assert_eq!(c_data, Column { kind: Type::Varchar(500), nullable: true });
        assert_eq!(schema.columns(TableId::Customer)[14].kind, Type::Decimal(16, 2));
        assert!(!schema.columns(TableId::OrderLine)[3].nullable);
    }
}
