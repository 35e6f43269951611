//! The part of a database that is simulated for a job: all of it, fewer warehouses, or one page in N.
//!
//! From [`ENOUGH_WAREHOUSES`] on, reads depend on the pool's share of the data, and not on the data's size. So fewer
//! warehouses can represent all: frames, transactions before the window and the clock's speed shrink in proportion.
//! Pages that all warehouses share keep their frames. One page in N represents all pages at any scale ([`Shares`]).
//!
//! Each part is simulated several times, with other seeds or other shares, which shows the scatter. One more
//! simulation, at half the size, shows the bias, if the bias is proportional to 1/size.

use std::ops::Add;

use bufferlab_sim::Counts;

use crate::job::{Job, Limits, MAX_TRANSACTIONS, Name, STRETCH, WarmUpAsked, Way, Workload};
use crate::log_writes::LogWrites;
use crate::page_shares::Shares;
use crate::pools::{ByType, Object};
use crate::run::{PoolRun, Run, RunError};

/// The number of warehouses that may represent any larger number. With 20, a pool of a tenth of the data misses 8 %
/// more than with 100, because warehouses share items, undo log and connections.
pub const ENOUGH_WAREHOUSES: u32 = 100;
/// Bytes of memory that a run may take.
const MOST_BYTES: u64 = 1_000_000_000;
/// Bytes of memory that a simulated pool takes for each page of the database.
const BYTES_OF_PAGE: f64 = 24.0;
/// Bytes of the loaded rows of a warehouse, in any engine.
const BYTES_OF_WAREHOUSE: f64 = 110e6;
/// About how many transactions each warehouse executes before the warm-up's gate opens.
const GATED_TRANSACTIONS: u64 = 10_000;
/// The fewest frames that the smallest pool should have if fewer warehouses represent all. The pages that all
/// warehouses share then take few of the frames.
const ENOUGH_FRAMES: f64 = 4096.0;
/// The fewest frames that a share of a pool may have.
const FEWEST_FRAMES: u32 = 64;
/// The largest N that a job may ask for in "one page in N".
const MOST_ONE_IN: u32 = 1 << 16;
/// The number of simulations of fewer warehouses, each with a separate seed.
const SEEDS: u32 = 3;
/// The most shares of the pages that are simulated at one rate.
const SHARES: u32 = 6;
/// Half the 95 % interval of a mean of two to six values, in standard errors (Student's t).
const STUDENT: [f64; 5] = [12.71, 4.30, 3.18, 2.78, 2.57];
/// The fewest transactions of a window of fewer warehouses, unless the job's window has fewer.
const ENOUGH_TRANSACTIONS: u64 = 3000;

/// One simulation of a part of the database.
pub struct Simulation {
    /// The workload of the simulation, with the simulation's own scale and seeds.
    pub workload: Workload,
    /// The simulated warehouses as a fraction of all, from 0 to 1.
    pub part: f64,
    /// The number of the database's pages that all warehouses share, such as those of ITEM.
    pub shared_pages: u32,
    /// The shares of the pages whose accesses go to pools: for each, the N of "one page in N", and the share's number.
    pub shares: Vec<(Shares, u32)>,
    /// The end of the simulation's warm-up.
    pub warm_up: WarmUpAsked,
    /// The number of transactions before which no gate ends a warm-up.
    pub at_least: u64,
    /// The number of transactions of the simulation's window.
    pub window: u64,
    /// Duration of a transaction on the simulation's clock, in microseconds.
    pub transaction_us: u64,
}

impl Simulation {
    /// Returns how many simulated frames represent `frames` frames of a pool for all warehouses.
    pub fn frames(&self, frames: u32) -> u32 {
        let shared = f64::from(self.shared_pages.min(frames / 2));
        ((f64::from(frames) - shared) * self.part + shared).round() as u32
    }

    /// Returns the most transactions that the simulation can have.
    pub fn most_transactions(&self) -> u64 {
        self.window.saturating_add(match self.warm_up {
            WarmUpAsked::Transactions(all) => all,
            // Transactions between two checks may pass the limit.
            WarmUpAsked::GateWithin(most) => most.saturating_add(STRETCH),
        })
    }
}

