//! A run without a server: the driver's transactions, the pools' warm-ups, and what each pool reads in its window.

use bufferlab_sim::{Counts, Manager};
use bufferlab_workload::client::{ClientError, Outcome, Workload};
use bufferlab_workload::tpcc::{TpccConfig, TpccConfigError, TpccDriver};
use serde::Serialize;

use crate::engine::Engine;
use crate::ghost::Ghost;
use crate::loaded::Loaded;
use crate::pools::{Counted, Object, Pools};

/// Microseconds of a transaction by the generator's clock: 400 a second. It decides when InnoDB's cleaner works.
pub const TRANSACTION_US: u64 = 2_500;

/// The index of New-Order among the transaction types.
const NEW_ORDER: usize = 0;

/// The end of a warm-up.
pub enum WarmUp<'a> {
    /// After so many transactions. The window then has the transactions of a measured run's window.
    Transactions(u64),
    /// When the pool's gate opens. It hears the pool's number and its misses in each stretch of transactions.
    Gate {
        /// Transactions of a stretch.
        stretch: u64,
        /// Transactions after which the warm-up ends at the latest.
        most: u64,
        /// Hears the misses of the prefill.
        prefill: &'a mut dyn FnMut(usize, u64),
        /// Returns whether the pool is warm.
        is_warm: &'a mut dyn FnMut(usize, u64) -> bool,
    },
}

/// What to run.
pub struct Plan<'a> {
    /// Scale, seeds and skew.
    pub config: TpccConfig,
    /// Connections, each with a driver of its own.
    pub connections: u32,
    /// Whether the tables are read once before the first transaction.
    pub prefill: bool,
    /// The end of the warm-up.
    pub warm_up: WarmUp<'a>,
    /// Transactions of the window.
    pub window: u64,
    /// Whether to count pages of tables and indexes, in the window of the first pool.
    pub census: bool,
    /// Whether all pools begin their windows when the first one is warm. The window then has the transactions of a
    /// measured run's window, as after a warm-up of so many transactions.
    pub one_window: bool,
    /// Hears how far the run is; false stops it.
    pub watch: Option<&'a mut Watch<'a>>,
}

/// Hears how many transactions are done, and how many of them in the window of the first pool once that has begun.
/// Returns whether to go on.
pub type Watch<'a> = dyn FnMut(u64, Option<u64>) -> bool + 'a;
/// Transactions after which a watch hears of the run.
const WATCHED: u64 = 100;
/// Types of transactions at most: those of TPC-C.
const TYPES: usize = 5;
/// Transactions of each type, in the order of the workload's own list.
pub type ByType = [u64; TYPES];

/// What one pool did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PoolRun {
    /// Transactions before its window.
    pub warm_up_transactions: u64,
    /// Whether the gate opened; true without one.
    pub is_warm: bool,
    /// Gets in the window.
    pub gets: u64,
    /// New-Orders in the window, those that roll back included, as metrics count them.
    pub new_orders: u64,
    /// Transactions of the window.
    pub transactions: u64,
    /// Those that committed, by type.
    pub committed: ByType,
    /// Those that rolled back as the workload asks, by type.
    pub rolled_back: ByType,
    /// How the gate opened; none where it did not, or where there is none.
    pub gate: Option<&'static str>,
    /// Pages that got a frame since the first transaction, up to the window's end.
    pub brought_in_since_start: u64,
    /// The manager's counts in the window.
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames that hold a page at the window's end.
    pub frames_used: u32,
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Each pool, in the order in which they were given.
    pub pools: Vec<PoolRun>,
    /// Pages of tables and indexes; empty without a census.
    pub census: Vec<Counted>,
    /// The tables and indexes after the load.
    pub objects: Vec<Object>,
    /// Bytes of data and indexes after the load, as the engine tells them.
    pub database_bytes: u64,
}

