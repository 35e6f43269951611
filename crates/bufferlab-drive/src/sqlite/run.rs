//! Does one run on SQLite, a server of one connection whose driver runs on this thread. It opens the database, runs,
//! and closes the database, so that the file is complete for a second client.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bufferlab_probe::page_trace::{NAME, WindowProbe};
use bufferlab_probe::{DriverThread, Probe, ProcessProbe};

use super::engine::Engine;
use super::knobs::Database;
use super::page_trace::Recorder;
use super::session::SqliteServer;
use super::{page_trace, pcache};
use crate::event::{Sink, with_signs_of_life};
use crate::failure::{Failure, FailureKind};
use crate::finished::Finished;
use crate::probes::{ProbedRun, Probes};
use crate::server::job::Run;
use crate::server::run::{drive, with_sampler};
use crate::server::session::Session;

/// Executes a run.
///
/// # Errors
/// The error of a wrong job, of opening the database, starting a probe, executing or closing the database. Cancelling
/// is not an error: see [`Finished::interrupted`].
pub fn run(job: &Run<Database>, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    job.check()?;
    let Database { path, knobs } = &job.target;
    let workload = job.workload.as_ref().ok_or_else(|| {
        Failure::new(FailureKind::Usage, "no workload is named", "job", "see `bufferlab list engines`")
    })?;
    let mut recorder = None;
    let engine = Engine::open_recorded(path, knobs, |counters| {
        if let Some(asked) = &job.probes.page_trace {
            let holder = Recorder::ready(asked, counters)?;
            pcache::record(Arc::clone(&holder));
            recorder = Some((holder, &asked.spool.path));
        }
        Ok(())
    })?;
    let actual = engine.actual(knobs)?;
    let process = ProcessProbe::new().with_driver(DriverThread::current());
    let window = recorder.as_ref().map(|_| Box::new(WindowProbe::with(|| ())) as Box<dyn Probe>);
    let data = Some(&**path);
    let probes = Probes::of(ProbedRun { server_pid: None, data, process, asked: &job.probes, page_trace: window })?;
    let mut server = SqliteServer::new(engine, cancelled);
    let version = rusqlite::version().to_owned();
    let mut finished = with_sampler(None, version, probes, sink, job.sample_interval, |sampler| {
        let mut session = Session { server: &mut server, job, sampler, cancelled, cpu_ns: Arc::default() };
        let outcome = drive(&mut session, workload);
        outcome.map_err(|failure| server.with_cause(failure))
    })?;
    server.close()?;
    if let Some((holder, spool)) = recorder {
        // Send signs of life: the sampler has ended, and writing a long trace to a slow disk takes minutes.
        let keep = || page_trace::finish(&holder, spool);
        let spooled = with_signs_of_life(sink, "keeping the page trace", job.sample_interval, keep);
        finished.recorded.iter_mut().filter(|table| table.probe == NAME).for_each(|table| table.add(&spooled));
    }
    Ok(Finished { actual, ..finished })
}
