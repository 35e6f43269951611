//! Checks the plan that SQLite takes for Q1, by EXPLAIN QUERY PLAN.

use bufferlab_workload::client::Workload;
use bufferlab_workload::index_scan::{SHIPDATE_INDEX, TABLE};
use bufferlab_workload::plan::Plan;

use super::dialect::DIALECT;
use super::engine::Engine;
use crate::failure::Failure;
use crate::plan;

/// Checks that SQLite takes the plan that the workload forces for its query, if it forces one.
///
/// # Errors
/// SQLite's error, also when the index is missing; a usage failure when SQLite would take another plan.
pub(super) fn check(workload: &mut dyn Workload, engine: &Engine) -> Result<(), Failure> {
    plan::check(&DIALECT, workload, |_, sql| {
        let lines = engine.query_plan(sql)?;
        Ok((plan_of(&lines), lines.join("\n")))
    })
}

/// Returns the plan by which the query reads its table, from the lines of EXPLAIN QUERY PLAN; none if it is not one of
/// [`Plan`].
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
