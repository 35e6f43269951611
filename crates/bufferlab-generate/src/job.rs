//! A run asked for by JSON: an engine, a scale, pools, a warm-up and a window; and what cannot be asked.

use bufferlab_sim::{MODELS, Manager, OneIn};
use bufferlab_workload::tpcc::{TpccConfig, TpccConfigError};
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::engine::Engine;
use crate::innodb::{self, Innodb};
use crate::loaded::Loaded;
use crate::pools::Pools;
use crate::rows::{RowTable, RowsAsked};
use crate::run::{MakePools, Plan, Run, RunError, WarmUp, run, run_rows};
use crate::scale::{self, Simulation};
use crate::shares::Shares;
use crate::sqlite::{self, Sqlite};

/// Transactions of a simulation at most: keys of orders and numbers of pages have 32 bits.
pub const MAX_TRANSACTIONS: u64 = 100_000_000;
/// Warehouses of a server's layout at most: rows of STOCK have 32-bit numbers. More are simulated by fewer.
const MAX_WAREHOUSES: u32 = 40_000;

/// A pool to play the accesses to.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolAsked {
    /// The model's name.
    pub model: String,
    /// The model's settings.
    pub settings: Value,
    /// Its frames.
    pub frames: u32,
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
            Workload::Tpcc(_) => 2_500,
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
    /// When there is no such scale.
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
    /// After so many transactions.
    Transactions(u64),
    /// When the pool is warm by the rule of measured runs, and after so many transactions at the latest.
    GateWithin(u64),
}

/// A run to generate.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// `innodb` or `sqlite`.
    pub engine: String,
    /// Bytes of a page.
    pub page_size_bytes: u32,
    /// Scale, seeds and what is done.
    pub workload: Workload,
    /// Simulate one page in so many; 1 for all. Chosen by itself where neither this nor `simulated_warehouses` is given.
    #[serde(default)]
    pub one_in: Option<u32>,
    /// Simulate so many warehouses for all; all where `one_in` alone is given.
    #[serde(default)]
    pub simulated_warehouses: Option<u32>,
    /// Connections.
    pub connections: u32,
    /// Whether all tables are read before the first transaction, as in a measured run.
    #[serde(default)]
    pub prefill: bool,
    /// The pools, all played at once.
    pub pools: Vec<PoolAsked>,
    /// The end of the warm-up.
    pub warm_up: WarmUpAsked,
    /// Transactions of the window.
    pub window_transactions: u64,
    /// Whether to count the pages of tables and indexes, in the window of the first pool.
    #[serde(default)]
    pub census: bool,
}

/// Tells whether a pool is warm.
pub trait Gate {
    /// Hears the misses of the prefill.
    fn prefill(&mut self, misses: u64);

    /// Hears the misses of one more stretch; returns whether the pool is warm.
    fn is_warm(&mut self, misses: u64) -> bool;
}

/// Makes the gate of a pool of so many frames, which hears of each stretch of so many transactions.
pub type MakeGate<'a> = dyn Fn(u32, u64) -> Box<dyn Gate> + 'a;

/// Transactions after which a gate is asked, as in a measured run.
pub const STRETCH: u64 = 500;

/// Does a job: exactly, or by simulating a part of the database ([`scale`]).
///
/// # Errors
/// When something cannot be asked, with the name of the field and what is possible.
pub fn generate(job: &Job, gate: &MakeGate<'_>) -> Result<Run, RunError> {
    let limits = check(job)?;
    let way = scale::choose(job, &limits)?;
    let runs: Result<Vec<_>, _> = way
        .simulations(job, &limits)?
        .into_iter()
        .map(|part| simulate(job, &part, gate).map(|run| (part, run)))
        .collect();
    Ok(way.combine(job, runs?))
}

