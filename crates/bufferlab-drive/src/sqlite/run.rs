//! One run on SQLite: open, warm up through the gate, measure a fixed number of transactions, then further phases, close.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bufferlab_probe::{DriverThread, Probe, ProcessProbe, clock};
use bufferlab_workload::script::ScriptWorkload;

use super::client::SqliteClient;
use super::dialect::DIALECT;
use super::engine::Engine;
use super::interrupt::Interruptible;
use super::job::{Limit, PhaseJob, Run};
use super::page_trace::{Recorder, probe};
use super::script;
use super::session::{Driver, Session, Stepped};
use super::{pcache, plan};
use crate::event::{Phase, Sink};
use crate::failure::Failure;
use crate::finished::{Finished, PhasePart, WarmedUp, latencies};
use crate::gate::{Gate, GateEnd, Window};
use crate::pacing::wake_on_time;
use crate::probes::{Probes, Watched};
use crate::sampler::{Mailbox, sample_until_stopped};

/// Transactions between two polls of the gate.
const GATE_WINDOW: u64 = 500;

/// Executes a run.
///
/// # Errors
/// The error of opening, executing or closing. Cancelling is no error: see [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    for phase in &job.phases {
        phase.check()?;
    }
    let mut workloads = job.workload.drivers(1)?;
    let mut workload = workloads.swap_remove(0);
    let anchor = clock::Anchor::now();
    let start_ns = anchor.monotonic_ns;
    let seconds_now = move || (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    let arrivals = job.pace.arrivals(job.workload.seed())?;
    let mut page_trace = None;
    let engine = Engine::open_recorded(&job.database, &job.knobs, |counters| {
        if let Some(asked) = &job.probes.page_trace {
            let recorder = Recorder::ready(asked, counters)?;
            pcache::record(Arc::clone(&recorder));
            page_trace = Some(Box::new(probe(recorder, &asked.spool)) as Box<dyn Probe>);
        }
        Ok(())
    })?;
    let actual = engine.actual(&job.knobs)?;
    plan::check(&mut *workload, &engine)?;
    // SAFETY: the driver, and with it the client, is dropped before the engine is closed below.
    let client = unsafe { SqliteClient::new(&engine, &DIALECT.statements(&mut *workload)?)? };
    let mut driver = Driver::new(client, workload);
    if let Some(arrivals) = arrivals {
        wake_on_time();
        driver = driver.open_loop(arrivals);
    }
    let process = ProcessProbe::new().with_driver(DriverThread::current());
    let probes =
        Probes::of(Watched { server_pid: None, data: Some(&job.database), process, asked: &job.probes, page_trace })?;
    let mailbox = Mailbox::default();
    let mut session = Session::new(engine, &mailbox, &probes, sink, cancelled, &seconds_now);
    let finished = std::thread::scope(|scope| {
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
        actual,
        findings,
        engine_version: rusqlite::version().to_owned(),
        recorded: probes.finish(),
        clock: anchor,
        ..finished
    })
}

/// A guard that ends the sampler also when the driver fails.
struct StopOnDrop<'a>(&'a Mailbox);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs warm-up, window and phases, each unless a request to stop interrupted the one before.
fn warm_up_and_measure(job: &Run, session: &mut Session<'_>, driver: &mut Driver) -> Result<Finished, Failure> {
    let mut finished = Finished::default();
    session.enter(Phase::WarmUp, driver, job.warm_up.limit.transactions);
    let begun = Instant::now();
    let mut gate = Gate::new(job.knobs.pool_frames(), GATE_WINDOW, job.warm_up.at_least);
    let ended = warm_up(job, session, driver, &mut gate, begun)?;
    finished.warm_up = WarmedUp { gate: ended, misses: gate.misses(), part: session.part(driver, begun) };
    finished.interrupted = ended.is_none();
    if !finished.interrupted {
        session.enter(Phase::Measure, driver, job.measure.transactions);
        let _guard = interruptible(session, driver);
        let (part, whole) = session.window(driver, job.measure)?;
        finished.measured = part;
        finished.interrupted = !whole;
        finished.latencies = latencies(driver.tallies(), driver.is_open());
    }
    for phase in &job.phases {
        if !finished.interrupted {
            finished.interrupted = !run_phase(phase, session, &mut finished)?;
        }
    }
    Ok(finished)
}

