//! Does one run on a MySQL or MariaDB server, with one of bufferlab's workloads or with another program. Python starts
//! and stops the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use bufferlab_probe::ProcessProbe;

use super::control::{Control, Killer};
use super::counters::{Counters, DemandMisses};
use super::line::Lines;
use super::program::{self, ProgramCounters};
use super::session::MysqlServer;
use super::storage_engine::EngineOfTables;
use crate::event::Sink;
use crate::failure::{Failure, FailureKind};
use crate::finished::Finished;
use crate::job::Pace;
use crate::probes::{ProbedRun, Probes};
use crate::sampler::EngineCounters;
use crate::server::job::Run;
use crate::server::run::{drive, phases, with_sampler};
use crate::server::session::Session;

/// Executes a run.
///
/// # Errors
/// The error of a wrong job, of connecting, starting a probe, executing or reading counters. Cancelling is not an
/// error: see [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    job.check()?;
    if job.program.is_some() && job.pace != Pace::Closed {
        return Err(unusable("a rate is given, and a program that makes the transactions keeps its own", "load"));
    }
    let lines = Arc::new(Lines::default());
    let mut control = Control::open_among(&job.target, &lines)?;
    let version = control.version()?;
    let schema = job.datadir.as_ref().map(|datadir| datadir.join(&job.target.database));
    let sampling = Control::open_among(&job.target, &lines)?;
    // The sampler's queries, once a second, also detect a server that does not answer.
    let counters: Box<dyn EngineCounters> = match &job.storage_engine {
        None => Box::new(Counters::new(sampling, &version, schema.as_deref(), job.may_change_settings)?),
        Some(engine) => Box::new(EngineOfTables::new(sampling, engine.clone(), job.frames, schema)),
    };
    let counters: Box<dyn EngineCounters> = match &job.program {
        None => counters,
        Some(program) => Box::new(ProgramCounters::new(counters, program.counted)),
    };
    let cpu_ns = Arc::new(AtomicU64::new(0));
    let mut server = MysqlServer {
        target: job.target.clone(),
        sending: job.sending,
        misses: DemandMisses::new(control, &version, job.storage_engine.clone()),
        killer: Arc::new(Killer::new(&job.target)),
        lines: Arc::clone(&lines),
        may_change_settings: job.may_change_settings,
    };
    let process = ProcessProbe::new().with_drivers(Arc::clone(&cpu_ns));
    let data = job.datadir.as_deref();
    let probes =
        Probes::of(ProbedRun { server_pid: job.server_pid, data, process, asked: &job.probes, page_trace: None })?;
    with_sampler(Some(counters), version.text, probes, sink, job.sample_interval, |sampler| {
        let mut session = Session { server: &mut server, job, sampler, cancelled, cpu_ns };
        let outcome = match (&job.program, &job.workload) {
            (Some(program), _) => program::measure(&mut session, program)
                .and_then(|mut finished| phases(&mut session, &mut finished).map(|()| finished)),
            (None, Some(workload)) => drive(&mut session, workload),
            (None, None) => Err(unusable("neither a workload nor a program is named", "job")),
        };
        // If the connections were cut, report the reason of the cut instead of their own failures.
        outcome.map_err(|failure| lines.silence().unwrap_or(failure))
    })
}

fn unusable(what: &str, place: &str) -> Failure {
    Failure::new(FailureKind::Usage, what, place, "see `bufferlab list engines` for what is possible")
}
