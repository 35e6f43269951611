//! Q1's text in a dialect for the plan that is asked for, its explanation, and whether the engine takes that plan.
//!
//! How an engine explains itself, and how its words are read, is each engine's own `plan` file.

use bufferlab_workload::index_scan::{IndexScanDriver, Plan, STATEMENTS};

use crate::dialect::{RowUse, Statements, sections};
use crate::failure::{Failure, FailureKind};

/// A dialect's file of Q1, one section for each plan.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The engine as messages name it.
    pub engine: &'static str,
    /// Name of the file, for messages.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
    /// Why the engine has no other plans than those with sections.
    pub without: &'static str,
    /// What stands for a parameter, counted from zero.
    pub place: fn(usize) -> String,
    /// A day since 1970 as a literal.
    pub day: fn(i32) -> String,
}

impl Dialect {
    /// The catalogue with the text for a plan.
    ///
    /// # Errors
    /// A usage failure when the engine has no such plan.
    pub fn statements(&self, plan: Plan) -> Result<Statements, Failure> {
        let found = sections(self.text).into_iter().find(|(name, _)| name == plan.name());
        let (_, text) = found.ok_or_else(|| {
            let what = format!("plan = {} cannot be had on {}: {}", plan.name(), self.engine, self.without);
            Failure::new(FailureKind::Usage, what, "plan", "choose plan = index_scan or sequential")
        })?;
        let text = text.trim().trim_end_matches(';').to_owned();
        Ok(Statements {
            place: self.file.to_owned(),
            specs: STATEMENTS.to_vec(),
            texts: vec![text],
            rows: RowUse::Kept,
        })
    }

    /// The same with the run's days in the places of the parameters, which not every engine can explain.
    ///
    /// # Errors
    /// As [`Dialect::statements`].
    pub fn with_days(&self, driver: &IndexScanDriver) -> Result<String, Failure> {
        let text = self.statements(driver.plan_asked())?.texts.swap_remove(0);
        let days = driver.range().into_iter().enumerate();
        Ok(days.fold(text, |text, (index, day)| text.replacen(&(self.place)(index), &(self.day)(day), 1)))
    }
}

/// Keeps the plan that the engine told, if it is the one that is asked for.
///
/// # Errors
/// A usage failure with the plan's text when it is another one.
pub fn judge(driver: &mut IndexScanDriver, used: Option<Plan>, text: String) -> Result<(), Failure> {
    let asked = driver.plan_asked();
    if used == Some(asked) {
        driver.keep_plan_text(text);
        return Ok(());
    }
    let took = used.map_or("a plan that is none of ours", Plan::name);
    let what = format!("plan = {} was asked for, and the engine would take {took}:\n{}", asked.name(), text.trim());
    let hint = "the table or its index is not as it was loaded, or the server's settings forbid the plan";
    Err(Failure::new(FailureKind::Usage, what, "plan", hint))
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::index_scan::{IndexScanConfig, ScaleFactor};

    use super::*;

    const DIALECT: Dialect = Dialect {
        engine: "Nobody's",
        file: "here",
        text: "-- name: index_scan\nSELECT ? AND ?;\n-- name: sequential\nSELECT 1;\n",
        without: "it has two plans",
        place: |_| "?".to_owned(),
        day: |day| day.to_string(),
    };

    fn driver(plan: Plan) -> IndexScanDriver {
        let scale_factor = ScaleFactor::new(0.001).expect("the scale is valid");
        let config = IndexScanConfig { scale_factor, from_day: 8_035, until_day: 8_100, plan };
        IndexScanDriver::new(&config).expect("the range is valid")
    }

    #[test]
    fn days_stand_in_the_places_of_parameters() {
        let explained = DIALECT.with_days(&driver(Plan::IndexScan));
        assert_eq!(explained.expect("there is such a section"), "SELECT 8035 AND 8100");
    }

    #[test]
    fn a_plan_that_an_engine_does_not_have_is_refused_with_the_reason() {
        let refused = DIALECT.statements(Plan::Bitmap).expect_err("there is no such section");
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(refused.what.contains("bitmap") && refused.what.contains("it has two plans"), "{refused}");
    }

    #[test]
    fn another_plan_than_asked_for_is_refused_with_the_engines_words() {
        let mut driver = driver(Plan::IndexScan);
        for used in [Some(Plan::Sequential), None] {
            let refused = judge(&mut driver, used, "SCAN lineitem".to_owned()).expect_err("it is another plan");
            assert!(refused.what.contains("index_scan") && refused.what.contains("SCAN lineitem"), "{refused}");
            assert_eq!(driver.plan_text(), "");
        }
        judge(&mut driver, Some(Plan::IndexScan), "SEARCH".to_owned()).expect("it is the plan");
        assert_eq!(driver.plan_text(), "SEARCH");
    }
}
