//! A run asked for by JSON: an engine, a scale, pools, a warm-up and a window; and what cannot be asked.

use bufferlab_sim::MODELS;
use bufferlab_workload::tpcc::TpccConfig;
use serde::Deserialize;
use serde_json::Value;

use crate::innodb::Innodb;
use crate::loaded::Loaded;
use crate::postgres::{self, Postgres};
use crate::run::{MakePools, Plan, Run, RunError, WarmUp, run};
use crate::sqlite::{self, Sqlite};

/// Transactions of a run at most: keys of orders and numbers of pages have 32 bits.
const MAX_TRANSACTIONS: u64 = 100_000_000;
/// Warehouses of a server's layout at most: rows of STOCK have 32-bit numbers.
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
    /// `innodb`, `postgres` or `sqlite`.
    pub engine: String,
    /// Bytes of a page.
    pub page_size_bytes: u32,
    /// Scale, seeds and skew of TPC-C.
    pub workload: TpccConfig,
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
const STRETCH: u64 = 500;

/// Does a job.
///
/// # Errors
/// When something cannot be asked, with the name of the field and what is possible.
pub fn generate(job: &Job, gate: &MakeGate<'_>) -> Result<Run, RunError> {
    check(job)?;
    let most = match job.warm_up {
        WarmUpAsked::Transactions(all) => all,
        // The last stretch may pass the limit.
        WarmUpAsked::GateWithin(most) => most + STRETCH,
    };
    let transactions = most + job.window_transactions;
    let mut gates: Vec<Box<dyn Gate>> = job.pools.iter().map(|pool| gate(pool.frames, STRETCH)).collect();
    let gates = std::cell::RefCell::new(&mut gates);
    let mut prefill = |pool: usize, misses: u64| gates.borrow_mut()[pool].prefill(misses);
    let mut is_warm = |pool: usize, misses: u64| gates.borrow_mut()[pool].is_warm(misses);
    let warm_up = match job.warm_up {
        WarmUpAsked::Transactions(all) => WarmUp::Transactions(all),
        WarmUpAsked::GateWithin(most) => {
            WarmUp::Gate { stretch: STRETCH, most, prefill: &mut prefill, is_warm: &mut is_warm }
        }
    };
    let plan = Plan {
        config: job.workload,
        connections: job.connections,
        prefill: job.prefill,
        warm_up,
        window: job.window_transactions,
        census: job.census,
    };
    let pools: Box<MakePools<'_>> = Box::new(|pages| {
        let made = job.pools.iter().map(|pool| {
            let entry = MODELS.iter().find(|entry| entry.name == pool.model);
            let entry = entry.ok_or_else(|| format!("there is no model {}", pool.model))?;
            (entry.make)(&pool.settings.to_string(), pool.frames, pages).map_err(|error| error.to_string())
        });
        made.collect()
    });
    match job.engine.as_str() {
        "innodb" => {
            let loaded = Loaded::new(&job.workload, &Innodb::records());
            run(Innodb::new(job.page_size_bytes, &loaded, transactions), loaded, plan, pools)
        }
        "postgres" => {
            let loaded = Loaded::new(&job.workload, &Postgres::records());
            run(Postgres::new(&loaded, transactions), loaded, plan, pools)
        }
        _ => {
            let loaded = Loaded::new(&job.workload, &Sqlite::records());
            run(Sqlite::new(job.page_size_bytes, &loaded, transactions), loaded, plan, pools)
        }
    }
}

fn check(job: &Job) -> Result<(), RunError> {
    let refuse = |field: &'static str, what: String| Err(RunError::Asked { field, what });
    let (warehouses, pages): (u32, std::ops::RangeInclusive<u32>) = match job.engine.as_str() {
        "innodb" => (MAX_WAREHOUSES, 4096..=16384),
        "postgres" => (postgres::MAX_WAREHOUSES, postgres::PAGE_BYTES..=postgres::PAGE_BYTES),
        "sqlite" => (sqlite::MAX_WAREHOUSES, sqlite::MIN_PAGE_BYTES..=65536),
        other => {
            return refuse("engine", format!("no rules are known for {other}; innodb, postgres and sqlite have them"));
        }
    };
    if job.workload.warehouses() > warehouses {
        return refuse("warehouses", format!("{} has rules for at most {warehouses}", job.engine));
    }
    if !pages.contains(&job.page_size_bytes) || !job.page_size_bytes.is_power_of_two() {
        let (least, most) = pages.into_inner();
        let sizes = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let what = format!("{} has no pages of {} bytes here, but of {sizes}", job.engine, job.page_size_bytes);
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
    let (WarmUpAsked::Transactions(warm_up) | WarmUpAsked::GateWithin(warm_up)) = job.warm_up;
    if warm_up.saturating_add(job.window_transactions) > MAX_TRANSACTIONS {
        return refuse("warm_up", format!("a run has at most {MAX_TRANSACTIONS} transactions"));
    }
    Ok(())
}
