//! A run without a server: the driver's transactions, the pools' warm-ups, and what each pool reads in its window.

use bufferlab_sim::Counts;
use bufferlab_workload::client::{ClientError, Outcome, Workload};
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsConfigError, HotRowsDriver};
use bufferlab_workload::tpcc::{TpccConfigError, TpccDriver};
use serde::Serialize;

use crate::engine::Engine;
use crate::job::{STRETCH, WarmUpAsked, Way};
use crate::loaded::Loaded;
use crate::log_writes::LogWrites;
use crate::pools::{ByType, Counted, Object, Pools};
use crate::rowless_client::RowlessClient;

/// The index of New-Order among the transaction types.
const NEW_ORDER: usize = 0;

/// Decides whether a pool is warm, so that its warm-up ends (the gate "opens"). The run guarantees that it calls
/// `prefill` before the first `is_warm`.
pub trait Gate {
    /// Takes the misses of the prefill.
    fn prefill(&mut self, misses: u64);

    /// Takes the misses since the last check; returns whether the pool is warm.
    fn is_warm(&mut self, misses: u64) -> bool;

    /// Returns the reason for which the pool is warm; none while it is not.
    fn end(&self) -> Option<&'static str>;
}

/// The settings of a run.
pub struct Plan<'a> {
    /// The number of connections. Each has its own driver.
    pub connections: u32,
    /// Whether the workload's prefill fills the pool before the first transaction.
    pub prefill: bool,
    /// The end of the warm-up: after a number of transactions, or when the pool's gate opens. In the first case the
    /// window has the same transactions as in a measured run.
    pub warm_up: WarmUpAsked,
    /// The gate that ends each pool's warm-up, and the factor by which the pool's misses are multiplied for this gate.
    pub gates: Vec<(Box<dyn Gate>, u64)>,
    /// The most misses of the prefill that a warm-up's gate is given.
    pub most_prefill_misses: u64,
    /// The number of transactions of the window.
    pub window: u64,
    /// Whether to count pages of tables and indexes, in the window of the first pool.
    pub census: bool,
    /// Duration of a transaction on the generator's clock, in microseconds.
    pub transaction_us: u64,
    /// Whether all pools begin their windows when the first pool is warm. The window then has the same transactions as
    /// in a measured run.
    pub one_window: bool,
    /// Called with the run's progress; false stops the run.
    pub watch: Option<&'a mut Watch<'a>>,
}

/// A function that is called with the number of transactions done, and with the number of those in the first pool's
/// window, once the window has begun. It returns whether to go on.
pub type Watch<'a> = dyn FnMut(u64, Option<u64>) -> bool + 'a;
/// Transactions between two calls of a watch.
const WATCHED: u64 = 100;
/// The results of one pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PoolRun {
    /// Number of transactions before the pool's window.
    pub warm_up_transactions: u64,
    /// Whether the pool's gate opened; true if the warm-up has no gate.
    pub is_warm: bool,
    /// Number of page gets in the window, including gets of pages that are not simulated.
    pub gets: u64,
    /// Number of page changes in the window: creations, and gets under an exclusive latch. It includes pages that are
    /// not simulated.
    pub changes: u64,
    /// New-Orders in the window, with those that roll back, as metrics count them; 0 for another workload than TPC-C.
    pub new_orders: u64,
    /// Number of transactions in the window.
    pub transactions: u64,
    /// Transactions of the window that committed, by type.
    pub committed: ByType,
    /// Transactions of the window that rolled back as the workload asks, by type.
    pub rolled_back: ByType,
    /// The reason for which the gate ended the warm-up; none if it did not, or without a gate.
    pub gate: Option<&'static str>,
    /// Pages that got a frame since the first transaction, up to the window's end.
    pub brought_in_since_start: u64,
    /// The manager's counts in the window.
    #[serde(flatten)]
    pub counts: Counts,
    /// The writes of the engine's log in the window.
    #[serde(flatten)]
    pub log_writes: LogWrites,
    /// Frames that hold a page at the window's end.
    pub frames_used: u32,
    /// The expected error as a fraction of the misses, if less than all pages were simulated; none for an exact
    /// simulation, and without misses.
    pub error: Option<f64>,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// The results of the pools, in the order in which the pools were given.
    pub pools: Vec<PoolRun>,
    /// The census of tables and indexes; empty if none was asked for.
    pub census: Vec<Counted>,
    /// The tables and indexes after the load.
    pub objects: Vec<Object>,
    /// Bytes of data and indexes after the load, as the engine reports them; none for hot_rows if its index on k is not
    /// laid out.
    pub database_bytes: Option<u64>,
    /// The part of the database that was simulated.
    pub way: Way,
}

