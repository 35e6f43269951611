//! The order of a run on a server: warm up until the gate opens, measure a fixed number of transactions, then run
//! further phases.
//!
//! The calling thread executes no transaction: it starts and stops the drivers, each with a thread and a connection,
//! and asks the server for its counters at the edges. The sampler's thread asks for them once a second over its own
//! connection. If the engine runs inside this process, the calling thread is the driver.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bufferlab_probe::clock;
use bufferlab_workload::client::Workload;
use bufferlab_workload::findings::Findings;

use super::session::{Server, Session, latencies_of};
use crate::event::{Phase, Sink};
use crate::failure::Failure;
use crate::finished::{Finished, Part, PhasePart, WarmedUp};
use crate::job::WorkloadJob;
use crate::probes::Probes;
use crate::sampler::{EngineCounters, Sampler, StopOnDrop};

/// Samples every `interval` while `drive` runs. Returns the results of `drive`, with the tables that probes recorded.
/// Without `engine`, the driver reports the engine's counters.
///
/// # Errors
/// The error of `drive`. Cancelling is not an error: see [`Finished::interrupted`].
pub fn with_sampler(
    engine: Option<Box<dyn EngineCounters>>,
    engine_version: String,
    probes: Probes,
    sink: &dyn Sink,
    interval: Duration,
    drive: impl FnOnce(&Sampler<'_>) -> Result<Finished, Failure>,
) -> Result<Finished, Failure> {
    let anchor = clock::Anchor::now();
    let start_ns = anchor.monotonic_ns;
    let seconds_now = move || (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    let sampler = Sampler::new(engine, probes, sink, &seconds_now);
    let finished = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&sampler);
        scope.spawn(|| sampler.sample_until_stopped(interval));
        drive(&sampler)
    })?;
    sampler.enter(Phase::Closing, None, 0);
    Ok(Finished { engine_version, recorded: sampler.finish(), clock: anchor, ..finished })
}

/// Runs the warm-up, the measured window and the phases of a workload.
///
/// # Errors
/// The error of making the workload, connecting, executing or reading counters.
pub fn drive<S: Server>(session: &mut Session<'_, S>, workload: &WorkloadJob) -> Result<Finished, Failure> {
    let workloads = workload.drivers(session.job.connections)?;
    let mut finished = measure(session, workloads, workload.seed())?;
    phases(session, &mut finished)?;
    Ok(finished)
}

/// Runs the phases after the window, until the last one or a request to stop, and adds their results to `finished`.
///
/// # Errors
/// The errors of [`Session::phase`].
pub fn phases<S: Server>(session: &mut Session<'_, S>, finished: &mut Finished) -> Result<(), Failure> {
    for phase in &session.job.phases {
        if !finished.interrupted {
            let (part, latencies, whole) = session.phase(phase)?;
            finished.phases.push(PhasePart { name: Arc::clone(&phase.name), part });
            finished.latencies.extend(latencies);
            finished.interrupted = !whole;
        }
    }
    Ok(())
}

/// Runs the warm-up and the measured window of a workload. Leaves the window out if a request to stop interrupted the
/// warm-up.
fn measure<S: Server>(
    session: &mut Session<'_, S>,
    workloads: Vec<Box<dyn Workload>>,
    seed: u64,
) -> Result<Finished, Failure> {
    let job = session.job;
    let mut finished = Finished::default();
    let mut drivers = session.connect(workloads, &job.pace, seed, None)?;
    let board = drivers.board();
    session.sampler.enter(Phase::WarmUp, Some(drivers.board()), job.warm_up.limit.transactions);
    let begun = Instant::now();
    let (gate, misses, at_cap) = session.warm_up(&mut drivers, begun)?;
    let part = Part { transactions: board.transactions(), seconds: begun.elapsed().as_secs_f64() };
    finished.warm_up = WarmedUp { gate, misses, at_cap, part };
    finished.interrupted = gate.is_none();
    if !finished.interrupted {
        session.sampler.enter(Phase::Measure, Some(drivers.board()), job.measure.transactions);
        let (part, whole) = session.window(&mut drivers, job.measure)?;
        finished.measured = part;
        finished.interrupted = !whole;
        finished.latencies = latencies_of(&drivers);
    }
    let findings = drivers.each().map(|driver| driver.workload().findings()).reduce(Findings::plus);
    finished.findings = findings.unwrap_or_default();
    Ok(finished)
}
