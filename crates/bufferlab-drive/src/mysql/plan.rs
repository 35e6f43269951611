//! Checks the plan that MySQL or MariaDB takes for Q1, by EXPLAIN FORMAT=JSON.

use bufferlab_workload::client::Workload;
use bufferlab_workload::index_scan::{SHIPDATE_INDEX, TABLE};
use bufferlab_workload::plan::Plan;
use serde_json::Value;

use super::control::Control;
use super::dialect::DIALECT;
use crate::failure::Failure;
use crate::plan;

/// Checks that the server takes the plan that the workload forces for its query, if it forces one.
///
/// # Errors
/// The server's error; a usage failure when the server would take another plan.
pub(super) fn check(workload: &mut dyn Workload, control: &mut Control) -> Result<(), Failure> {
    plan::check(&DIALECT, workload, |_, sql| {
        let text = control.explain(sql)?;
        Ok((plan_of(&text), text))
    })
}

/// Returns the plan by which the query reads its table, from EXPLAIN's JSON; none if it is not one of [`Plan`]. MySQL 9
/// by default has another form of the JSON (`explain_json_format_version` 2).
fn plan_of(text: &str) -> Option<Plan> {
    let explained: Value = serde_json::from_str(text).ok()?;
    let table = access(&explained)?;
    let word = |name| table.get(name).and_then(Value::as_str);
    match (word("access_type")?, word("key").or(word("index_name")), word("index_access_type")) {
        ("range", Some(SHIPDATE_INDEX), None) => Some(Plan::IndexScan),
        ("index", Some(SHIPDATE_INDEX), Some("index_range_scan")) => Some(Plan::IndexScan),
        ("ALL" | "table", None, None) => Some(Plan::Sequential),
        _ => None,
    }
}

/// Returns the object of EXPLAIN's JSON that describes the reading of the table. Versions nest it differently.
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
    fn plans_are_found_in_the_words_of_mysql_9() {
        let of = |table: &str| {
            plan_of(&format!(
                r#"{{"query": "select 1", "query_plan": {{"inputs": [{{"inputs": [{table}],
                "access_type": "temp_table_aggregate"}}], "operation": "Table scan on <temporary>",
                "table_name": "<temporary>", "access_type": "table"}}, "json_schema_version": "2.0"}}"#
            ))
        };
        let range = r#"{"table_name": "lineitem", "access_type": "index", "index_name": "lineitem_by_shipdate",
            "index_access_type": "index_range_scan", "multi_range_read": true, "covering": false}"#;
        assert_eq!(of(range), Some(Plan::IndexScan));
        assert_eq!(of(&range.replace("range_scan", "scan")), None);
        let whole = r#"{"table_name": "lineitem", "access_type": "table", "operation": "Table scan on lineitem"}"#;
        assert_eq!(of(&format!(r#"{{"access_type": "filter", "inputs": [{whole}]}}"#)), Some(Plan::Sequential));
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
