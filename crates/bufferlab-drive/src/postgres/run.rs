//! Does one run on a PostgreSQL server. Python starts and stops the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use bufferlab_probe::page_trace::window_without;
use bufferlab_probe::{Probe, ProcessProbe};

use super::control::Control;
use super::counters::{Counters, DemandMisses};
use super::interrupt::Interrupter;
use super::session::PostgresServer;
use crate::event::Sink;
use crate::failure::{Failure, FailureKind};
use crate::finished::Finished;
use crate::probes::{ProbedRun, Probes};
use crate::server::job::Run;
use crate::server::run::{drive, with_sampler};
use crate::server::session::Session;

/// Executes a run.
///
/// # Errors
/// The error of a wrong job, of connecting, starting a probe, executing or reading counters. Cancelling is not an
/// error: see [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    job.check()?;
    let (Some(workload), None) = (&job.workload, &job.program) else {
        let hint = "see `bufferlab list engines` for what is possible";
        return Err(Failure::new(FailureKind::Usage, "a workload and no program drives PostgreSQL", "job", hint));
    };
    let control = Control::open(&job.target)?;
    let version = control.version().to_owned();
    control.major()?;
    let own_commits = Arc::new(AtomicU64::new(0));
    let (sampling, gate) = (Control::open_to_read(&job.target)?, Control::open_to_read(&job.target)?);
    let watching = [&control, &sampling, &gate].map(|control| Ok(control.handle()?.hang_up));
    let watching = watching.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    // The page trace leaves these connections out. Each stays in one transaction, so the server does not count their
    // accesses either.
    let uncounted = [&sampling, &gate].map(|control| Ok(control.handle()?.process_id as u32));
    let uncounted = uncounted.into_iter().collect::<Result<Vec<_>, Failure>>()?;
    let counters = Counters::new(sampling, Arc::clone(&own_commits))?;
    let mut server = PostgresServer {
        target: job.target.clone(),
        sending: job.sending,
        misses: DemandMisses::new(gate)?,
        control,
        interrupter: Arc::new(Interrupter::new(&job.target).with_watching(watching)),
        own_commits,
    };
    let cpu_ns = Arc::new(AtomicU64::new(0));
    let process = ProcessProbe::new().with_drivers(Arc::clone(&cpu_ns));
    let data = job.datadir.as_deref();
    let page_trace = job.probes.page_trace.as_ref().map(|_| Box::new(window_without(uncounted)) as Box<dyn Probe>);
    let probes = Probes::of(ProbedRun { server_pid: job.server_pid, data, process, asked: &job.probes, page_trace })?;
    with_sampler(Some(Box::new(counters)), version, probes, sink, job.sample_interval, |sampler| {
        let mut session = Session { server: &mut server, job, sampler, cancelled, cpu_ns };
        drive(&mut session, workload)
    })
}
