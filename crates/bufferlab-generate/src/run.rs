//! A run without a server: the driver's transactions, the pools' warm-ups, and what each pool reads in its window.

use bufferlab_sim::Counts;
use bufferlab_workload::client::{Client, ClientError, Workload};
use bufferlab_workload::hot_rows::{HotRowsConfig, HotRowsConfigError, HotRowsDriver};
use bufferlab_workload::tpcc::{TpccConfigError, TpccDriver};
use serde::Serialize;

use crate::engine::Engine;
use crate::ghost::Ghost;
use crate::loaded::Loaded;
use crate::pools::{Counted, Object, Objects, Pools};
use crate::rows::{RowGhost, RowTable};
use crate::scale::Way;

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
    /// Connections, each with a driver of its own.
    pub connections: u32,
    /// Whether the pool is filled before the first transaction, as the workload does it.
    pub prefill: bool,
    /// The end of the warm-up.
    pub warm_up: WarmUp<'a>,
    /// Transactions of the window.
    pub window: u64,
    /// Whether to count pages of tables and indexes, in the window of the first pool.
    pub census: bool,
    /// Microseconds of a transaction by the generator's clock.
    pub transaction_us: u64,
}

/// What one pool did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PoolRun {
    /// Transactions before its window.
    pub warm_up_transactions: u64,
    /// Whether the gate opened; true without one.
    pub is_warm: bool,
    /// Gets in the window.
    pub gets: u64,
    /// New-Orders in the window, those that roll back included, as metrics count them; 0 of another workload than TPC-C.
    pub new_orders: u64,
    /// Transactions of the window.
    pub transactions: u64,
    /// The manager's counts in the window.
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames that hold a page at the window's end.
    pub frames_used: u32,
    /// The error of the misses that is to be expected of a simulation of less than all pages, as a share of them; none
    /// of an exact one, and where nothing is missed.
    pub error: Option<f64>,
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
    /// The part of the database that was simulated.
    pub way: Way,
}

