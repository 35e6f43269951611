//! Does a job: refuses what cannot be asked, makes pools, and runs each simulation of a part.

use bufferlab_model::trace::Access;
use bufferlab_sim::{Counts, MODELS, Manager, OneIn};

use crate::engine::Engine;
use crate::innodb::{self, Innodb};
use crate::job::{Job, Limits, MAX_TRANSACTIONS, PoolAsked, STRETCH, WarmUpAsked, Workload};
use crate::loaded::Loaded;
use crate::pools::Pools;
use crate::postgres::{self, Postgres};
use crate::rows::RowTable;
use crate::run::{MakePools, Plan, Run, RunError, WarmUp, Watch, run, run_rows};
use crate::scale::{self, Simulation};
use crate::shares::Shares;
use crate::sqlite::{self, Sqlite};

/// Tells whether a pool is warm. The run guarantees that the prefill comes before the first stretch.
pub trait Gate {
    /// Hears the misses of the prefill.
    fn prefill(&mut self, misses: u64);

    /// Hears the misses of one more stretch; returns whether the pool is warm.
    fn is_warm(&mut self, misses: u64) -> bool;

    /// Returns why the pool is warm; none while it is not.
    fn end(&self) -> Option<&'static str>;
}

/// Makes the gate of a pool of so many frames, which hears of each stretch of so many transactions and stays shut for so
/// many.
pub type MakeGate<'a> = dyn Fn(u32, u64, u64) -> Box<dyn Gate> + 'a;

/// Does a job: exactly, or by simulating a part of the database ([`scale`]). A watch hears of the transactions of all
/// simulations, and of their windows as parts of the job's.
///
/// # Errors
/// When something cannot be asked, with the name of the field and what is possible; when the watch stops it.
pub fn generate(job: &Job, gate: &MakeGate<'_>, mut watch: Option<&mut Watch<'_>>) -> Result<Run, RunError> {
    let limits = check(job)?;
    let way = scale::choose(job, &limits)?;
    let parts = way.simulations(job, &limits)?;
    let (count, mut before) = (parts.len() as u64, 0);
    let mut runs = Vec::new();
    for (part, done) in parts.into_iter().zip(0..) {
        let mut last = 0;
        let mut tell = |all: u64, measured: Option<u64>| {
            last = all;
            let own = measured.unwrap_or(0) as f64 / part.window as f64 * job.window_transactions as f64;
            let whole = (job.window_transactions * done + own as u64) / count;
            let measured = (done > 0 || measured.is_some()).then_some(whole);
            watch.as_mut().is_none_or(|watch| watch(before + all, measured))
        };
        let run = simulate(job, &part, gate, &mut tell)?;
        before += last;
        runs.push((part, run));
    }
    let mut run = way.combine(job, runs);
    if job.engine == "innodb" {
        innodb::count_bitmaps(&mut run);
    }
    Ok(run)
}

/// Returns the bytes of memory that a job takes, about.
///
/// # Errors
/// When something cannot be asked, as in [`generate`].
pub fn bytes(job: &Job) -> Result<u64, RunError> {
    let limits = check(job)?;
    Ok(scale::choose(job, &limits)?.bytes(job, &limits))
}

