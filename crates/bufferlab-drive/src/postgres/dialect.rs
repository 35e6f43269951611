//! PostgreSQL's dialect of SQL: how to change MySQL's wording of statements for PostgreSQL.

use bufferlab_workload::client::Value;
use bufferlab_workload::plan::Plan;

use crate::dialect::{self, Dialect};

/// PostgreSQL's dialect. CHAR stores texts with trailing blanks, so rows are as long as MySQL's. Customers' names are
/// compared by bytes, so that every engine sorts them in the same order. A plan is forced by settings of the session,
/// not by words in the query.
pub const DIALECT: Dialect = Dialect {
    engine: "PostgreSQL",
    folders: &["postgres", "servers", "shared"],
    words: &[
        ("TINYINT", "SMALLINT"),
        (" DATETIME", " TIMESTAMP"),
        (") ENGINE = InnoDB DEFAULT CHARACTER SET latin1 COLLATE latin1_bin", ")"),
        ("c_first VARCHAR(16)", "c_first VARCHAR(16) COLLATE \"C\""),
        ("c_last VARCHAR(16)", "c_last VARCHAR(16) COLLATE \"C\""),
        ("FROM_UNIXTIME(? DIV 1000000)", "?"),
        ("? / 100", "?::bigint * 0.01"),
        (" FORCE INDEX (%)", ""),
        ("STRAIGHT_JOIN", "JOIN"),
        ("AVG(%) + 0e0", "avg(%)::float8"),
        ("DATE '1970-01-01' + INTERVAL ? DAY", "?"),
    ],
    plans: &[(Plan::IndexScan, &[]), (Plan::Sequential, &[]), (Plan::Bitmap, &[])],
    without: "bufferlab does not know it",
    keys_last: true,
    place: |index| format!("${}", index + 1),
    day: |day| format!("(DATE '1970-01-01' + {day})"),
    literal,
};

/// Returns a value as a literal of SQL with standard strings. A negative number gets parentheses, because two minus
/// signs would begin a comment.
pub(super) fn literal(value: Value<'_>) -> String {
    let text = dialect::literal(value);
    if text.starts_with('-') { format!("({text})") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_cannot_end_early_or_begin_a_comment() {
        assert_eq!(literal(Value::Text("a'b\\")), "'a''b\\'");
        assert_eq!(format!("1-{}", literal(Value::Int(-5))), "1-(-5)");
        assert_eq!(literal(Value::Real(2.0)), "2.0");
    }
}
