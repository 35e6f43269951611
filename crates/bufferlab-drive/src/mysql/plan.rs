//! Checks the plan that MySQL or MariaDB takes for Q1, by EXPLAIN FORMAT=JSON.

use bufferlab_workload::client::Workload;
use bufferlab_workload::index_scan::{SHIPDATE_INDEX, TABLE};
use bufferlab_workload::plan::Plan;
use serde_json::Value;

use super::control::Control;
use super::dialect::DIALECT;
use crate::failure::Failure;
use crate::plan;

/// Asks the server for the plan of the workload's query, if it forces one.
///
/// # Errors
/// The server's; a usage failure when it would take another plan.
pub(super) fn check(workload: &mut dyn Workload, control: &mut Control) -> Result<(), Failure> {
    plan::check(&DIALECT, workload, |_, sql| {
        let text = control.explain(sql)?;
        Ok((plan_of(&text), text))
    })
}

/// Returns the plan for the table, in the explanation's JSON.
fn plan_of(text: &str) -> Option<Plan> {
    let explained: Value = serde_json::from_str(text).ok()?;
    let table = access(&explained)?;
    let key = table.get("key").and_then(Value::as_str);
    match (table.get("access_type")?.as_str()?, key) {
        ("range", Some(key)) if key == SHIPDATE_INDEX => Some(Plan::IndexScan),
        ("ALL", None) => Some(Plan::Sequential),
        _ => None,
    }
}

/// Returns the object that says how the table is read; versions nest it differently.
fn access(value: &Value) -> Option<&Value> {
    match value {
        Value::Object(fields) if fields.get("table_name").and_then(Value::as_str) == Some(TABLE) => Some(value),
        Value::Object(fields) => fields.values().find_map(access),
        Value::Array(items) => items.iter().find_map(access),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_found_however_deep_they_are_nested() {
        let mysql = r#"{"query_block": {"ordering_operation": {"using_filesort": true, "grouping_operation": {"table":
            {"table_name": "lineitem", "access_type": "range", "key": "lineitem_by_shipdate"}}}}}"#;
        assert_eq!(plan_of(mysql), Some(Plan::IndexScan));
        let mariadb = r#"{"query_block": {"select_id": 1, "filesort": {"temporary_table": {"nested_loop": [{"table":
            {"table_name": "lineitem", "access_type": "ALL", "rows": 5}}]}}}}"#;
        assert_eq!(plan_of(mariadb), Some(Plan::Sequential));
    }

    #[test]
    fn other_plans_and_other_texts_are_none_of_ours() {
        let of = |access: &str, key: &str| {
            plan_of(&format!(r#"{{"table": {{"table_name": "lineitem", "access_type": "{access}", "key": "{key}"}}}}"#))
        };
        assert_eq!(of("index", "lineitem_by_shipdate"), None);
        assert_eq!(of("range", "PRIMARY"), None);
        assert_eq!(plan_of("no JSON"), None);
        assert_eq!(plan_of(r#"{"table": {"table_name": "orders", "access_type": "ALL"}}"#), None);
    }
}