/// Runs one simulation. Its pools are those of the job for each of its shares, share after share.
fn simulate(job: &Job, part: &Simulation, gate: &MakeGate<'_>, watch: &mut Watch<'_>) -> Result<Run, RunError> {
    let transactions = part.most_transactions();
    let all = || part.shares.iter().flat_map(|share| job.pools.iter().map(move |pool| (share, pool)));
    let mut gates: Vec<Box<dyn Gate>> =
        all().map(|(_, pool)| gate(part.frames(pool.frames), STRETCH, part.at_least)).collect();
    // A gate hears of as many misses as all pages would have.
    let times: Vec<u64> = all().map(|((shares, _), _)| shares.one_in().into()).collect();
    let gates = std::cell::RefCell::new(&mut gates);
    let counted = match (&job.workload, job.engine.as_str()) {
        (Workload::Tpcc(_), "innodb") => innodb::prefill_misses(job.page_size_bytes),
        _ => u64::MAX,
    };
    let mut prefill = |pool: usize, misses: u64| gates.borrow_mut()[pool].prefill(counted.min(misses * times[pool]));
    let mut is_warm = |pool: usize, misses: u64| gates.borrow_mut()[pool].is_warm(misses * times[pool]);
    let warm_up = match part.warm_up {
        WarmUpAsked::Transactions(all) => WarmUp::Transactions(all),
        WarmUpAsked::GateWithin(most) => {
            WarmUp::Gate { stretch: STRETCH, most, prefill: &mut prefill, is_warm: &mut is_warm }
        }
    };
    // Of this call's own lifetime, as the other closures.
    let mut tell = |all, measured| watch(all, measured);
    let plan = Plan {
        connections: job.connections,
        prefill: job.prefill,
        warm_up,
        window: part.window,
        census: job.census,
        transaction_us: part.transaction_us,
        one_window: job.one_window,
        watch: Some(&mut tell),
    };
    let pools: Box<MakePools<'_>> = Box::new(|pages| {
        let made = part.shares.iter().map(|&(shares, number)| {
            let own: Result<Vec<_>, String> =
                job.pools.iter().map(|pool| make(pool, part, shares, number, pages)).collect();
            own.map(|own| (shares, number, own))
        });
        made.collect::<Result<Vec<_>, _>>().map(Pools::of_shares)
    });
    let bytes = job.page_size_bytes;
    let mut done = match (&part.workload, job.engine.as_str()) {
        (Workload::HotRows(rows), engine) => {
            let table: Box<dyn RowTable> = match engine {
                "innodb" => Box::new(innodb::Rows::new(bytes, rows)),
                "postgres" => Box::new(postgres::Rows::new(rows, transactions)),
                _ => Box::new(sqlite::Rows::new(bytes, rows)),
            };
            run_rows(table, &rows.config()?, plan, pools)
        }
        (Workload::Tpcc(config), "innodb") => {
            let loaded = Loaded::kept("innodb", config, &Innodb::records());
            run(Innodb::new(bytes, &loaded, transactions), loaded, plan, pools)
        }
        (Workload::Tpcc(config), "postgres") => {
            let loaded = Loaded::kept("postgres", config, &Postgres::records());
            run(Postgres::new(&loaded, transactions), loaded, plan, pools)
        }
        (Workload::Tpcc(config), _) => {
            let loaded = Loaded::kept("sqlite", config, &Sqlite::records());
            run(Sqlite::new(bytes, &loaded, transactions), loaded, plan, pools)
        }
    }?;
    done.pools.iter_mut().zip(gates.borrow().iter()).for_each(|(pool, gate)| pool.gate = gate.end());
    Ok(done)
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
    let made = (entry.make)(&asked.settings.to_string(), frames, shares.pages(pages), one_in);
    let pool = made.map_err(|error| error.to_string())?;
    Ok(if asked.time == 1.0 { pool } else { Box::new(Timed { pool, time: asked.time }) })
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

impl Limits {
    /// Returns those of an engine with pages of so many bytes.
    fn of<E: Engine>(page_bytes: u32) -> Self {
        Limits {
            warehouses: E::MOST_WAREHOUSES,
            layout_bytes: E::layout_bytes(page_bytes),
            transaction_bytes: E::TRANSACTION_BYTES,
            shared_pages: E::shared_pages(page_bytes),
        }
    }
}

fn check(job: &Job) -> Result<Limits, RunError> {
    let refuse = |field: &'static str, what: String| Err(RunError::Asked { field, what });
    let bytes = job.page_size_bytes;
    let (pages, limits): (std::ops::RangeInclusive<u32>, fn(u32) -> Limits) = match job.engine.as_str() {
        "innodb" => (4096..=16384, Limits::of::<Innodb>),
        "postgres" => (postgres::PAGE_BYTES..=postgres::PAGE_BYTES, Limits::of::<Postgres>),
        "sqlite" => (sqlite::MIN_PAGE_BYTES..=65536, Limits::of::<Sqlite>),
        other => {
            return refuse("engine", format!("no rules are known for {other}; innodb, postgres and sqlite have them"));
        }
    };
    if !pages.contains(&bytes) || !bytes.is_power_of_two() {
        let (least, most) = pages.into_inner();
        let sizes = if least == most { least.to_string() } else { format!("{least} to {most}") };
        let what = format!("{} has no pages of {bytes} bytes here, but of {sizes}", job.engine);
        return refuse("page_size", what);
    }
    if job.engine == "sqlite" && job.connections != 1 {
        return refuse("connections", "sqlite has one connection".into());
    }
    if job.connections == 0 || job.window_transactions == 0 {
        return refuse("window_transactions", "a window and a connection are needed".into());
    }
    if job.window_transactions > MAX_TRANSACTIONS {
        return refuse("window_transactions", format!("a run has at most {MAX_TRANSACTIONS} transactions"));
    }
    if let Workload::HotRows(rows) = &job.workload {
        if job.engine == "sqlite" && bytes < sqlite::MIN_ROWS_PAGE_BYTES {
            let what = format!(
                "hot_rows has no pages of {bytes} bytes on sqlite here, but of {} to 65536",
                sqlite::MIN_ROWS_PAGE_BYTES
            );
            return refuse("page_size", what);
        }
        rows.config()?;
        if let Some(what) = rows.refusal() {
            return refuse("pad_chars", what);
        }
    }
    Ok(limits(bytes))
}
