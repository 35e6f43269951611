//! The stream of transactions of the workload hot_rows: each is a select, or with some probability an update, of one
//! hot row by its id.
//!
//! There is one terminal. Each transaction is one statement without BEGIN and COMMIT, as in sysbench's
//! oltp_point_select.

use serde_json::json;

use super::NAME;
use super::config::{HotRowsConfig, HotRowsConfigError};
use super::digits::{C_GROUPS, Digits};
use super::hot_set::HotSet;
use super::statements::{READ_C, STATEMENTS, UPDATE_C};
use crate::client::{Batch, Client, ClientError, Outcome, Planned, StatementSpec, Value, Workload};
use crate::findings::Findings;
use crate::permutation::Permutation;
use crate::random::Random;
use crate::zipf::Zipf;

/// The transaction types, by the indices of [`Planned::transaction_type`].
pub const TRANSACTION_TYPES: [&str; 2] = ["select", "update"];
const SELECT: usize = 0;
const UPDATE: usize = 1;

/// Rows that the prefill reads in one step. A step takes a few milliseconds, so the driver can answer the sampler
/// between two steps.
const ROWS_PER_PIECE: u32 = 64;

/// The workload hot_rows for one connection.
#[derive(Debug)]
pub struct HotRowsDriver {
    hot: HotSet,
    ranks: Zipf,
    update_percent: u32,
    run_seed: u64,
    random: Random,
    /// The stream that replaces `random` when the measured window begins.
    window: Random,
    /// The order in which the prefill reads each hot row once.
    first_pass: Permutation,
    passed: u32,
    planned: Option<(usize, u32)>,
    digits: Digits,
    batch: Batch,
}

impl HotRowsDriver {
    /// Makes a driver that has read no row yet.
    ///
    /// # Errors
    /// [`HotRowsConfigError`] when the configuration breaks a bound.
    pub fn new(config: &HotRowsConfig) -> Result<Self, HotRowsConfigError> {
        config.check()?;
        let mut pass = Random::stream(config.run_seed, "hot rows' first pass", &[]);
        Ok(HotRowsDriver {
            hot: HotSet::new(config),
            ranks: Zipf::new(config.hot_rows.into(), config.zipf),
            update_percent: config.update_percent,
            run_seed: config.run_seed,
            random: Random::stream(config.run_seed, "hot rows driver", &[]),
            window: Random::stream(config.run_seed, "hot rows window", &[]),
            first_pass: Permutation::new(config.hot_rows.into(), &mut pass),
            passed: 0,
            planned: None,
            digits: Digits::default(),
            batch: Batch::default(),
        })
    }

    /// Makes this driver number `index` of several that have the same hot rows and separate random streams. Only driver
    /// zero, which always exists, does the prefill.
    #[must_use]
    pub fn numbered(mut self, index: u64) -> Self {
        if index > 0 {
            self.random = Random::stream(self.run_seed, "hot rows driver", &[index]);
            self.window = Random::stream(self.run_seed, "hot rows window", &[index]);
            self.passed = self.hot.len();
        }
        self
    }

    /// Returns the hot rows.
    pub fn hot_set(&self) -> &HotSet {
        &self.hot
    }

    /// Returns the type of the planned transaction and the id of its row; none before the first plan.
    pub fn planned(&self) -> Option<(usize, u32)> {
        self.planned
    }
}

impl Workload for HotRowsDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statements(&self) -> &'static [StatementSpec] {
        STATEMENTS
    }

    fn findings(&self) -> Findings {
        // The driver does not count distinct leaf pages: a formula gives their expected number from the shape of the
        // database.
        Findings::new(json!({ "hot_rows": self.hot.len(), "distinct_leaf_pages": null }), ())
    }

    fn transaction_types(&self) -> Vec<String> {
        TRANSACTION_TYPES.map(str::to_owned).to_vec()
    }

    fn terminals(&self) -> usize {
        1
    }

    fn plan(&mut self) -> Planned {
        let transaction_type = if self.random.percent(self.update_percent) { UPDATE } else { SELECT };
        let rank = self.ranks.draw(&mut self.random) as u32 - 1;
        self.planned = Some((transaction_type, self.hot.id(rank)));
        if transaction_type == UPDATE {
            self.digits.groups(&mut self.random, C_GROUPS);
        }
        Planned { transaction_type, terminal: 0 }
    }

    /// Replaces the stream of random numbers. The hot rows and the progress of the prefill stay.
    fn begin_window(&mut self) {
        self.random = self.window.clone();
    }

    /// # Panics
    /// When no transaction is planned.
    fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError> {
        let (transaction_type, id) = self.planned.expect("a transaction is planned before it is executed");
        self.batch.clear();
        if transaction_type == UPDATE {
            self.batch.call(UPDATE_C, &[Value::Text(self.digits.text(C_GROUPS)), id.into()]);
            client.execute(&mut self.batch)?;
            expect_one("updated", self.batch.affected(0), id)?;
        } else {
            self.batch.call(READ_C, &[id.into()]);
            client.execute(&mut self.batch)?;
            expect_one("read", self.batch.rows(0) as u64, id)?;
        }
        Ok(Outcome::Committed)
    }

    /// Reads each hot row once, in a random order that is independent of the rows' ranks and of their places in the
    /// table.
    fn prefill_step(&mut self, client: &mut dyn Client) -> Result<bool, ClientError> {
        let end = self.hot.len().min(self.passed + ROWS_PER_PIECE);
        if self.passed == end {
            return Ok(false);
        }
        self.batch.clear();
        for place in self.passed..end {
            let rank = self.first_pass.at(place.into()) as u32;
            self.batch.call(READ_C, &[self.hot.id(rank).into()]);
        }
        client.execute(&mut self.batch)?;
        for (call, place) in (self.passed..end).enumerate() {
            let rank = self.first_pass.at(place.into()) as u32;
            expect_one("read", self.batch.rows(call) as u64, self.hot.id(rank))?;
        }
        self.passed = end;
        Ok(end < self.hot.len())
    }
}

fn expect_one(action: &str, rows: u64, id: u32) -> Result<(), ClientError> {
    if rows == 1 {
        return Ok(());
    }
    Err(ClientError::Data { message: format!("{action} {rows} rows of the id {id}, not 1") })
}
