//! A run asked for by JSON: an engine, a scale, pools, a warm-up and a window; and what cannot be asked.

use bufferlab_model::trace::Access;
use bufferlab_sim::{Counts, MODELS, Manager};
use bufferlab_workload::tpcc::TpccConfig;
use serde::Deserialize;
use serde_json::Value;

use crate::innodb::Innodb;
use crate::loaded::Loaded;
use crate::run::{MakePools, Plan, Run, RunError, WarmUp, Watch, run};
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
    /// How many times as long as by the generator's clock everything takes.
    #[serde(default = "as_generated")]
    pub time: f64,
}

fn as_generated() -> f64 {
    1.0
}

/// A pool that hears another time.
struct Timed {
    pool: Box<dyn Manager + Send>,
    time: f64,
}

impl Timed {
    fn at(&self, access: Access) -> Access {
        Access { now_us: (access.now_us as f64 * self.time) as u64, ..access }
    }
}

impl Manager for Timed {
    fn get(&mut self, access: Access) {
        self.pool.get(self.at(access));
    }

    fn get_if_in_pool(&mut self, access: Access) {
        self.pool.get_if_in_pool(self.at(access));
    }

    fn create(&mut self, access: Access) {
        self.pool.create(self.at(access));
    }

    fn prefetch(&mut self, access: Access) {
        self.pool.prefetch(self.at(access));
    }

    fn drop_page(&mut self, access: Access) {
        self.pool.drop_page(self.at(access));
    }

    fn counts(&self) -> Counts {
        self.pool.counts()
    }

    fn frames_used(&self) -> u32 {
        self.pool.frames_used()
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
    /// Scale, seeds and skew of TPC-C.
    pub workload: TpccConfig,
    /// Connections.
    pub connections: u32,
    /// Whether all tables are read before the first transaction, as in a measured run.
    #[serde(default)]
    pub prefill: bool,
    /// The pools, all played at once. Without one nothing is played: the answer has the loaded database alone.
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

/// Tells whether a pool is warm.
pub trait Gate {
    /// Hears the misses of the prefill.
    fn prefill(&mut self, misses: u64);

    /// Hears the misses of one more stretch; returns whether the pool is warm.
    fn is_warm(&mut self, misses: u64) -> bool;

    /// Returns why the pool is warm; none while it is not.
    fn end(&self) -> Option<&'static str>;
}

/// Makes the gate of a pool of so many frames, which hears of each stretch of so many transactions.
pub type MakeGate<'a> = dyn Fn(u32, u64) -> Box<dyn Gate> + 'a;

/// Transactions after which a gate is asked, as in a measured run.
const STRETCH: u64 = 500;

/// Does a job.
///
/// # Errors
/// When something cannot be asked, with the name of the field and what is possible.
pub fn generate(job: &Job, gate: &MakeGate<'_>, watch: Option<&mut Watch<'_>>) -> Result<Run, RunError> {
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
    // Of this call's own lifetime, as the other closures.
    let mut tell = watch.map(|watch| move |all, measured| watch(all, measured));
    let plan = Plan {
        config: job.workload,
        connections: job.connections,
        prefill: job.prefill,
        warm_up,
        window: job.window_transactions,
        census: job.census,
        one_window: job.one_window,
        watch: tell.as_mut().map(|tell| tell as &mut Watch<'_>),
    };
    let pools: Box<MakePools<'_>> = Box::new(|pages| {
        let made = job.pools.iter().map(|pool| {
            let entry = MODELS.iter().find(|entry| entry.name == pool.model);
            let entry = entry.ok_or_else(|| format!("there is no model {}", pool.model))?;
            let made =
                (entry.make)(&pool.settings.to_string(), pool.frames, pages).map_err(|error| error.to_string())?;
            Ok(if pool.time == 1.0 { made } else { Box::new(Timed { pool: made, time: pool.time }) })
        });
        made.collect()
    });
    let mut done = match job.engine.as_str() {
        "innodb" => {
            let loaded = Loaded::kept("innodb", &job.workload, &Innodb::records());
            run(Innodb::new(job.page_size_bytes, &loaded, transactions), loaded, plan, pools)
        }
        _ => {
            let loaded = Loaded::kept("sqlite", &job.workload, &Sqlite::records());
            run(Sqlite::new(job.page_size_bytes, &loaded, transactions), loaded, plan, pools)
        }
    }?;
    done.pools.iter_mut().zip(gates.borrow().iter()).for_each(|(pool, gate)| pool.gate = gate.end());
    Ok(done)
}

fn check(job: &Job) -> Result<(), RunError> {
    let refuse = |field: &'static str, what: String| Err(RunError::Asked { field, what });
    let (warehouses, pages): (u32, std::ops::RangeInclusive<u32>) = match job.engine.as_str() {
        "innodb" => (MAX_WAREHOUSES, 4096..=16384),
        "sqlite" => (sqlite::MAX_WAREHOUSES, sqlite::MIN_PAGE_BYTES..=65536),
        other => return refuse("engine", format!("no rules are known for {other}; innodb and sqlite have them")),
    };
    if job.workload.warehouses() > warehouses {
        return refuse("warehouses", format!("{} has rules for at most {warehouses}", job.engine));
    }
    if !pages.contains(&job.page_size_bytes) || !job.page_size_bytes.is_power_of_two() {
        let what = format!(
            "{} has no pages of {} bytes here, but of {} to {}",
            job.engine,
            job.page_size_bytes,
            pages.start(),
            pages.end()
        );
        return refuse("page_size", what);
    }
    if job.engine == "sqlite" && job.connections != 1 {
        return refuse("connections", "sqlite has one connection".into());
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