/// The error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration cannot run.
    #[error(transparent)]
    Config(#[from] TpccConfigError),
    /// The driver and the generator do not agree.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A pool cannot be.
    #[error("{0}")]
    Pool(String),
    /// The database outgrew its numbers.
    #[error("after {0} transactions a table has no numbers for further pages or orders")]
    Full(u64),
    /// The watch stopped the run.
    #[error("the run was stopped")]
    Stopped,
    /// Something cannot be asked.
    #[error("{what}")]
    Asked {
        /// The field of the job.
        field: &'static str,
        /// What is possible.
        what: String,
    },
}

/// Makes pools, given the number of pages.
pub type MakePools<'a> = dyn FnOnce(u32) -> Result<Vec<Box<dyn Manager + Send>>, String> + 'a;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Warming,
    Measured { gets: u64, done: Transactions, counts: Counts },
    Done,
}

/// Transactions so far.
#[derive(Clone, Copy, Default, PartialEq)]
struct Transactions {
    all: u64,
    new_orders: u64,
    committed: ByType,
    rolled_back: ByType,
}

impl Transactions {
    fn add(&mut self, transaction_type: usize, outcome: Outcome) {
        self.all += 1;
        self.new_orders += u64::from(transaction_type == NEW_ORDER);
        match outcome {
            Outcome::Committed => self.committed[transaction_type] += 1,
            Outcome::RolledBack => self.rolled_back[transaction_type] += 1,
        }
    }
}

/// The run under way.
struct Progress<E> {
    ghost: Ghost<E>,
    drivers: Vec<TpccDriver>,
    states: Vec<State>,
    runs: Vec<PoolRun>,
    census: Vec<Counted>,
    done: Transactions,
}

/// Runs the transactions of a plan on an engine's pages.
///
/// # Errors
/// When the configuration or a pool cannot be.
pub fn run<E: Engine>(engine: E, loaded: Loaded, plan: Plan<'_>, pools: Box<MakePools<'_>>) -> Result<Run, RunError> {
    let pools = Pools::new(pools(engine.objects().pages()).map_err(RunError::Pool)?);
    let drivers: Result<Vec<_>, _> =
        (0..plan.connections).map(|index| TpccDriver::new(plan.config, index, plan.connections)).collect();
    let count = pools.len();
    let mut progress = Progress {
        ghost: Ghost::new(engine, pools, loaded),
        drivers: drivers?,
        states: vec![State::Warming; count],
        runs: vec![PoolRun::default(); count],
        census: Vec::new(),
        done: Transactions::default(),
    };
    if plan.prefill {
        let Ghost { engine, pools, .. } = &mut progress.ghost;
        engine.prefill(pools);
    }
    progress.play(plan)?;
    let (objects, database_bytes) = (progress.ghost.engine.objects().all().to_vec(), progress.ghost.engine.bytes());
    Ok(Run { pools: progress.runs, census: progress.census, objects, database_bytes })
}

impl<E: Engine> Progress<E> {
    fn misses(&self, pool: usize) -> u64 {
        self.ghost.pools.counts(pool).misses
    }

