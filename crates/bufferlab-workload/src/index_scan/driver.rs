//! The stream of transactions: Q1 over the same range again and again, each answer checked against the generator's rows.

use std::sync::Arc;

use super::answer::Answer;
use super::config::{IndexScanConfig, IndexScanConfigError, Plan};
use super::statements::Q1;
use crate::client::{Batch, Client, ClientError, Outcome, Planned, Value, Workload};

/// The transaction types, by the indices of [`Planned::transaction_type`].
pub const TRANSACTION_TYPES: [&str; 1] = ["q1"];

/// Q1 for one connection.
#[derive(Debug)]
pub struct IndexScanDriver {
    config: IndexScanConfig,
    /// What Q1 must answer, the same for all connections.
    answer: Arc<Answer>,
    /// The engine's words for the plan it takes.
    plan_text: String,
    checked: u64,
    batch: Batch,
}

impl IndexScanDriver {
    /// A driver that has read nothing yet. Computes the answer to be expected, which takes about a second for each scale
    /// factor of 1; [`IndexScanDriver::another`] is for further connections.
    ///
    /// # Errors
    /// [`IndexScanConfigError`] when a bound is not kept.
    pub fn new(config: &IndexScanConfig) -> Result<Self, IndexScanConfigError> {
        config.check()?;
        let answer = Answer::expected(config);
        answer.check_published(config).map_err(|difference| IndexScanConfigError::NotPublished { difference })?;
        Ok(IndexScanDriver {
            config: *config,
            answer: Arc::new(answer),
            plan_text: String::new(),
            checked: 0,
            batch: Batch::default(),
        })
    }

    /// The same for a further connection.
    #[must_use]
    pub fn another(&self) -> Self {
        IndexScanDriver {
            config: self.config,
            answer: Arc::clone(&self.answer),
            plan_text: self.plan_text.clone(),
            checked: 0,
            batch: Batch::default(),
        }
    }

    /// The plan that is asked for.
    #[must_use]
    pub fn plan_asked(&self) -> Plan {
        self.config.plan
    }

    /// The statement's parameters, in their order.
    #[must_use]
    pub fn range(&self) -> [i32; 2] {
        [self.config.from_day, self.config.until_day]
    }

    /// What Q1 must answer.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Answers that were checked and right.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// Keeps the engine's words for the plan it takes, once somebody has judged them.
    pub fn keep_plan_text(&mut self, text: String) {
        self.plan_text = text;
    }

    /// The engine's words for the plan it takes.
    #[must_use]
    pub fn plan_text(&self) -> &str {
        &self.plan_text
    }
}

impl Workload for IndexScanDriver {
    fn transaction_types(&self) -> Vec<String> {
        TRANSACTION_TYPES.map(str::to_owned).to_vec()
    }

    fn terminals(&self) -> usize {
        1
    }

    fn plan(&mut self) -> Planned {
        Planned { transaction_type: 0, terminal: 0 }
    }

    fn execute<C: Client>(&mut self, client: &mut C) -> Result<Outcome, ClientError> {
        self.batch.clear();
        let [from, until] = self.range().map(|day| Value::Int(day.into()));
        self.batch.call(Q1, &[from, until]);
        client.execute(&mut self.batch)?;
        self.answer.check(&self.batch, 0).map_err(|message| ClientError::Data { message })?;
        self.checked += 1;
        Ok(Outcome::Committed)
    }
}