/// Chooses the way to answer a job, and leaves out pools that want another way ([`PoolAsked::if_exact`]).
///
/// # Errors
/// Those of [`choose`].
///
/// [`PoolAsked::if_exact`]: crate::job::PoolAsked::if_exact
pub fn choose_with_pools(job: &Job, limits: &Limits) -> Result<(Way, Job), RunError> {
    let mut needed = job.clone();
    needed.pools.retain(|pool| !pool.if_exact);
    let way = choose(&needed, limits)?;
    let has_all = way.name == Name::Exact && way.bytes(job, limits) <= MOST_BYTES;
    Ok((way, if has_all { job.clone() } else { needed }))
}

/// Chooses the way to answer a job, unless the job asks for one. It is the first that fits into memory: exact, by fewer
/// warehouses, or by one page in N.
///
/// # Errors
/// When no way fits into memory, or the way that the job asks for is not possible or does not fit.
pub fn choose(job: &Job, limits: &Limits) -> Result<Way, RunError> {
    let Workload::Tpcc(config) = &job.workload else { return choose_for_rows(job) };
    let all = config.warehouses();
    let fits = |way: &Way| way.warehouses <= limits.warehouses && way.bytes(job, limits) <= MOST_BYTES;
    if job.one_in.is_some() || job.simulated_warehouses.is_some() {
        let way = Way::new(all, job.simulated_warehouses.unwrap_or(all), job.one_in.unwrap_or(1));
        return check_asked(job, limits, way).map(|()| way);
    }
    let exact = Way::new(all, all, 1);
    if fits(&exact) {
        return Ok(exact);
    }
    if all > ENOUGH_WAREHOUSES {
        let smallest = job.pools.iter().map(|pool| pool.frames).min().unwrap_or(u32::MAX);
        let mut sizes = vec![Way::new(all, ENOUGH_WAREHOUSES, 1)];
        while let Some(last) = sizes.last().filter(|way| !way.has_enough_frames(smallest, all) && fits(way)) {
            let larger = Way::new(all, last.warehouses.saturating_mul(2).min(all), 1);
            sizes.push(larger);
        }
        if let Some(way) = sizes.into_iter().rev().find(|way| fits(way)) {
            return Ok(way);
        }
    }
    let sampled = (2..16).map(|bits| Way::new(all, all.min(ENOUGH_WAREHOUSES), 1 << bits));
    sampled.into_iter().find(|way| fits(way) && way.has_frames(job)).ok_or_else(|| RunError::Asked {
        field: "pools",
        what: format!(
            "{} pools of {all} warehouses do not fit into {MOST_BYTES} bytes of memory, nor does a sample of their pages \
             with {FEWEST_FRAMES} frames of each; ask for fewer pools at once",
            job.pools.len()
        ),
    })
}

/// Returns the number of transactions in the window of a simulation of `part` of all warehouses.
fn window(job: &Job, part: f64) -> u64 {
    let asked = job.window_transactions;
    ((asked as f64 * part).ceil() as u64).max(asked.min(ENOUGH_TRANSACTIONS))
}

/// Returns the exact way for hot_rows, whose rows are few; refuses a job that asks for another way.
fn choose_for_rows(job: &Job) -> Result<Way, RunError> {
    if job.one_in.unwrap_or(1) == 1 && job.simulated_warehouses.is_none() {
        return Ok(Way::new(1, 1, 1));
    }
    Err(RunError::Asked { field: "one_in", what: "hot_rows is simulated exactly; leave one_in out".into() })
}

/// Refuses a way that the job asks for and that is not possible.
fn check_asked(job: &Job, limits: &Limits, way: Way) -> Result<(), RunError> {
    let all = job.workload.warehouses();
    let refuse = |field, what| Err(RunError::Asked { field, what });
    // Of several warehouses at least two are simulated: the simulation of half of them shows how much a warehouse
    // adds.
    let least = all.min(2);
    if !(least..=all).contains(&way.warehouses) {
        return refuse("simulated_warehouses", format!("{least} to {all} warehouses stand for {all}"));
    }
    if way.warehouses > limits.warehouses {
        let what = format!(
            "{} has rules for at most {} warehouses at once; leave simulated_warehouses and one_in out, and fewer \
             stand for all",
            job.engine, limits.warehouses
        );
        return refuse("simulated_warehouses", what);
    }
    if !(1..=MOST_ONE_IN).contains(&way.one_in) || !way.has_frames(job) {
        let what =
            format!("one page in 1 to {MOST_ONE_IN} is a sample, of which every pool has {FEWEST_FRAMES} frames");
        return refuse("one_in", what);
    }
    let bytes = way.bytes(job, limits);
    if bytes > MOST_BYTES {
        let what = format!(
            "{} warehouses at one page in {} take about {} MB of memory, and a run has {} MB; leave one_in and \
             simulated_warehouses out, or ask for less",
            way.warehouses,
            way.one_in,
            bytes / 1_000_000,
            MOST_BYTES / 1_000_000
        );
        return refuse("one_in", what);
    }
    Ok(())
}