/// Runs until the gate opens or the warm-up reaches its cap; returns none when interrupted.
fn warm_up(
    job: &Run,
    session: &mut Session<'_>,
    driver: &mut Driver,
    gate: &mut Gate,
    begun: Instant,
) -> Result<Option<GateEnd>, Failure> {
    let limit = job.warm_up.limit;
    if !prefill(session, driver)? {
        return Ok(None);
    }
    let mut last = counted(session);
    gate.prefill(last.misses);
    if limit.transactions == 0 {
        return Ok(Some(GateEnd::Cold));
    }
    let _guard = interruptible(session, driver);
    loop {
        for _ in 0..GATE_WINDOW {
            if session.step(driver, &|| false)? == Stepped::Cancelled {
                return Ok(None);
            }
            // Where transactions are long, the warm-up reaches its cap before the gate has a window.
            if session.steps_in_phase(driver) >= limit.transactions || driver.was_long() && is_late(begun, limit) {
                return Ok(Some(GateEnd::Cap));
            }
        }
        let now = counted(session);
        let grown = Window { misses: now.misses - last.misses, dropped: now.dropped.saturating_sub(last.dropped) };
        if let Some(end) = gate.window(grown) {
            return Ok(Some(end));
        }
        last = now;
        if is_late(begun, limit) {
            return Ok(Some(GateEnd::Cap));
        }
    }
}

/// Returns the misses and the dropped pages since the database was opened.
fn counted(session: &mut Session<'_>) -> Window {
    Window { misses: session.engine.demand_misses(), dropped: session.engine.dropped_pages() }
}

fn is_late(begun: Instant, limit: Limit) -> bool {
    begun.elapsed().as_secs_f64() >= limit.seconds
}

/// Makes long statements of a workload interruptible, as long as the returned guard lives.
fn interruptible<'a>(session: &Session<'a>, driver: &Driver) -> Option<Interruptible<'a>> {
    if !driver.workload().has_long_statements() {
        return None;
    }
    // SAFETY: the session's engine is closed after the phases, and whatever else sets a handler does so between them.
    Some(unsafe { Interruptible::begin(session.engine.handle(), session.cancelled) })
}

/// Fills the pool as the workload wants it, before the first count; returns false when interrupted.
fn prefill(session: &mut Session<'_>, driver: &mut Driver) -> Result<bool, Failure> {
    for (_, sql) in DIALECT.prefill(driver.workload()) {
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

/// Runs one phase: its setup, untimed, then its window in a closed loop. Returns false when interrupted.
fn run_phase(phase: &PhaseJob, session: &mut Session<'_>, finished: &mut Finished) -> Result<bool, Failure> {
    let script = phase.script.parse()?;
    session.mailbox.enter(Phase::Extra(Arc::clone(&phase.name)));
    // SAFETY: the engine is open, and this is its only thread.
    if !unsafe { script::run_setup(session.engine.handle(), &script, session.cancelled) }? {
        return Ok(false);
    }
    let mut workload = Box::new(ScriptWorkload::new(script, phase.script.seed)?);
    // SAFETY: the driver, and with it the client, ends with this function; the engine is closed later.
    let client = unsafe { SqliteClient::new(&session.engine, &DIALECT.statements(&mut *workload)?)? };
    let mut driver = Driver::new(client, workload).in_phase(&phase.name);
    session.enter(Phase::Extra(Arc::clone(&phase.name)), &driver, phase.limit.transactions);
    let (part, whole) = session.window(&mut driver, phase.limit)?;
    finished.phases.push(PhasePart { name: Arc::clone(&phase.name), part });
    finished.latencies.extend(latencies(driver.tallies(), driver.is_open()));
    Ok(whole)
}