/// Runs one simulation. Its pools are those of the job for each of its shares, share after share.
fn simulate(job: &Job, part: &Simulation, gate: &MakeGate<'_>) -> Result<Run, RunError> {
    let transactions = part.most_transactions();
    let all = || part.shares.iter().flat_map(|share| job.pools.iter().map(move |pool| (share, pool)));
    let mut gates: Vec<Box<dyn Gate>> = all().map(|(_, pool)| gate(part.frames(pool.frames), STRETCH)).collect();
    // A gate hears of as many misses as all pages would have.
    let times: Vec<u64> = all().map(|((shares, _), _)| shares.one_in().into()).collect();
    let gates = std::cell::RefCell::new(&mut gates);
    let mut prefill = |pool: usize, misses: u64| gates.borrow_mut()[pool].prefill(misses * times[pool]);
    let mut is_warm = |pool: usize, misses: u64| gates.borrow_mut()[pool].is_warm(misses * times[pool]);
    let warm_up = match part.warm_up {
        WarmUpAsked::Transactions(all) => WarmUp::Transactions(all),
        WarmUpAsked::GateWithin(most) => {
            WarmUp::Gate { stretch: STRETCH, most, prefill: &mut prefill, is_warm: &mut is_warm }
        }
    };
    let plan = Plan {
        connections: job.connections,
        prefill: job.prefill,
        warm_up,
        window: part.window,
        census: job.census,
        transaction_us: part.transaction_us,
    };
    let pools: Box<MakePools<'_>> = Box::new(|pages| {
        let made = part.shares.iter().map(|&(shares, number)| {
            let own: Result<Vec<_>, String> =
                job.pools.iter().map(|pool| make(pool, part, shares, number, pages)).collect();
            own.map(|own| (shares, number, own))
        });
        made.collect::<Result<Vec<_>, _>>().map(Pools::of_shares)
    });
    let config = match &part.workload {
        Workload::Tpcc(config) => *config,
        Workload::HotRows(rows) => {
            let table: Box<dyn RowTable> = match job.engine.as_str() {
                "innodb" => Box::new(innodb::Rows::new(job.page_size_bytes, rows)),
                _ => Box::new(sqlite::Rows::new(job.page_size_bytes, rows)),
            };
            return run_rows(table, &rows.config()?, plan, pools);
        }
    };
    match job.engine.as_str() {
        "innodb" => {
            let loaded = Loaded::new(&config, &Innodb::records());
            run(Innodb::new(job.page_size_bytes, &loaded, transactions), loaded, plan, pools)
        }
        _ => {
            let loaded = Loaded::new(&config, &Sqlite::records());
            run(Sqlite::new(job.page_size_bytes, &loaded, transactions), loaded, plan, pools)
        }
    }
}

/// Makes a pool of a share of a simulation's pages.
fn make(
    asked: &PoolAsked,
    part: &Simulation,
    shares: Shares,
    number: u32,
    pages: u32,
) -> Result<Box<dyn Manager + Send>, String> {
    let entry = MODELS.iter().find(|entry| entry.name == asked.model);
    let entry = entry.ok_or_else(|| format!("there is no model {}", asked.model))?;
    let frames = shares.frames(number, part.frames(asked.frames));
    let one_in = OneIn::new(f64::from(shares.one_in()) / part.part);
    (entry.make)(&asked.settings.to_string(), frames, shares.pages(pages), one_in).map_err(|error| error.to_string())
}

/// What an engine's rules can do at once.
pub struct Limits {
    /// Warehouses.
    pub warehouses: u32,
    /// Bytes of memory of a warehouse's layout.
    pub layout_bytes: u64,
    /// Pages that all warehouses share.
    pub shared_pages: u32,
}

fn check(job: &Job) -> Result<Limits, RunError> {
    let refuse = |field: &'static str, what: String| Err(RunError::Asked { field, what });
    let bytes = job.page_size_bytes;
    let (warehouses, pages, layout_bytes, shared_pages): (u32, std::ops::RangeInclusive<u32>, u64, u32) =
        match job.engine.as_str() {
            "innodb" => (MAX_WAREHOUSES, 4096..=16384, Innodb::layout_bytes(bytes), Innodb::shared_pages(bytes)),
            "sqlite" => (
                sqlite::MAX_WAREHOUSES,
                sqlite::MIN_PAGE_BYTES..=65536,
                Sqlite::layout_bytes(bytes),
                Sqlite::shared_pages(bytes),
            ),
            other => return refuse("engine", format!("no rules are known for {other}; innodb and sqlite have them")),
        };
    if !pages.contains(&bytes) || !bytes.is_power_of_two() {
        let what = format!("{} has no pages of {bytes} bytes here, but of {pages:?}", job.engine);
        return refuse("page_size", what);
    }
    if job.engine == "sqlite" && job.connections != 1 {
        return refuse("connections", "sqlite has one connection".into());
    }
    if job.pools.is_empty() {
        return refuse("pools", "at least one pool is needed".into());
    }
    if job.connections == 0 || job.window_transactions == 0 {
        return refuse("window_transactions", "a window and a connection are needed".into());
    }
    if job.window_transactions > MAX_TRANSACTIONS {
        return refuse("window_transactions", format!("a run has at most {MAX_TRANSACTIONS} transactions"));
    }
    if let Workload::HotRows(rows) = &job.workload {
        rows.config()?;
        if let Some(what) = rows.refusal() {
            return refuse("pad_chars", what);
        }
    }
    Ok(Limits { warehouses, layout_bytes, shared_pages })
}
