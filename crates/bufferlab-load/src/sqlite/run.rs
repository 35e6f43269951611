//! One run on SQLite: open, warm up through the gate, measure a fixed number of transactions, then further phases, close.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bufferlab_probe::{CpuProbe, DeviceProbe, DriverThread, MemoryProbe, ProcessProbe, clock};
use bufferlab_workload::hot_rows::HotRowsDriver;
use bufferlab_workload::script::ScriptWorkload;
use bufferlab_workload::tpcc::TpccDriver;

use super::client::SqliteClient;
use super::engine::{Actual, Engine};
use super::job::{Pace, PhaseJob, Run, WorkloadJob};
use super::script;
use super::session::{Driver, Session, Stepped, latencies};
use super::workloads::{Findings, SqliteWorkload};
use crate::arrivals::{Arrivals, OpenLoop, RATE_RANGE_PER_S};
use crate::dialect;
use crate::event::{Phase, Sink};
use crate::failure::{Failure, FailureKind};
use crate::gate::{Gate, GateEnd};
use crate::pacing::wake_on_time;
use crate::recorder::Bucket;
use crate::sampler::{HostProbes, Mailbox, sample_until_stopped};

/// Transactions between two looks of the gate.
const GATE_WINDOW: u64 = 500;

/// A part of a run that is over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Part {
    /// Transactions of any type.
    pub transactions: u64,
    /// Wall time.
    pub seconds: f64,
}

/// Latencies of one transaction type.
#[derive(Clone, Debug)]
pub struct TypeLatency {
    /// The type.
    pub transaction_type: String,
    /// `service`, `queue` or, in an open loop, `response`.
    pub time: &'static str,
    /// All buckets with records.
    pub buckets: Vec<Bucket>,
    /// Exact maximum, if anything was recorded.
    pub max_ns: Option<u64>,
    /// Exact mean, if anything was recorded.
    pub mean_ns: Option<f64>,
}

/// What a run came to, beside the samples it has sent.
pub struct Finished {
    /// True when it was stopped before its time.
    pub interrupted: bool,
    /// Settings as read back.
    pub actual: Vec<(&'static str, Actual)>,
    /// How the warm-up ended; none when it was interrupted.
    pub gate: Option<GateEnd>,
    /// Demand misses during the warm-up.
    pub warm_up_misses: u64,
    /// The warm-up.
    pub warm_up: Part,
    /// The measured window.
    pub measured: Part,
    /// The phases after it, by name, as far as they were begun.
    pub phases: Vec<(Arc<str>, Part)>,
    /// Latencies of the measured window and of the phases.
    pub latencies: Vec<TypeLatency>,
    /// What the workload tells of itself.
    pub findings: Findings,
    /// When the run's clock was started.
    pub clock: clock::Anchor,
}

/// Executes a run.
///
/// # Errors
/// Whatever opening, executing or closing meets. Being cancelled is no error: see [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    // A phase that cannot run should be known before the minutes that lead to it.
    for phase in &job.phases {
        check_phase(phase)?;
    }
    match &job.workload {
        WorkloadJob::Tpcc(config) => {
            let workload = TpccDriver::new(*config, 0, 1).map_err(|error| {
                Failure::new(FailureKind::Usage, error.to_string(), "workload", "choose another number of warehouses")
            })?;
            run_workload(job, workload, config.run_seed(), sink, cancelled)
        }
        WorkloadJob::HotRows(config) => {
            let workload = HotRowsDriver::new(config).map_err(|error| {
                Failure::new(FailureKind::Usage, error.to_string(), "workload", "see `bufferlab list workloads`")
            })?;
            run_workload(job, workload, config.run_seed, sink, cancelled)
        }
        WorkloadJob::Script(script) => {
            let workload = ScriptWorkload::new(script::parse(script)?, script.seed)?;
            run_workload(job, workload, script.seed, sink, cancelled)
        }
    }
}

