//! A job in JSON: it asks for a run with an engine, a scale, pools, a warm-up and a window. Also the limits of an
//! engine's rules, and the ways to answer a job.

use bufferlab_workload::tpcc::{TpccConfig, TpccConfigError};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use crate::engine::TRANSACTION_US;
use crate::hot_rows::RowsAsked;

/// The most transactions of a simulation: keys of orders and numbers of pages have 32 bits.
pub const MAX_TRANSACTIONS: u64 = 100_000_000;

/// A pool that gets the generated accesses.
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
    /// If true, the pool is simulated only if the whole database can be simulated with all pools in memory; otherwise
    /// it is left out. Such pools do not change the way in which the others are simulated.
    #[serde(default)]
    pub if_exact: bool,
}

fn as_generated() -> f64 {
    1.0
}

/// The workload of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Workload {
    /// TPC-C: scale, seeds and skew.
    Tpcc(TpccConfig),
    /// The workload hot_rows; its JSON has a field of that name.
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
    /// Returns the duration of a transaction on the generator's clock, in microseconds: 400 transactions of TPC-C a
    /// second, or 10,000 selects. The clock decides when InnoDB's page cleaner works.
    pub fn transaction_us(&self) -> u64 {
        match self {
            Workload::Tpcc(_) => TRANSACTION_US,
            Workload::HotRows(_) => 100,
        }
    }

    /// Returns the number of warehouses; 1 for another workload than TPC-C.
    pub fn warehouses(&self) -> u32 {
        match self {
            Workload::Tpcc(config) => config.warehouses(),
            Workload::HotRows(_) => 1,
        }
    }

    /// Returns the same workload with `warehouses` warehouses, and `seed` added to the seed of the run. hot_rows stays
    /// unchanged.
    ///
    /// # Errors
    /// When the scale is not allowed.
    pub fn of(&self, warehouses: u32, seed: u64) -> Result<Self, TpccConfigError> {
        let Workload::Tpcc(of) = self else { return Ok(*self) };
        let config = TpccConfig::new(warehouses, of.load_seed(), of.run_seed().wrapping_add(seed))?;
        Ok(Workload::Tpcc(config.with_skew(of.skew())))
    }
}

/// The moment at which a pool's warm-up ends and its window may begin.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpAsked {
    /// The warm-up ends after this many transactions.
    Transactions(u64),
    /// The warm-up ends when the pool's gate opens, that is, when the pool is warm by the rule of measured runs. It
    /// ends after this many transactions at the latest.
    GateWithin(u64),
}

/// A run to generate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The engine: `innodb` (up to MySQL 5.7), `innodb80` (from 8.0 on), `postgres` or `sqlite`.
    pub engine: String,
    /// Bytes of a page of the database.
    pub page_size_bytes: u32,
    /// The workload, with its scale and seeds.
    pub workload: Workload,
    /// Simulate one page in `one_in`; 1 for all. If neither this nor `simulated_warehouses` is given, both are chosen.
    #[serde(default)]
    pub one_in: Option<u32>,
    /// Simulate this many warehouses in place of all. If only `one_in` is given, all are simulated.
    #[serde(default)]
    pub simulated_warehouses: Option<u32>,
    /// The number of connections that take turns with transactions.
    pub connections: u32,
    /// Whether all tables are read before the first transaction, as in a measured run.
    #[serde(default)]
    pub prefill: bool,
    /// The pools, all simulated at once. Without pools nothing is simulated: the answer has only the loaded database.
    pub pools: Vec<PoolAsked>,
    /// The moment at which the warm-up of each pool ends.
    pub warm_up: WarmUpAsked,
    /// The number of transactions before which no gate ends a warm-up.
    #[serde(default)]
    pub at_least: u64,
    /// Whether all pools begin their windows when the first pool does. The window then has the same transactions as in
    /// a measured run.
    #[serde(default)]
    pub one_window: bool,
    /// The number of transactions of the window.
    pub window_transactions: u64,
    /// The frames of SQLite's write-ahead log from which on a commit begins a checkpoint. Without it the log's writes
    /// are not counted.
    #[serde(default)]
    pub checkpoint_frames: Option<u64>,
    /// Whether to count the pages of tables and indexes, in the window of the first pool.
    #[serde(default)]
    pub census: bool,
}

/// The number of transactions between two checks whether a warm-up may end, as in a measured run.
pub const STRETCH: u64 = 500;

/// The limits of an engine's rules.
pub struct Limits {
    /// The most warehouses that the rules can handle.
    pub warehouses: u32,
    /// Bytes of this process's memory that the layout of one simulated warehouse takes.
    pub layout_bytes: u64,
    /// Bytes of this process's memory that each simulated transaction takes until the run ends.
    pub transaction_bytes: u64,
    /// The number of the database's pages that all warehouses share, such as those of ITEM.
    pub shared_pages: u32,
}

impl Limits {
    /// Returns the limits of most engines, for at most `warehouses` warehouses: they share only ITEM. Memory keeps the
    /// order, the customer and the inserted rows of each transaction.
    pub(crate) fn of(warehouses: u32, page_bytes: u32) -> Self {
        let layout_bytes = 60_000 + 2_000_000_000 / u64::from(page_bytes);
        Limits { warehouses, layout_bytes, transaction_bytes: 40, shared_pages: 9_700_000 / page_bytes }
    }
}

/// A way to answer a job: the part of the database that is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Way {
    /// The way's name.
    pub name: Name,
    /// The number of warehouses that are simulated.
    pub warehouses: u32,
    /// One page in this many is simulated.
    pub one_in: u32,
}

/// The names of the ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Name {
    /// All warehouses and all of their pages are simulated.
    Exact,
    /// Fewer warehouses represent all, and all of their pages are simulated.
    ForMore,
    /// One page in N is simulated.
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