impl Way {
    /// Returns about how many bytes of memory the way takes.
    pub fn bytes(&self, job: &Job, limits: &Limits) -> u64 {
        let pages = BYTES_OF_WAREHOUSE / f64::from(job.page_size_bytes) * f64::from(self.warehouses);
        let shares: f64 = self.shares().iter().map(|(shares, _)| f64::from(shares.one_in()).recip()).sum();
        // The census's 13 bytes a page are left out: a run with a census must be simulated in the same way as one
        // without.
        let played = shares * job.pools.len() as f64;
        let part = f64::from(self.warehouses) / f64::from(job.workload.warehouses());
        let warm_up = match job.warm_up {
            WarmUpAsked::Transactions(all) => all,
            // A gate ends the warm-up long before its limit.
            WarmUpAsked::GateWithin(most) => most.min(u64::from(job.workload.warehouses()) * GATED_TRANSACTIONS),
        };
        let transactions = ((warm_up as f64 * part) as u64).saturating_add(window(job, part));
        limits.layout_bytes * u64::from(self.warehouses)
            + (pages * played * BYTES_OF_PAGE) as u64
            + transactions.min(MAX_TRANSACTIONS) * limits.transaction_bytes
    }

    /// Returns whether a pool of `frames` frames for `all` warehouses has enough frames when it is simulated in this
    /// way.
    fn has_enough_frames(&self, frames: u32, all: u32) -> bool {
        self.warehouses == all || f64::from(frames) * f64::from(self.warehouses) / f64::from(all) >= ENOUGH_FRAMES
    }

    /// Returns whether every share of every pool has [`FEWEST_FRAMES`] frames, also at half the way's rate.
    fn has_frames(&self, job: &Job) -> bool {
        let part = f64::from(self.warehouses) / f64::from(job.workload.warehouses());
        let fewest = FEWEST_FRAMES * 2 * self.one_in;
        self.one_in == 1 || job.pools.iter().all(|pool| f64::from(pool.frames) * part >= f64::from(fewest))
    }

    /// Returns the shares that the way's simulations play: all pages, or several shares at the way's rate and several
    /// at half of it.
    fn shares(&self) -> Vec<(Shares, u32)> {
        if self.one_in == 1 {
            return vec![(Shares::ALL, 0)];
        }
        [self.one_in, 2 * self.one_in].into_iter().flat_map(some_shares).collect()
    }

    /// Returns the simulations of a job. If fewer warehouses represent all, the last simulation has half as many.
    ///
    /// # Errors
    /// When a simulation has too many transactions, or its number of warehouses is not allowed.
    pub fn simulations(&self, job: &Job, limits: &Limits) -> Result<Vec<Simulation>, RunError> {
        let all = job.workload.warehouses();
        let mut parts: Vec<Simulation> = Vec::new();
        if self.warehouses == all {
            parts.push(self.simulation(job, limits, all, 0)?);
        } else {
            // Without pools one seed is enough: the answer is only the loaded database, which does not scatter.
            let seeds = if job.pools.is_empty() { 1 } else { SEEDS };
            for seed in 0..u64::from(seeds) {
                parts.push(self.simulation(job, limits, self.warehouses, seed)?);
            }
            let mut half = self.simulation(job, limits, self.half(), 0)?;
            half.shares.retain(|(shares, _)| shares.one_in() == self.one_in);
            parts.push(half);
        }
        if parts.iter().any(|part| part.most_transactions() > MAX_TRANSACTIONS + STRETCH) {
            let what = format!("a run has at most {MAX_TRANSACTIONS} transactions");
            return Err(RunError::Asked { field: "warm_up", what });
        }
        Ok(parts)
    }