/// The error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration of TPC-C is not possible.
    #[error(transparent)]
    Config(#[from] TpccConfigError),
    /// The configuration of hot_rows is not possible.
    #[error(transparent)]
    HotRows(#[from] HotRowsConfigError),
    /// The driver sent a statement that the generator does not know or expect.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The configuration of a pool is not possible.
    #[error("{0}")]
    Pool(String),
    /// A table has no numbers left for pages or orders, after this many transactions.
    #[error("after {0} transactions a table has no numbers for further pages or orders")]
    Full(u64),
    /// The watch stopped the run.
    #[error("the run was stopped")]
    Stopped,
    /// The job asks for something that is not possible.
    #[error("{what}")]
    Asked {
        /// The field of the job.
        field: &'static str,
        /// The message, with the values that are possible.
        what: String,
    },
}

#[derive(Clone, Copy, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "a run has one state")]
enum State {
    Warming,
    Measured { gets: u64, changes: u64, done: Transactions, counts: Counts, log_writes: LogWrites },
    Done,
}

/// The numbers of transactions that have ended since the run began: all, and by type those that committed or rolled
/// back.
#[derive(Clone, Copy, Default, PartialEq)]
struct Transactions {
    all: u64,
    committed: ByType,
    rolled_back: ByType,
}

/// The run under way.
struct Progress {
    client: RowlessClient,
    drivers: Vec<Box<dyn Workload>>,
    states: Vec<State>,
    runs: Vec<PoolRun>,
    census: Vec<Counted>,
    done: Transactions,
    transaction_us: u64,
}

/// The workload of a run.
pub enum Played {
    /// Transactions of TPC-C on a loaded database.
    Tpcc(Loaded),
    /// Selects and updates of hot rows.
    HotRows(HotRowsConfig),
}

impl Played {
    fn driver(&self, index: u32, connections: u32) -> Result<Box<dyn Workload>, RunError> {
        Ok(match self {
            Played::Tpcc(loaded) => Box::new(TpccDriver::new(*loaded.config(), index, connections)?),
            Played::HotRows(config) => Box::new(HotRowsDriver::new(config)?.numbered(index.into())),
        })
    }
}

/// Runs a workload on an engine's pages, until every pool has had its window.
///
/// # Errors
/// When the configuration is not possible, driver and generator disagree, a table runs out of numbers, or the watch
/// stops the run.
pub fn run(mut engine: Box<dyn Engine>, played: Played, plan: Plan<'_>, mut pools: Pools) -> Result<Run, RunError> {
    let drivers = (0..plan.connections).map(|index| played.driver(index, plan.connections));
    let mut drivers = drivers.collect::<Result<Vec<_>, _>>()?;
    let loaded = match played {
        Played::Tpcc(loaded) => Some(loaded),
        Played::HotRows(_) => None,
    };
    match &loaded {
        Some(_) if plan.prefill => engine.prefill(&mut pools),
        Some(_) => {}
        None => engine.connect(&mut pools),
    }
    let (count, database_bytes) = (pools.count(), engine.bytes());
    let mut client = RowlessClient::new(engine, pools, loaded);
    for driver in drivers.iter_mut().filter(|_| plan.prefill) {
        while driver.prefill_step(&mut client)? {}
    }
    let mut progress = Progress {
        client,
        drivers,
        states: vec![State::Warming; count],
        runs: vec![PoolRun::default(); count],
        census: Vec::new(),
        done: Transactions::default(),
        transaction_us: plan.transaction_us,
    };
    progress.play(plan)?;
    let objects = progress.client.engine.objects().all().to_vec();
    Ok(Run { pools: progress.runs, census: progress.census, objects, database_bytes, way: Way::new(1, 1, 1) })
}

impl Progress {
    fn play(&mut self, plan: Plan<'_>) -> Result<(), RunError> {
        let Plan { warm_up, window, census, prefill, one_window, mut watch, mut gates, most_prefill_misses, .. } = plan;
        let filled: Vec<Counts> = (0..self.runs.len()).map(|pool| self.client.pools.counts(pool)).collect();
        let mut heard: Vec<u64> = filled.iter().map(|counts| counts.misses).collect();
        let gated = if one_window { 1 } else { heard.len() };
        if prefill && let WarmUpAsked::GateWithin(_) = warm_up {
            for (&misses, (gate, times)) in heard.iter().zip(&mut gates).take(gated) {
                gate.prefill(most_prefill_misses.min(misses * *times));
            }
        }
        loop {
            let all = self.done.all;
            match warm_up {
                WarmUpAsked::Transactions(limit) if all == limit => self.begin_all(census, true),
                WarmUpAsked::GateWithin(most) if all > 0 && all.is_multiple_of(STRETCH) => {
                    for (pool, (before, (gate, times))) in heard.iter_mut().zip(&mut gates).enumerate().take(gated) {
                        let misses = self.client.pools.counts(pool).misses;
                        let new = misses - std::mem::replace(before, misses);
                        if self.states[pool] == State::Warming {
                            let warm = gate.is_warm(new * *times);
                            match warm || all >= most {
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
                self.runs.iter_mut().zip(&gates).for_each(|(run, (gate, _))| run.gate = gate.end());
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

    /// Returns the number of transactions of a pool's window so far; none before the window begins.
    fn measured(&self, pool: usize) -> Option<u64> {
        match self.states[pool] {
            State::Warming => None,
            State::Measured { done, .. } => Some(self.done.all - done.all),
            State::Done => Some(self.runs[pool].transactions),
        }
    }

    /// Begins the windows of all pools. The drivers then plan the transactions of a measured run's window.
    fn begin_all(&mut self, census: bool, is_warm: bool) {
        self.drivers.iter_mut().for_each(|driver| driver.begin_window());
        (0..self.runs.len()).for_each(|pool| self.begin(pool, census, is_warm));
    }

    fn begin(&mut self, pool: usize, census: bool, is_warm: bool) {
        assert!(self.states[pool] == State::Warming, "the window of pool {pool} begins a second time");
        let RowlessClient { pools, engine, .. } = &mut self.client;
        if census && pool == 0 {
            pools.begin_census(engine.objects(), &engine.interior_pages());
        }
        self.runs[pool].is_warm = is_warm;
        self.runs[pool].warm_up_transactions = self.done.all;
        let (counts, log_writes) = (pools.counts(pool), engine.log_writes());
        self.states[pool] =
            State::Measured { gets: pools.gets(), changes: pools.changes(), done: self.done, counts, log_writes };
    }

    /// Ends a pool's window when it has its transactions; `filled` has the pool's counts before the first transaction.
    fn end_if_due(&mut self, pool: usize, window: u64, filled: &Counts) {
        let State::Measured { gets, changes, done, counts, log_writes } = self.states[pool] else { return };
        if self.done.all < done.all + window {
            return;
        }
        let RowlessClient { pools, engine, .. } = &mut self.client;
        if pool == 0 {
            self.census = pools.end_census(engine.objects());
        }
        assert_eq!(self.done.all, done.all + window, "the window of pool {pool} ends too late");
        self.states[pool] = State::Done;
        let of_window = |now: &ByType, before: &ByType| std::array::from_fn(|place| now[place] - before[place]);
        self.runs[pool] = PoolRun {
            gets: pools.gets() - gets,
            changes: pools.changes() - changes,
            transactions: window,
            committed: of_window(&self.done.committed, &done.committed),
            rolled_back: of_window(&self.done.rolled_back, &done.rolled_back),
            brought_in_since_start: (pools.counts(pool) - *filled).brought_in(),
            counts: pools.counts(pool) - counts,
            log_writes: engine.log_writes() - log_writes,
            frames_used: pools.frames_used(pool),
            ..self.runs[pool]
        };
        let PoolRun { committed, rolled_back, new_orders, .. } = &mut self.runs[pool];
        if self.client.loaded.is_some() {
            *new_orders = committed[NEW_ORDER] + rolled_back[NEW_ORDER];
        }
        let ended = committed.iter().chain(rolled_back.iter()).sum::<u64>();
        assert_eq!(ended, window, "each transaction of a window commits or rolls back");
    }

    /// Executes the next transaction of the connection whose turn it is.
    fn transaction(&mut self) -> Result<(), RunError> {
        let connection = (self.done.all % self.drivers.len() as u64) as usize;
        let driver = &mut self.drivers[connection];
        let planned = driver.plan();
        let now_us = self.done.all * self.transaction_us;
        self.client.pools.turn(connection as u16, now_us, planned.transaction_type);
        let outcome = driver.execute(&mut self.client)?;
        if self.client.pools.is_full() {
            return Err(RunError::Full(self.done.all));
        }
        self.client.pools.transaction_done();
        self.done.all += 1;
        match outcome {
            Outcome::Committed => self.done.committed[planned.transaction_type] += 1,
            Outcome::RolledBack => self.done.rolled_back[planned.transaction_type] += 1,
        }
        Ok(())
    }
}