/// A phase's name must be told from the parts that every run has, and from types of transactions.
fn check_phase(phase: &PhaseJob) -> Result<(), Failure> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let taken = ["warm_up", "measure", "closing"].contains(&&*phase.name);
    if taken || phase.name.is_empty() || !phase.name.chars().all(is_plain) {
        let what = format!("{:?} is no name for a phase", phase.name);
        let hint = "use small letters, digits and _, and none of warm_up, measure, closing";
        return Err(Failure::new(FailureKind::Usage, what, "phases", hint));
    }
    let script = script::parse(&phase.script)?;
    script.check()?;
    ScriptWorkload::new(script, 0)?;
    Ok(())
}

/// The schedule that a job asks for; none for a closed loop.
fn arrivals(pace: &Pace, seed: u64) -> Result<Option<Arrivals>, Failure> {
    let Pace::Open { rate_per_s, spacing, patience } = *pace else { return Ok(None) };
    let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    let schedule = Arrivals::new(&OpenLoop { rate_per_s, spacing, patience_ns, seed });
    let refused = || {
        let (slowest, fastest) = (RATE_RANGE_PER_S.start(), RATE_RANGE_PER_S.end());
        let hint = format!("choose a rate from {slowest} to {fastest} transactions per second");
        Failure::new(FailureKind::Usage, format!("a rate of {rate_per_s} per second cannot be driven"), "rate", hint)
    };
    schedule.map(Some).ok_or_else(refused)
}

fn run_workload<W: SqliteWorkload>(
    job: &Run,
    workload: W,
    seed: u64,
    sink: &dyn Sink,
    cancelled: &AtomicBool,
) -> Result<Finished, Failure> {
    let anchor = clock::Anchor::now();
    let start_ns = anchor.monotonic_ns;
    let seconds_now = move || (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    let arrivals = arrivals(&job.pace, seed)?;
    let engine = Engine::open(&job.database, &job.knobs)?;
    let actual = engine.actual(&job.knobs)?;
    // SAFETY: the driver, and with it the client, is dropped before the engine is closed below.
    let client = unsafe { SqliteClient::new(&engine, &workload.statements()?)? };
    let mut driver = Driver::new(client, workload);
    if let Some(arrivals) = arrivals {
        wake_on_time();
        driver = driver.open_loop(arrivals);
    }
    let probes = HostProbes::new(vec![
        Box::new(DeviceProbe::for_path(&job.database)),
        Box::new(CpuProbe::new()),
        Box::new(MemoryProbe::new()),
        Box::new(ProcessProbe::new().with_driver(DriverThread::current())),
    ]);
    let mailbox = Mailbox::default();
    let mut session = Session::new(engine, &mailbox, &probes, sink, cancelled, &seconds_now);
    let measured = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&mailbox);
        scope.spawn(|| sample_until_stopped(&mailbox, &probes, job.sample_interval, &seconds_now, sink));
        warm_up_and_measure(job, &mut session, &mut driver)
    })?;
    let findings = driver.workload().findings();
    drop(driver);
    session.announce(Phase::Closing);
    // Closing copies the WAL back: the file is then complete for a second client.
    session.engine.close()?;
    Ok(Finished {
        interrupted: measured.interrupted,
        actual,
        gate: measured.gate,
        warm_up_misses: measured.warm_up_misses,
        warm_up: measured.warm_up,
        measured: measured.window,
        phases: measured.phases,
        latencies: measured.latencies,
        findings,
        clock: anchor,
    })
}

/// Ends the sampler also when the driver fails.
struct StopOnDrop<'a>(&'a Mailbox);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[derive(Default)]
struct Measured {
    interrupted: bool,
    gate: Option<GateEnd>,
    warm_up_misses: u64,
    warm_up: Part,
    window: Part,
    phases: Vec<(Arc<str>, Part)>,
    latencies: Vec<TypeLatency>,
}

