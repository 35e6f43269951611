//! The settings that make PostgreSQL's planner take a workload's plan, and a check by EXPLAIN of the plan that it takes
//! for Q1.

use bufferlab_workload::client::Workload;
use bufferlab_workload::index_scan::{SHIPDATE_INDEX, TABLE};
use bufferlab_workload::plan::Plan;
use serde_json::Value;

use super::control::Control;
use super::dialect::DIALECT;
use crate::failure::Failure;
use crate::plan;

/// The settings for workloads without a forced plan. Their statements find rows by keys, and each statement has an
/// index for that. Without the settings and with slightly old statistics, the planner would scan a small table instead,
/// and change the plan in the middle of a window. With the settings it plans each statement once, with an index scan,
/// and the only join is a nested loop.
const BY_INDEX: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; \
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";

/// Returns the settings of sessions that execute one of bufferlab's own workloads.
pub fn session_sql(workload: &mut dyn Workload) -> &'static str {
    workload.forced_plan().map_or(BY_INDEX, |plan| forcing(plan.asked))
}

/// Returns the settings that make the planner take a plan. They switch parallel workers off, so that plans differ only
/// in how they find rows. They also switch just-in-time compilation off, because the huge estimated cost of a disabled
/// plan would start it for some plans.
fn forcing(plan: Plan) -> &'static str {
    match plan {
        Plan::IndexScan => {
            "SET plan_cache_mode = force_custom_plan; SET jit = off; SET max_parallel_workers_per_gather = 0; \
             SET enable_seqscan = off; SET enable_bitmapscan = off"
        }
        Plan::Sequential => {
            "SET plan_cache_mode = force_custom_plan; SET jit = off; SET max_parallel_workers_per_gather = 0; \
             SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = off"
        }
        Plan::Bitmap => {
            "SET plan_cache_mode = force_custom_plan; SET jit = off; SET max_parallel_workers_per_gather = 0; \
             SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off"
        }
    }
}

/// Checks that the server takes the plan that the workload forces for its query, if it forces one, in a session with
/// the same settings.
///
/// # Errors
/// The server's error; a usage failure when the server would take another plan.
pub(super) fn check(workload: &mut dyn Workload, control: &mut Control) -> Result<(), Failure> {
    plan::check(&DIALECT, workload, |asked, sql| {
        control.execute("forcing a plan", forcing(asked))?;
        let explained = control.one("explaining a statement", &format!("EXPLAIN (FORMAT JSON) {sql}"));
        control.execute("resetting the settings of a plan", "RESET ALL")?;
        let text = explained?.unwrap_or_default();
        Ok((plan_of(&text), text))
    })
}

/// Returns the plan by which the query reads its table, from EXPLAIN's JSON; none if it is not one of [`Plan`].
fn plan_of(text: &str) -> Option<Plan> {
    let explained: Value = serde_json::from_str(text).ok()?;
    let node = scan(&explained)?;
    let text_of = |node: &Value, field: &str| node.get(field).and_then(Value::as_str).map(str::to_owned);
    let is_ours = |node: &Value| text_of(node, "Index Name").as_deref() == Some(SHIPDATE_INDEX);
    match text_of(node, "Node Type")?.as_str() {
        "Index Scan" if is_ours(node) => Some(Plan::IndexScan),
        "Seq Scan" => Some(Plan::Sequential),
        "Bitmap Heap Scan" => {
            let below = node.get("Plans").and_then(Value::as_array)?;
            below.iter().all(is_ours).then_some(Plan::Bitmap)
        }
        _ => None,
    }
}

/// Returns the node of EXPLAIN's JSON that reads the table.
fn scan(value: &Value) -> Option<&Value> {
    match value {
        Value::Object(fields) if fields.get("Relation Name").and_then(Value::as_str) == Some(TABLE) => Some(value),
        Value::Object(fields) => fields.values().find_map(scan),
        Value::Array(items) => items.iter().find_map(scan),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained(scan: &str) -> String {
        format!(r#"[{{"Plan": {{"Node Type": "Aggregate", "Plans": [{{"Node Type": "Sort", "Plans": [{scan}]}}]}}}}]"#)
    }

    #[test]
    fn plans_are_told_by_the_node_that_reads_the_table() {
        let of = |node: &str, rest: &str| {
            plan_of(&explained(&format!(r#"{{"Node Type": "{node}", "Relation Name": "lineitem"{rest}}}"#)))
        };
        let index = r#", "Index Name": "lineitem_by_shipdate""#;
        assert_eq!(of("Index Scan", index), Some(Plan::IndexScan));
        assert_eq!(of("Seq Scan", ""), Some(Plan::Sequential));
        let below = r#", "Plans": [{"Node Type": "Bitmap Index Scan", "Index Name": "lineitem_by_shipdate"}]"#;
        assert_eq!(of("Bitmap Heap Scan", below), Some(Plan::Bitmap));
    }

    #[test]
    fn other_plans_are_none_of_ours() {
        let by_key = r#"{"Node Type": "Index Scan", "Relation Name": "lineitem", "Index Name": "lineitem_pkey"}"#;
        assert_eq!(plan_of(&explained(by_key)), None);
        let orders = r#"{"Node Type": "Seq Scan", "Relation Name": "orders"}"#;
        assert_eq!(plan_of(&explained(orders)), None);
        assert_eq!(plan_of("no JSON"), None);
    }
}
