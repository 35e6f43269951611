//! Does a job: refuses values that are not possible, makes the pools, and runs each simulation of a part of the
//! database.

use bufferlab_sim::{MODELS, Manager, OneIn};

use crate::engine::Engine;
use crate::innodb::{self, Innodb, Segments};
use crate::job::{Job, Limits, MAX_TRANSACTIONS, PoolAsked, STRETCH, Workload};
use crate::loaded::{Loaded, Records};
use crate::page_shares::Shares;
use crate::pools::Pools;
use crate::postgres::{self, Postgres};
use crate::run::{Gate, Plan, Played, Run, RunError, Watch, run};
use crate::scale::{self, Simulation};
use crate::sqlite::{self, Sqlite};

/// Makes the gate that ends a pool's warm-up, from the pool's frames, the number of transactions between two checks of
/// the gate, and the number before which it never opens.
pub type MakeGate<'a> = dyn Fn(u32, u64, u64) -> Box<dyn Gate> + 'a;

/// Does a job: exactly, or by simulating a part of the database ([`scale`]). The watch is called with the transactions
/// of all simulations so far, and with the progress of their windows, scaled to the job's window.
///
/// # Errors
/// When a field's value is not possible, with the field's name and the possible values. Also when a table runs out of
/// numbers, or the watch stops the run.
pub fn generate(job: &Job, gate: &MakeGate<'_>, mut watch: Option<&mut Watch<'_>>) -> Result<Run, RunError> {
    let limits = check(job)?;
    let (way, job) = &scale::choose_with_pools(job, &limits)?;
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
    if innodb_segments(&job.engine).is_some() {
        innodb::count_bitmaps(&mut run);
    }
    Ok(run)
}

/// Returns about how many bytes of memory a job takes.
///
/// # Errors
/// When the job asks for something that is not possible, as in [`generate`].
pub fn bytes(job: &Job) -> Result<u64, RunError> {
    let limits = check(job)?;
    let (way, job) = scale::choose_with_pools(job, &limits)?;
    Ok(way.bytes(&job, &limits))
}

/// Runs one simulation. For each of the simulation's shares it makes all pools of the job, share after share.
fn simulate(job: &Job, part: &Simulation, gate: &MakeGate<'_>, watch: &mut Watch<'_>) -> Result<Run, RunError> {
    let transactions = part.most_transactions();
    let all = || part.shares.iter().flat_map(|share| job.pools.iter().map(move |pool| (share, pool)));
    // A warm-up's gate gets a share's misses times the number of shares, that is, an estimate of the misses of all
    // pages.
    let gates = all().map(|((shares, _), pool)| {
        (gate(part.frames(pool.frames), STRETCH, part.at_least), u64::from(shares.one_in()))
    });
    let segments = innodb_segments(&job.engine);
    let most_prefill_misses = match (&job.workload, segments) {
        (Workload::Tpcc(_), Some(_)) => innodb::prefill_misses(job.page_size_bytes),
        _ => u64::MAX,
    };
    // The plan needs a closure with the lifetime of this call.
    let mut tell = |all, measured| watch(all, measured);
    let plan = Plan {
        connections: job.connections,
        prefill: job.prefill,
        warm_up: part.warm_up,
        gates: gates.collect(),
        most_prefill_misses,
        window: part.window,
        census: job.census,
        transaction_us: part.transaction_us,
        one_window: job.one_window,
        watch: Some(&mut tell),
    };
    let bytes = job.page_size_bytes;
    let (engine, played): (Box<dyn Engine>, Played) = match &part.workload {
        Workload::HotRows(rows) => {
            let engine: Box<dyn Engine> = match (segments, job.engine.as_str()) {
                (Some(segments), _) => Box::new(Innodb::with_rows(segments, bytes, rows)),
                (None, "postgres") => Box::new(Postgres::of_rows(rows, transactions)),
                _ => Box::new(Sqlite::of_rows(bytes, rows)),
            };
            (engine, Played::HotRows(rows.config()?))
        }
        Workload::Tpcc(config) => {
            let kept = |records: &dyn Records| Loaded::kept(&job.engine, config, records);
            let (engine, loaded): (Box<dyn Engine>, Loaded) = match (segments, job.engine.as_str()) {
                (Some(segments), _) => {
                    let loaded = kept(&Innodb::records());
                    (Box::new(Innodb::with(segments, bytes, &loaded, transactions)), loaded)
                }
                (None, "postgres") => {
                    let loaded = kept(&Postgres::records());
                    (Box::new(Postgres::new(&loaded, transactions)), loaded)
                }
                _ => {
                    let loaded = kept(&Sqlite::records());
                    (Box::new(Sqlite::new(bytes, &loaded, transactions).with_log(job.checkpoint_frames)), loaded)
                }
            };
            (engine, Played::Tpcc(loaded))
        }
    };
    let pages = engine.objects().pages();
    let made = part.shares.iter().map(|&(shares, number)| {
        let own = job.pools.iter().map(|pool| make(pool, part, shares, number, pages)).collect::<Result<Vec<_>, _>>();
        own.map(|own| (shares, number, own))
    });
    let pools = made.collect::<Result<_, _>>().map(Pools::of_shares).map_err(RunError::Pool)?;
    // Only pools that count writes need changes and hints.
    let marks = job.pools.iter().any(|pool| pool.if_exact);
    let pools = pools.with_changes(if segments.is_some() { innodb::CHANGING } else { 0 }, marks);
    run(engine, played, plan, pools.with_times(all().map(|(_, pool)| pool.time)))
}

/// Returns the rollback segments of a version of InnoDB; none for another engine.
fn innodb_segments(engine: &str) -> Option<Segments> {
    match engine {
        "innodb" => Some(Segments::OF_5_7),
        "innodb80" => Some(Segments::OF_8_0),
        _ => None,
    }
}

/// Makes a pool for the accesses to one share of a simulation's pages.
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
    made.map_err(|error| error.to_string())
}

fn check(job: &Job) -> Result<Limits, RunError> {
    let refuse = |field: &'static str, what: String| Err(RunError::Asked { field, what });
    let bytes = job.page_size_bytes;
    let (pages, limits): (std::ops::RangeInclusive<u32>, fn(u32) -> Limits) = match job.engine.as_str() {
        "innodb" => (4096..=16384, |bytes| innodb::limits(bytes, Segments::OF_5_7)),
        "innodb80" => (4096..=16384, |bytes| innodb::limits(bytes, Segments::OF_8_0)),
        "postgres" => (postgres::PAGE_BYTES..=postgres::PAGE_BYTES, postgres::limits),
        "sqlite" => (sqlite::MIN_PAGE_BYTES..=65536, sqlite::limits),
        other => {
            let known = "innodb, innodb80, postgres and sqlite have them";
            return refuse("engine", format!("no rules are known for {other}; {known}"));
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
