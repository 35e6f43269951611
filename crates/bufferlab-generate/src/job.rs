//! A run asked for by JSON: an engine, a scale, pools, a warm-up and a window; what an engine can do at once; and the
//! ways to answer.

use bufferlab_workload::tpcc::{TpccConfig, TpccConfigError};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use crate::engine::TRANSACTION_US;
use crate::hot_rows::RowsAsked;

/// Transactions of a simulation at most: keys of orders and numbers of pages have 32 bits.
pub const MAX_TRANSACTIONS: u64 = 100_000_000;

/// A pool to play the accesses to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolAsked {
    /// The model's name.
    pub model: String,
    /// The model's settings.
    pub settings: Value,
    /// The pool's frames.
    pub frames: u32,
    /// The factor on times of the generator's clock: at 2 everything takes twice as long.
    #[serde(default = "as_generated")]
    pub time: f64,
}

fn as_generated() -> f64 {
    1.0
}

/// The workload of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// TPC-C: scale, seeds and skew.
    Tpcc(TpccConfig),
    /// The workload hot_rows, which has a field of that name.
    HotRows(RowsAsked),
}

impl<'de> Deserialize<'de> for Workload {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let asked = Value::deserialize(from)?;
        let read = if asked.get("hot_rows").is_some() {
            serde_json::from_value(asked).map(Workload::HotRows)
        } else {
            serde_json::from_value(asked).map(Workload::Tpcc)
        };
        read.map_err(de::Error::custom)
    }
}

impl Workload {
    /// Returns the microseconds of a transaction by the generator's clock, which decides when InnoDB's cleaner works: of
    /// 400 a second, and of 10,000 selects.
    pub fn transaction_us(&self) -> u64 {
        match self {
            Workload::Tpcc(_) => TRANSACTION_US,
            Workload::HotRows(_) => 100,
        }
    }

    /// Returns the warehouses; another workload than TPC-C is as one.
    pub fn warehouses(&self) -> u32 {
        match self {
            Workload::Tpcc(config) => config.warehouses(),
            Workload::HotRows(_) => 1,
        }
    }

    /// Returns the same with another scale, and another seed of the run for each number but 0.
    ///
    /// # Errors
    /// When the scale is not allowed.
    pub fn of(&self, warehouses: u32, seed: u64) -> Result<Self, TpccConfigError> {
        let Workload::Tpcc(of) = self else { return Ok(*self) };
        let config = TpccConfig::new(warehouses, of.load_seed(), of.run_seed().wrapping_add(seed))?;
        Ok(Workload::Tpcc(config.with_skew(of.skew())))
    }
}

/// When a warm-up ends.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpAsked {
    /// After this many transactions.
    Transactions(u64),
    /// When the pool is warm by the rule of measured runs, and after this many transactions at the latest.
    GateWithin(u64),
}

/// A run to generate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// `innodb`, `postgres` or `sqlite`.
    pub engine: String,
    /// Bytes of a page.
    pub page_size_bytes: u32,
    /// Scale, seeds and transactions.
    pub workload: Workload,
    /// Simulate one page in `one_in`; 1 for all. Chosen automatically if neither this nor `simulated_warehouses` is.
    #[serde(default)]
    pub one_in: Option<u32>,
    /// Simulate this many warehouses for all; all where `one_in` alone is given.
    #[serde(default)]
    pub simulated_warehouses: Option<u32>,
    /// Connections.
    pub connections: u32,
    /// Whether all tables are read before the first transaction, as in a measured run.
    #[serde(default)]
    pub prefill: bool,
    /// The pools, all simulated at once. Without pools nothing is simulated: the answer has only the loaded database.
    pub pools: Vec<PoolAsked>,
    /// The end of the warm-up.
    pub warm_up: WarmUpAsked,
    /// Transactions for which a gate stays shut.
    #[serde(default)]
    pub at_least: u64,
    /// Whether all pools begin their windows with the first one's, in which the transactions are those of a measured
    /// run's window.
    #[serde(default)]
    pub one_window: bool,
    /// Transactions of the window.
    pub window_transactions: u64,
    /// Whether to count the pages of tables and indexes, in the window of the first pool.
    #[serde(default)]
    pub census: bool,
}

/// Transactions after which a gate is asked, as in a measured run.
pub const STRETCH: u64 = 500;

/// The limits of an engine's rules.
pub struct Limits {
    /// Warehouses.
    pub warehouses: u32,
    /// Bytes of memory of a warehouse's layout.
    pub layout_bytes: u64,
    /// Bytes of memory for a transaction.
    pub transaction_bytes: u64,
    /// Pages that all warehouses share.
    pub shared_pages: u32,
}

impl Limits {
    /// Returns those of most engines, with `warehouses` warehouses: only ITEM is shared, and a transaction keeps its
    /// order, its customer and the rows that it inserts.
    pub(crate) fn of(warehouses: u32, page_bytes: u32) -> Self {
        let layout_bytes = 60_000 + 2_000_000_000 / u64::from(page_bytes);
        Limits { warehouses, layout_bytes, transaction_bytes: 40, shared_pages: 9_700_000 / page_bytes }
    }
}

/// A way to answer a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Way {
    /// Its name.
    pub name: Name,
    /// Warehouses that are simulated.
    pub warehouses: u32,
    /// Pages of which one is simulated.
    pub one_in: u32,
}

/// The names of the ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Name {
    /// All warehouses and pages.
    Exact,
    /// Fewer warehouses, all of their pages.
    ForMore,
    /// All warehouses, one page in N.
    Sampled,
}

impl Way {
    /// Returns the way that simulates `warehouses` of `all` warehouses, and one page in `one_in`.
    pub(crate) fn new(all: u32, warehouses: u32, one_in: u32) -> Self {
        let name = match (warehouses < all, one_in > 1) {
            (_, true) => Name::Sampled,
            (true, false) => Name::ForMore,
            (false, false) => Name::Exact,
        };
        Way { name, warehouses, one_in }
    }
}