/// The error of a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration cannot run.
    #[error(transparent)]
    Config(#[from] TpccConfigError),
    /// The hot rows cannot be.
    #[error(transparent)]
    HotRows(#[from] HotRowsConfigError),
    /// The driver and the generator do not agree.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A pool cannot be.
    #[error("{0}")]
    Pool(String),
    /// The database outgrew its numbers.
    #[error("after {0} transactions a table has no numbers for further pages or orders")]
    Full(u64),
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
pub type MakePools<'a> = dyn FnOnce(u32) -> Result<Pools, String> + 'a;

#[derive(Clone, Copy, PartialEq)]
enum State {
    Warming,
    Measured { gets: u64, new_orders: u64, counts: Counts, began: u64 },
    Done,
}

/// A client without rows.
pub trait Paging: Client {
    /// Returns the listeners of its page accesses, and its tables and indexes.
    fn parts(&mut self) -> (&mut Pools, &Objects);
}

/// The run under way.
struct Progress<C> {
    ghost: C,
    drivers: Vec<Box<dyn Workload>>,
    /// The transaction type that is counted.
    counted: Option<usize>,
    states: Vec<State>,
    runs: Vec<PoolRun>,
    census: Vec<Counted>,
    transactions: u64,
    transaction_us: u64,
    new_orders: u64,
}

/// Runs transactions of TPC-C on an engine's pages.
///
/// # Errors
/// When the configuration or a pool cannot be.
pub fn run<E: Engine>(engine: E, loaded: Loaded, plan: Plan<'_>, pools: Box<MakePools<'_>>) -> Result<Run, RunError> {
    let mut pools = pools(engine.objects().pages()).map_err(RunError::Pool)?;
    let config = *loaded.config();
    let driver = |index| Ok(Box::new(TpccDriver::new(config, index, plan.connections)?) as Box<dyn Workload>);
    let drivers: Result<Vec<_>, TpccConfigError> = (0..plan.connections).map(driver).collect();
    let drivers = drivers?;
    let mut engine = engine;
    if plan.prefill {
        engine.prefill(&mut pools);
    }
    play(Ghost::new(engine, pools, loaded), drivers, Some(NEW_ORDER), plan)
}

/// Runs selects and updates of hot rows on an engine's pages.
///
/// # Errors
/// When the configuration or a pool cannot be.
pub fn run_rows(
    table: Box<dyn RowTable>,
    config: &HotRowsConfig,
    plan: Plan<'_>,
    pools: Box<MakePools<'_>>,
) -> Result<Run, RunError> {
    let mut ghost = RowGhost::new(pools(table.objects().pages()).map_err(RunError::Pool)?, table);
    let driver = |index| Ok(HotRowsDriver::new(config)?.numbered(index));
    let drivers: Result<Vec<_>, HotRowsConfigError> = (0..plan.connections.into()).map(driver).collect();
    let mut drivers = drivers?;
    if plan.prefill {
        for driver in &mut drivers {
            while driver.prefill_step(&mut ghost)? {}
        }
    }
    play(ghost, drivers.into_iter().map(|driver| Box::new(driver) as Box<dyn Workload>).collect(), None, plan)
}

/// Plays transactions until every pool has had its window.
fn play<C: Paging>(
    mut ghost: C,
    drivers: Vec<Box<dyn Workload>>,
    counted: Option<usize>,
    plan: Plan<'_>,
) -> Result<Run, RunError> {
    let count = ghost.parts().0.len();
    let mut progress = Progress {
        ghost,
        drivers,
        counted,
        states: vec![State::Warming; count],
        runs: vec![PoolRun::default(); count],
        census: Vec::new(),
        transactions: 0,
        transaction_us: plan.transaction_us,
        new_orders: 0,
    };
    progress.play(plan)?;
    let objects = progress.ghost.parts().1.all().to_vec();
    Ok(Run { pools: progress.runs, census: progress.census, objects, way: Way::default() })
}

impl<C: Paging> Progress<C> {
    fn misses(&mut self, pool: usize) -> u64 {
        self.ghost.parts().0.counts(pool).misses
    }

    fn play(&mut self, plan: Plan<'_>) -> Result<(), RunError> {
        let Plan { mut warm_up, window, census, prefill, .. } = plan;
        let mut heard: Vec<u64> = (0..self.runs.len()).map(|pool| self.misses(pool)).collect();
        if let WarmUp::Gate { prefill: tell, .. } = &mut warm_up
            && prefill
        {
            heard.iter().enumerate().for_each(|(pool, &misses)| tell(pool, misses));
        }
        loop {
            match &mut warm_up {
                WarmUp::Transactions(all) if self.transactions == *all => {
                    self.drivers.iter_mut().for_each(|driver| driver.begin_window());
                    (0..self.runs.len()).for_each(|pool| self.begin(pool, census, true));
                }
                WarmUp::Gate { stretch, most, is_warm, .. }
                    if self.transactions > 0 && self.transactions.is_multiple_of(*stretch) =>
                {
                    for (pool, before) in heard.iter_mut().enumerate() {
                        let misses = self.misses(pool);
                        let new = misses - std::mem::replace(before, misses);
                        if self.states[pool] == State::Warming {
                            let warm = is_warm(pool, new);
                            if warm || self.transactions >= *most {
                                self.begin(pool, census, warm);
                            }
                        }
                    }
                }
                _ => {}
            }
            (0..self.runs.len()).for_each(|pool| self.end_if_due(pool, window));
            if self.states.iter().all(|state| *state == State::Done) {
                return Ok(());
            }
            self.transaction()?;
        }
    }

    fn begin(&mut self, pool: usize, census: bool, is_warm: bool) {
        let (pools, objects) = self.ghost.parts();
        if census && pool == 0 {
            pools.begin_census(objects);
        }
        self.runs[pool].is_warm = is_warm;
        self.runs[pool].warm_up_transactions = self.transactions;
        let counts = pools.counts(pool);
        let (gets, new_orders, began) = (pools.gets(), self.new_orders, self.transactions);
        self.states[pool] = State::Measured { gets, new_orders, counts, began };
    }

    fn end_if_due(&mut self, pool: usize, window: u64) {
        let State::Measured { gets, new_orders, counts, began } = self.states[pool] else { return };
        if self.transactions < began + window {
            return;
        }
        let (pools, objects) = self.ghost.parts();
        if pool == 0 {
            self.census = pools.end_census(objects);
        }
        self.states[pool] = State::Done;
        self.runs[pool] = PoolRun {
            gets: pools.gets() - gets,
            new_orders: self.new_orders - new_orders,
            transactions: window,
            counts: pools.counts(pool) - counts,
            frames_used: pools.frames_used(pool),
            ..self.runs[pool]
        };
    }

    /// Executes the next transaction of the connection whose turn it is.
    fn transaction(&mut self) -> Result<(), RunError> {
        let connection = (self.transactions % self.drivers.len() as u64) as usize;
        self.ghost.parts().0.turn(connection as u16, self.transactions * self.transaction_us);
        let driver = &mut self.drivers[connection];
        let planned = driver.plan();
        driver.execute(&mut self.ghost)?;
        let (pools, _) = self.ghost.parts();
        if pools.is_full() {
            return Err(RunError::Full(self.transactions));
        }
        pools.transaction_done();
        self.transactions += 1;
        self.new_orders += u64::from(Some(planned.transaction_type) == self.counted);
        Ok(())
    }
}