/// Warm-up, window and phases, each only when the one before was not interrupted.
fn warm_up_and_measure<W: SqliteWorkload>(
    job: &Run,
    session: &mut Session<'_>,
    driver: &mut Driver<W>,
) -> Result<Measured, Failure> {
    let mut measured = Measured::default();
    session.enter(Phase::WarmUp, driver, job.warm_up.transactions);
    let begun = Instant::now();
    let mut gate = Gate::new(job.knobs.pool_frames, GATE_WINDOW);
    measured.gate = warm_up(job, session, driver, &mut gate, begun)?;
    measured.warm_up_misses = gate.misses();
    measured.warm_up = session.part(driver, begun);
    measured.interrupted = measured.gate.is_none();
    if !measured.interrupted {
        session.enter(Phase::Measure, driver, job.measure.transactions);
        let (part, whole) = session.window(driver, job.measure)?;
        measured.window = part;
        measured.interrupted = !whole;
        measured.latencies = latencies(driver);
    }
    for phase in &job.phases {
        if !measured.interrupted {
            measured.interrupted = !run_phase(phase, session, &mut measured)?;
        }
    }
    Ok(measured)
}

/// Runs until the gate opens or the cap is reached; none when interrupted.
fn warm_up<W: SqliteWorkload>(
    job: &Run,
    session: &mut Session<'_>,
    driver: &mut Driver<W>,
    gate: &mut Gate,
    begun: Instant,
) -> Result<Option<GateEnd>, Failure> {
    let limit = job.warm_up;
    if !prefill(session, driver)? {
        return Ok(None);
    }
    let mut misses = session.engine.demand_misses();
    gate.prefill(misses);
    loop {
        for _ in 0..GATE_WINDOW {
            if session.step(driver, &|| false)? == Stepped::Cancelled {
                return Ok(None);
            }
        }
        let now = session.engine.demand_misses();
        if let Some(end) = gate.window(now - misses) {
            return Ok(Some(end));
        }
        misses = now;
        if session.steps_in_phase(driver) >= limit.transactions || begun.elapsed().as_secs_f64() >= limit.seconds {
            return Ok(Some(GateEnd::Cap));
        }
    }
}

/// Fills the pool as the workload wants it, before anything is counted; false when interrupted.
fn prefill<W: SqliteWorkload>(session: &mut Session<'_>, driver: &mut Driver<W>) -> Result<bool, Failure> {
    for (_, sql) in dialect::sections(driver.workload().prefill_sql()) {
        if !session.engine.execute_script_unless(session.cancelled, &sql)? {
            return Ok(false);
        }
    }
    loop {
        let more = driver.prefill_step().map_err(|error| session.client_failure(&error))?;
        session.answer_sampler(driver);
        if session.is_cancelled() {
            return Ok(false);
        }
        if !more {
            return Ok(true);
        }
    }
}

/// One phase: its setup, untimed, then its window in a closed loop; false when interrupted.
fn run_phase(phase: &PhaseJob, session: &mut Session<'_>, measured: &mut Measured) -> Result<bool, Failure> {
    let script = script::parse(&phase.script)?;
    session.mailbox.enter(Phase::Extra(Arc::clone(&phase.name)));
    // SAFETY: the engine is open, and this is its only thread.
    if !unsafe { script::run_setup(session.engine.handle(), &script, session.cancelled) }? {
        return Ok(false);
    }
    let workload = ScriptWorkload::new(script, phase.script.seed)?;
    // SAFETY: the driver, and with it the client, ends with this function; the engine is closed later.
    let client = unsafe { SqliteClient::new(&session.engine, &workload.statements()?)? };
    let mut driver = Driver::new(client, workload).in_phase(&phase.name);
    session.enter(Phase::Extra(Arc::clone(&phase.name)), &driver, phase.limit.transactions);
    let (part, whole) = session.window(&mut driver, phase.limit)?;
    measured.phases.push((Arc::clone(&phase.name), part));
    measured.latencies.extend(latencies(&driver));
    Ok(whole)
}
