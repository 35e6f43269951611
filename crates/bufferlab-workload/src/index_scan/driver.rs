//! The stream of transactions of the workload index_scan: repeats TPC-H's Q1 over the same range, and checks each
//! answer against the generator's rows.

use std::sync::Arc;

use serde_json::json;

use super::NAME;
use super::answer::Answer;
use super::config::{IndexScanConfig, IndexScanConfigError};
use super::statements::{Q1, STATEMENTS};
use crate::client::{Batch, Client, ClientError, Outcome, Planned, StatementSpec, Value, Workload};
use crate::findings::Findings;
use crate::plan::ForcedPlan;

/// The transaction types, by the indices of [`Planned::transaction_type`].
pub const TRANSACTION_TYPES: [&str; 1] = ["q1"];

/// The workload index_scan for one connection.
#[derive(Debug)]
pub struct IndexScanDriver {
    plan: ForcedPlan,
    /// The expected answer of Q1, the same for all connections.
    answer: Arc<Answer>,
    checked: u64,
    batch: Batch,
}

impl IndexScanDriver {
    /// Makes the driver of the first connection. It computes the expected answer, which takes about a second times the
    /// scale factor. [`IndexScanDriver::another`] makes the drivers of further connections.
    ///
    /// # Errors
    /// [`IndexScanConfigError`] when the range holds no day, or the generator's answer is not the published one.
    pub fn new(config: &IndexScanConfig) -> Result<Self, IndexScanConfigError> {
        config.check()?;
        let answer = Answer::expected(config);
        answer.check_published(config).map_err(|difference| IndexScanConfigError::NotPublished { difference })?;
        Ok(IndexScanDriver {
            plan: ForcedPlan { asked: config.plan, days: [config.from_day, config.until_day], told: String::new() },
            answer: Arc::new(answer),
            checked: 0,
            batch: Batch::default(),
        })
    }

    /// Makes a driver for a further connection, with the same expected answer.
    pub fn another(&self) -> Self {
        IndexScanDriver {
            plan: self.plan.clone(),
            answer: Arc::clone(&self.answer),
            checked: 0,
            batch: Batch::default(),
        }
    }

    /// Returns the expected answer of Q1.
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Returns the number of right answers so far.
    pub fn checked(&self) -> u64 {
        self.checked
    }
}

impl Workload for IndexScanDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statements(&self) -> &'static [StatementSpec] {
        STATEMENTS
    }

    fn forced_plan(&mut self) -> Option<&mut ForcedPlan> {
        Some(&mut self.plan)
    }

    fn has_long_statements(&self) -> bool {
        true
    }

    /// Returns the forced plan, the engine's EXPLAIN of the query, the number of rows in the range, and the number of
    /// right answers.
    fn findings(&self) -> Findings {
        let ForcedPlan { asked, told, .. } = &self.plan;
        let facts = json!({ "plan": asked.name(), "plan_text": told, "rows_in_range": self.answer.rows() });
        Findings::new(facts, json!({ "answers_checked": self.checked }))
    }

    fn transaction_types(&self) -> Vec<String> {
        TRANSACTION_TYPES.map(str::to_owned).to_vec()
    }

    fn terminals(&self) -> usize {
        1
    }

    fn plan(&mut self) -> Planned {
        Planned { transaction_type: 0, terminal: 0 }
    }

    fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError> {
        self.batch.clear();
        let [from, until] = self.plan.days.map(|day| Value::Int(day.into()));
        self.batch.call(Q1, &[from, until]);
        client.execute(&mut self.batch)?;
        self.answer.check(&self.batch, 0).map_err(|message| ClientError::Data { message })?;
        self.checked += 1;
        Ok(Outcome::Committed)
    }
}
