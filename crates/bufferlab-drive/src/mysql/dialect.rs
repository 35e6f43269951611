//! The dialect of MySQL and MariaDB. The SQL files that all dialects share are written in this dialect.

use bufferlab_workload::client::Value;
use bufferlab_workload::plan::Plan;

use crate::dialect::{self, Dialect};

/// The dialect of MySQL and MariaDB.
pub const DIALECT: Dialect = Dialect {
    engine: "MySQL and MariaDB",
    folders: &["mysql", "servers", "shared"],
    words: &[],
    plans: &[
        (Plan::IndexScan, &[("FROM lineitem", "FROM lineitem FORCE INDEX (lineitem_by_shipdate)")]),
        (Plan::Sequential, &[("FROM lineitem", "FROM lineitem IGNORE INDEX (lineitem_by_shipdate)")]),
    ],
    without: "InnoDB fetches rows by key, in the order of the index (PostgreSQL has bitmap scans)",
    keys_last: false,
    place: |_| "?".to_owned(),
    day: |day| day.to_string(),
    literal,
};

/// Returns a value as a literal of SQL. In a text, a backslash is an escape character.
fn literal(value: Value<'_>) -> String {
    match value {
        Value::Text(text) => dialect::literal(Value::Text(&text.replace('\\', "\\\\"))),
        value => dialect::literal(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_cannot_end_early() {
        assert_eq!(literal(Value::Text("a'b\\")), "'a''b\\\\'");
        assert_eq!(literal(Value::Real(2.0)), "2.0");
    }
}
