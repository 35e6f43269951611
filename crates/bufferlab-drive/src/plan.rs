//! Checks whether an engine takes the plan that a workload forces, before the run reads data.
//!
//! Each engine's file `plan` asks the engine for its explanation (EXPLAIN), and finds the plan in it.

use bufferlab_workload::client::Workload;
use bufferlab_workload::plan::{ForcedPlan, Plan};

use crate::dialect::Dialect;
use crate::failure::{Failure, FailureKind};

/// The plan that an engine takes (none if it is not one of [`Plan`]), and the engine's explanation.
pub type Explained = (Option<Plan>, String);

/// Checks by `explain` that the engine takes the plan that the workload forces for its query, and keeps the engine's
/// explanation in the workload. Does nothing for a workload that forces no plan, as most do.
///
/// # Errors
/// The errors of `explain` and of [`Dialect::with_days`]; a usage failure with the engine's explanation when the engine
/// takes another plan.
pub fn check(
    dialect: &Dialect,
    workload: &mut dyn Workload,
    explain: impl FnOnce(Plan, &str) -> Result<Explained, Failure>,
) -> Result<(), Failure> {
    let Some(ForcedPlan { asked, days, .. }) = workload.forced_plan().cloned() else { return Ok(()) };
    let (used, text) = explain(asked, &dialect.with_days(workload, &days)?)?;
    if used == Some(asked) {
        workload.forced_plan().into_iter().for_each(|plan| plan.told.clone_from(&text));
        return Ok(());
    }
    let took = used.map_or("another plan", Plan::name);
    let what =
        format!("the experiment asks for plan = {}, and the engine would take {took}:\n{}", asked.name(), text.trim());
    let hint = "the table or its index has changed since the load, or the server's settings forbid the plan";
    Err(Failure::new(FailureKind::Usage, what, "plan", hint))
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::index_scan::{IndexScanConfig, IndexScanDriver, ScaleFactor};

    use super::*;
    use crate::{mysql, postgres, sqlite};

    fn driver(plan: Plan) -> IndexScanDriver {
        let scale_factor = ScaleFactor::new(0.001).expect("the scale is valid");
        let config = IndexScanConfig { scale_factor, from_day: 8_035, until_day: 8_100, plan };
        IndexScanDriver::new(&config).expect("the range is valid")
    }

    #[test]
    fn days_stand_in_the_places_of_parameters() {
        let expected = [
            (
                mysql::DIALECT,
                "WHERE l_shipdate >= DATE '1970-01-01' + INTERVAL 8035 DAY AND l_shipdate < DATE '1970-01-01' + INTERVAL 8100 DAY\n",
            ),
            (
                postgres::DIALECT,
                "WHERE l_shipdate >= (DATE '1970-01-01' + 8035) AND l_shipdate < (DATE '1970-01-01' + 8100)\n",
            ),
            (sqlite::DIALECT, "WHERE l_shipdate >= 8035 AND l_shipdate < 8100\n"),
        ];
        for (dialect, range) in expected {
            let mut asked = String::new();
            let explain = |_, sql: &str| {
                sql.clone_into(&mut asked);
                Ok((Some(Plan::IndexScan), "SEARCH".to_owned()))
            };
            check(&dialect, &mut driver(Plan::IndexScan), explain).expect("it is the plan");
            assert!(asked.contains(range) && !asked.contains(';'), "{asked}");
        }
    }

    #[test]
    fn a_plan_that_an_engine_does_not_have_is_refused_with_the_reason() {
        let refused = sqlite::DIALECT.statements(&mut driver(Plan::Bitmap)).expect_err("SQLite has no bitmaps");
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(refused.what.contains("bitmap") && refused.what.contains("row"), "{refused}");
    }

    #[test]
    fn another_plan_than_asked_for_is_refused_with_the_engines_words() {
        let mut driver = driver(Plan::IndexScan);
        let told = |driver: &mut IndexScanDriver| driver.forced_plan().map(|plan| plan.told.clone());
        for used in [Some(Plan::Sequential), None] {
            let explain = |_, _: &str| Ok((used, "SCAN lineitem".to_owned()));
            let refused = check(&sqlite::DIALECT, &mut driver, explain).expect_err("it is another plan");
            assert!(refused.what.contains("index_scan") && refused.what.contains("SCAN lineitem"), "{refused}");
            assert_eq!(told(&mut driver).as_deref(), Some(""));
        }
        let explain = |_, _: &str| Ok((Some(Plan::IndexScan), "SEARCH".to_owned()));
        check(&sqlite::DIALECT, &mut driver, explain).expect("it is the plan");
        assert_eq!(told(&mut driver).as_deref(), Some("SEARCH"));
    }
}