    fn half(&self) -> u32 {
        (self.warehouses / 2).max(1)
    }

    fn simulation(&self, job: &Job, limits: &Limits, warehouses: u32, seed: u64) -> Result<Simulation, RunError> {
        let workload = job.workload.of(warehouses, seed)?;
        let part = f64::from(warehouses) / f64::from(job.workload.warehouses());
        let fewer = |transactions: u64| (transactions as f64 * part).ceil() as u64;
        Ok(Simulation {
            workload,
            part,
            shared_pages: limits.shared_pages,
            shares: self.shares(),
            warm_up: match job.warm_up {
                WarmUpAsked::Transactions(all) => WarmUpAsked::Transactions(fewer(all)),
                WarmUpAsked::GateWithin(most) => WarmUpAsked::GateWithin(fewer(most)),
            },
            at_least: fewer(job.at_least),
            window: window(job, part),
            transaction_us: (job.workload.transaction_us() as f64 / part).round() as u64,
        })
    }

    /// Combines the runs of the simulations into one.
    pub fn combine(&self, job: &Job, runs: Vec<(Simulation, Run)>) -> Run {
        let played = |(part, run): &(Simulation, Run)| run.pools.len() == part.shares.len() * job.pools.len();
        assert!(runs.iter().all(played), "a simulation plays each of its shares to each pool");
        let pools = (0..job.pools.len()).map(|pool| self.combine_pool(job, &runs, pool)).collect();
        let (objects, database_bytes) = match &runs[..] {
            [(_, first), .., (_, half)] => (self.all_objects(job, first, half), self.all_bytes(job, first, half)),
            _ => (runs[0].1.objects.clone(), runs[0].1.database_bytes),
        };
        let census = runs.into_iter().next().map(|(_, run)| run.census).unwrap_or_default();
        Run { pools, census, objects, database_bytes, way: *self }
    }

    /// Makes the answer for one pool: the mean of all of its runs at the way's own rate and scale.
    fn combine_pool(&self, job: &Job, runs: &[(Simulation, Run)], pool: usize) -> PoolRun {
        if self.name == Name::Exact {
            return runs[0].1.pools[pool];
        }
        let (mut own, mut coarser, mut smaller) = (Vec::new(), Vec::new(), Vec::new());
        for (part, run) in runs {
            for (&(shares, _), pools) in part.shares.iter().zip(run.pools.chunks(job.pools.len())) {
                let whole = whole(&pools[pool], shares.one_in(), part, job.pools[pool].frames);
                if part.workload.warehouses() != self.warehouses {
                    smaller.push(whole);
                } else if shares.one_in() == self.one_in {
                    own.push(whole);
                } else {
                    coarser.push(whole);
                }
            }
        }
        let count = own.len() as f64;
        let part = f64::from(self.warehouses) / f64::from(job.workload.warehouses());
        let seeds = if part < 1.0 { f64::from(SEEDS) } else { 1.0 };
        // The windows of seeds add up. Shares are averaged, because each represents all pages.
        let sum = |of: fn(&PoolRun) -> u64| (own.iter().map(of).sum::<u64>() as f64 / count * seeds).round() as u64;
        let by_type = |of: fn(&PoolRun) -> &ByType| {
            let all = |place: usize| own.iter().map(|run| of(run)[place]).sum::<u64>() as f64;
            std::array::from_fn(|place| (all(place) / count * seeds).round() as u64)
        };
        let counts = own.iter().map(|run| run.counts).fold(Counts::default(), Counts::add).times(seeds / count);
        // Warm-ups are averaged, not added up.
        let before = own.iter().map(|run| run.brought_in_since_start - run.counts.brought_in()).sum::<u64>() as f64;
        let is_warm = own.iter().all(|run| run.is_warm);
        let last = own.iter().filter(|run| run.gate.is_some()).max_by_key(|run| run.warm_up_transactions);
        PoolRun {
            warm_up_transactions: own.iter().map(|run| run.warm_up_transactions).max().unwrap_or_default(),
            is_warm,
            gate: last.filter(|_| is_warm).and_then(|run| run.gate),
            committed: by_type(|run| &run.committed),
            rolled_back: by_type(|run| &run.rolled_back),
            brought_in_since_start: (before / count).round() as u64 + counts.brought_in(),
            gets: sum(|run| run.gets),
            changes: sum(|run| run.changes),
            new_orders: sum(|run| run.new_orders),
            transactions: sum(|run| run.transactions),
            counts,
            log_writes: LogWrites {
                log_bytes: sum(|run| run.log_writes.log_bytes),
                checkpointed_pages: sum(|run| run.log_writes.checkpointed_pages),
                most_changed_pages: own.iter().map(|run| run.log_writes.most_changed_pages).max().unwrap_or_default(),
            },
            frames_used: (own.iter().map(|run| f64::from(run.frames_used)).sum::<f64>() / count).round() as u32,
            error: error(&own, &coarser, &smaller),
        }
    }

