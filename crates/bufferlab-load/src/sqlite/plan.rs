//! Which plan SQLite takes for Q1, by EXPLAIN QUERY PLAN.

use bufferlab_workload::index_scan::{IndexScanDriver, Plan, SHIPDATE_INDEX, TABLE};

use super::engine::Engine;
use crate::failure::Failure;
use crate::q1::{Dialect, judge};

/// SQLite's words of Q1.
pub(super) const DIALECT: Dialect = Dialect {
    engine: "SQLite",
    file: "dialects/sqlite/index_scan/statements.sql",
    text: include_str!("../../dialects/sqlite/index_scan/statements.sql"),
    without: "it fetches rows one by one, in the order of the index (PostgreSQL has bitmap scans)",
    place: |_| "?".to_owned(),
    day: |day| day.to_string(),
};

/// Asks SQLite for its plan and keeps it in the driver.
///
/// # Errors
/// SQLite's own, also when the index is not there; a usage failure when it would take another plan.
pub(super) fn check(driver: &mut IndexScanDriver, engine: &Engine) -> Result<(), Failure> {
    let lines = engine.query_plan(&DIALECT.with_days(driver)?)?;
    judge(driver, plan_of(&lines), lines.join("\n"))
}

/// The plan for the table, of the lines of EXPLAIN QUERY PLAN.
fn plan_of(lines: &[String]) -> Option<Plan> {
    let by_index = format!("SEARCH {TABLE} USING INDEX {SHIPDATE_INDEX} (");
    let whole = format!("SCAN {TABLE}");
    lines.iter().find_map(|line| match line {
        line if line.starts_with(&by_index) => Some(Plan::IndexScan),
        line if *line == whole => Some(Plan::Sequential),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_told_by_what_is_done_with_the_table() {
        let of = |line: &str| plan_of(&["USE TEMP B-TREE FOR GROUP BY".to_owned(), line.to_owned()]);
        let search = "SEARCH lineitem USING INDEX lineitem_by_shipdate (l_shipdate>? AND l_shipdate<?)";
        assert_eq!(of(search), Some(Plan::IndexScan));
        assert_eq!(of("SCAN lineitem"), Some(Plan::Sequential));
        assert_eq!(of("SCAN lineitem USING INDEX lineitem_by_shipdate"), None);
        assert_eq!(of("SEARCH lineitem USING PRIMARY KEY (l_orderkey>?)"), None);
    }
}