    fn play(&mut self, plan: Plan<'_>) -> Result<(), RunError> {
        let Plan { mut warm_up, window, census, prefill, one_window, mut watch, .. } = plan;
        let filled: Vec<Counts> = (0..self.runs.len()).map(|pool| self.ghost.pools.counts(pool)).collect();
        let mut heard: Vec<u64> = filled.iter().map(|counts| counts.misses).collect();
        let gated = if one_window { 1 } else { heard.len() };
        if let WarmUp::Gate { prefill: tell, .. } = &mut warm_up
            && prefill
        {
            heard.iter().take(gated).enumerate().for_each(|(pool, &misses)| tell(pool, misses));
        }
        loop {
            let all = self.done.all;
            match &mut warm_up {
                WarmUp::Transactions(limit) if all == *limit => self.begin_all(census, true),
                WarmUp::Gate { stretch, most, is_warm, .. } if all > 0 && all.is_multiple_of(*stretch) => {
                    for (pool, before) in heard.iter_mut().enumerate().take(gated) {
                        let misses = self.misses(pool);
                        let new = misses - std::mem::replace(before, misses);
                        if self.states[pool] == State::Warming {
                            let warm = is_warm(pool, new);
                            match warm || all >= *most {
                                true if one_window => self.begin_all(census, warm),
                                true => self.begin(pool, census, warm),
                                false => {}
                            }
                        }
                    }
                }
                _ => {}
            }
            filled.iter().enumerate().for_each(|(pool, filled)| self.end_if_due(pool, window, filled));
            if self.states.iter().all(|state| *state == State::Done) {
                return Ok(());
            }
            if all.is_multiple_of(WATCHED)
                && let Some(watch) = &mut watch
                && !watch(all, self.measured(0))
            {
                return Err(RunError::Stopped);
            }
            self.transaction()?;
        }
    }

    /// Returns the transactions of a pool's window so far; none before it.
    fn measured(&self, pool: usize) -> Option<u64> {
        match self.states[pool] {
            State::Warming => None,
            State::Measured { done, .. } => Some(self.done.all - done.all),
            State::Done => Some(self.runs[pool].transactions),
        }
    }

    /// Begins the windows of all pools, with the transactions of a measured run's window.
    fn begin_all(&mut self, census: bool, is_warm: bool) {
        self.drivers.iter_mut().for_each(Workload::begin_window);
        (0..self.runs.len()).for_each(|pool| self.begin(pool, census, is_warm));
    }

    fn begin(&mut self, pool: usize, census: bool, is_warm: bool) {
        let pools = &mut self.ghost.pools;
        if census && pool == 0 {
            pools.begin_census(self.ghost.engine.objects());
        }
        self.runs[pool].is_warm = is_warm;
        self.runs[pool].warm_up_transactions = self.done.all;
        self.states[pool] = State::Measured { gets: pools.gets(), done: self.done, counts: pools.counts(pool) };
    }

    /// Ends a pool's window when it has its transactions; `filled` has the pool's counts before the first one.
    fn end_if_due(&mut self, pool: usize, window: u64, filled: &Counts) {
        let State::Measured { gets, done, counts } = self.states[pool] else { return };
        if self.done.all < done.all + window {
            return;
        }
        let pools = &mut self.ghost.pools;
        if pool == 0 {
            self.census = pools.end_census(self.ghost.engine.objects());
        }
        self.states[pool] = State::Done;
        let loaded = pools.counts(pool) - *filled;
        let of_window = |now: &ByType, before: &ByType| std::array::from_fn(|place| now[place] - before[place]);
        self.runs[pool] = PoolRun {
            gets: pools.gets() - gets,
            new_orders: self.done.new_orders - done.new_orders,
            transactions: window,
            committed: of_window(&self.done.committed, &done.committed),
            rolled_back: of_window(&self.done.rolled_back, &done.rolled_back),
            brought_in_since_start: loaded.misses + loaded.prefetch_reads + loaded.creates - loaded.ring_reuses,
            counts: pools.counts(pool) - counts,
            frames_used: pools.frames_used(pool),
            ..self.runs[pool]
        };
    }

    /// Executes the next transaction of the connection whose turn it is.
    fn transaction(&mut self) -> Result<(), RunError> {
        let connection = (self.done.all % self.drivers.len() as u64) as usize;
        self.ghost.pools.turn(connection as u16, self.done.all * TRANSACTION_US);
        let driver = &mut self.drivers[connection];
        let planned = driver.plan();
        let outcome = driver.execute(&mut self.ghost)?;
        if self.ghost.pools.is_full() {
            return Err(RunError::Full(self.done.all));
        }
        self.ghost.pools.transaction_done();
        self.done.add(planned.transaction_type, outcome);
        Ok(())
    }
}