    /// Returns the factor to extrapolate by: the warehouses that were not simulated, divided by half of the simulated
    /// ones.
    fn more(&self, job: &Job) -> f64 {
        f64::from(job.workload.warehouses() - self.warehouses) / f64::from(self.warehouses - self.half())
    }

    /// Returns the bytes of the job's whole database, to which each warehouse adds equally many.
    fn all_bytes(&self, job: &Job, own: &Run, half: &Run) -> Option<u64> {
        let (own, half) = (own.database_bytes?, half.database_bytes?);
        Some(own + ((own.saturating_sub(half)) as f64 * self.more(job)).round() as u64)
    }

    /// Returns the objects of the job's whole database: each warehouse adds equally many pages to a table.
    fn all_objects(&self, job: &Job, own: &Run, half: &Run) -> Vec<Object> {
        let more = self.more(job);
        let mut first_page = 0;
        let grown = own.objects.iter().zip(&half.objects).map(|(own, half)| {
            let pages = f64::from(own.pages) + f64::from(own.pages.saturating_sub(half.pages)) * more;
            let pages = pages.round() as u32;
            let object = Object { name: own.name.clone(), first_page, pages, room: pages };
            first_page = first_page.saturating_add(pages);
            object
        });
        grown.collect()
    }
}

/// Returns at most [`SHARES`] shares of one page in `one_in`, with their numbers evenly apart.
fn some_shares(one_in: u32) -> impl Iterator<Item = (Shares, u32)> {
    let count = one_in.min(SHARES);
    (0..count).map(move |number| (Shares::new(one_in), number * one_in / count))
}

/// Scales the run of one share of a part's pages up to all pages of all warehouses.
fn whole(run: &PoolRun, one_in: u32, part: &Simulation, frames: u32) -> PoolRun {
    let share = f64::from(part.frames(frames)) / f64::from(frames.max(1)) / f64::from(one_in);
    let counts = run.counts.times(one_in.into());
    // The estimate assumes that all frames were filled as often as the simulated frames.
    let before = (run.brought_in_since_start - run.counts.brought_in()) as f64 / share;
    PoolRun {
        brought_in_since_start: before.round() as u64 + counts.brought_in(),
        counts,
        frames_used: (f64::from(run.frames_used) / share).round() as u32,
        warm_up_transactions: (run.warm_up_transactions as f64 / part.part).round() as u64,
        ..*run
    }
}

/// Returns the expected error as a fraction of the misses: the biases seen at half the size or rate, plus half of the
/// 95 % interval of the mean. None without misses.
fn error(own: &[PoolRun], coarser: &[PoolRun], smaller: &[PoolRun]) -> Option<f64> {
    let misses = |run: &PoolRun| run.counts.misses as f64 / run.new_orders.max(1) as f64;
    let mean = |runs: &[PoolRun]| runs.iter().map(misses).sum::<f64>() / runs.len() as f64;
    let count = own.len() as f64;
    let level = mean(own);
    let squares: f64 = own.iter().map(|run| (misses(run) - level).powi(2)).sum();
    let standard_error = (squares / (count - 1.0).max(1.0) / count).sqrt();
    let student = STUDENT[own.len().clamp(2, STUDENT.len() + 1) - 2];
    let biases = [coarser, smaller].into_iter().filter(|runs| !runs.is_empty()).map(|runs| (mean(runs) - level).abs());
    (level > 0.0).then(|| (biases.sum::<f64>() + student * standard_error) / level)
}
