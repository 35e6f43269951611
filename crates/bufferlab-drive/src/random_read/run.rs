//! Does a run that reads a file: opens the file, reads to warm up, brings the page cache into the job's state, and
//! measures a window. At the edges of the window all readers stand still.
//!
//! After the window's end edge the run computes the expected cost of the window's reads from their offsets, and sends
//! it as further rows of both edges. So neither the window's time nor its processor time contains that work.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use bufferlab_probe::{ProcessProbe, Reading};
use serde_json::json;

use super::job::{Backend, Cache, IoMode, Run};
use super::opened_file::OpenedFile;
use super::pages::first_touched;
use super::scoreboard::{READ, Scoreboard};
use super::segment::{PartOver, Readers, readers};
use super::uring;
use crate::event::{Edge, Event, Phase, Sink};
use crate::failure::{Failure, FailureKind};
use crate::finished::{Finished, Settings, TypeLatency};
use crate::gate::GateEnd;
use crate::lock;
use crate::probes::{ProbedRun, Probes};
use crate::sampler::{EngineCounters, Sampler};
use crate::server::run::with_sampler;

const PROBE: &str = "engine";
const WARM_UP: u64 = 0;
const WINDOW: u64 = 1;

/// Executes a run.
///
/// # Errors
/// The error of wrong settings, of opening the file, starting a probe or reading. Cancelling is not an error: see
/// [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    job.reads.check()?;
    let opened = OpenedFile::open(job)?;
    let (backend, fallback) = backend(job)?;
    let cpu_ns = Arc::new(AtomicU64::new(0));
    let board = Arc::new(Scoreboard::new(readers(job, backend), job.reads.io_size_bytes, Arc::clone(&cpu_ns)));
    let edges = EdgeTimes { sink, times: Mutex::default() };
    let process = ProcessProbe::new().with_drivers(cpu_ns);
    let probes = Probes::of(ProbedRun {
        server_pid: None,
        data: Some(&job.path),
        process,
        asked: &job.probes,
        page_trace: None,
    })?;
    let engine = Box::new(Size(job.range_bytes));
    with_sampler(Some(engine), kernel_release(), probes, &edges, job.sample_interval, |sampler| {
        let with = Readers { job, opened: &opened, board: &board, backend, cancelled };
        measure(&with, &board, sampler, &edges, fallback)
    })
}

/// Returns the interface with which readers read, and, if it is not `io_uring` although the job allows that, the
/// reason.
fn backend(job: &Run) -> Result<(Backend, Option<String>), Failure> {
    if job.io_mode == IoMode::Mmap {
        return Ok((Backend::Threads, Some("threads read a mapping".to_owned())));
    }
    match (job.backend, uring::is_available()) {
        (Backend::Threads, _) => Ok((Backend::Threads, None)),
        (_, Ok(())) => Ok((Backend::IoUring, None)),
        (Backend::Auto, Err(error)) => Ok((Backend::Threads, Some(format!("the kernel refuses io_uring: {error}")))),
        (Backend::IoUring, Err(error)) => {
            let hint =
                "use --set backend=threads, or allow it (sysctl kernel.io_uring_disabled, the container's profile)";
            let what = format!("the kernel refuses io_uring: {error}");
            Err(Failure::new(FailureKind::Environment, what, "backend", hint))
        }
    }
}

/// The "engine's" counters of a file: only its size in bytes.
struct Size(u64);

impl EngineCounters for Size {
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure> {
        out.push(Reading::gauge(PROBE, "db_bytes", &Arc::from(""), self.0 as f64));
        Ok(())
    }
}

/// A sink that passes events on to another sink and remembers the times of the edges.
struct EdgeTimes<'a> {
    sink: &'a dyn Sink,
    times: Mutex<[f64; 2]>,
}

impl EdgeTimes<'_> {
    /// Sends further rows of a sample at an edge of the window, after the sample itself.
    fn add(&self, edge: Edge, values: Vec<Reading>) {
        let times = *lock(&self.times);
        let t_s = times[usize::from(edge == Edge::End)];
        self.sink.send(Event::Sample { t_s, phase: Phase::Measure, edge: Some(edge), values });
    }
}

impl Sink for EdgeTimes<'_> {
    fn send(&self, event: Event) {
        if let Event::Sample { t_s, edge: Some(edge), .. } = &event {
            lock(&self.times)[usize::from(*edge == Edge::End)] = *t_s;
        }
        self.sink.send(event);
    }
}

fn measure(
    with: &Readers<'_>,
    board: &Arc<Scoreboard>,
    sampler: &Sampler<'_>,
    edges: &EdgeTimes<'_>,
    fallback: Option<String>,
) -> Result<Finished, Failure> {
    let job = with.job;
    let is_cancelled = || with.cancelled.load(std::sync::atomic::Ordering::Relaxed);
    let mut finished = Finished::default();
    sampler.enter(Phase::WarmUp, Some(board.clone()), job.warm_up.transactions);
    finished.warm_up.part = with.run(WARM_UP, job.warm_up, &mut || Ok(()))?.part;
    finished.interrupted = is_cancelled();
    if finished.interrupted {
        finished.actual = actual(with, fallback, false);
        return Ok(finished);
    }
    // Dropping the file's pages or reading the whole file belongs to the warm-up: the window must not show this work.
    let begun = Instant::now();
    let resident = with.opened.prepare(job.cache, job.io_mode)?;
    finished.warm_up.part.seconds += begun.elapsed().as_secs_f64();
    let window = with.run(WINDOW, job.measure, &mut || {
        sampler.enter(Phase::Measure, Some(board.clone()), job.measure.transactions);
        board.begin_window();
        sampler.edge(Edge::Start, &mut ())
    })?;
    sampler.edge(Edge::End, &mut ())?;
    finished.interrupted = is_cancelled();
    finished.warm_up.gate = (!finished.interrupted).then_some(GateEnd::Fixed);
    let resident = [resident, with.opened.resident_pages().unwrap_or(None)];
    for (edge, values) in [Edge::Start, Edge::End].into_iter().zip(must_have_cost(job, &window, resident)) {
        edges.add(edge, values);
    }
    finished.actual = actual(with, fallback, window.buffers_registered);
    finished.measured = window.part;
    finished.latencies.push(TypeLatency::new(READ, "service", &board.window()));
    Ok(finished)
}

/// Returns further rows for both edges: the expected cost (requests, pages), computed from the window's offsets, and
/// the number of the file's pages in the page cache.
fn must_have_cost(job: &Run, window: &PartOver, resident: [Option<u64>; 2]) -> [Vec<Reading>; 2] {
    let no_subject = Arc::from("");
    let missing = |metric, reason: &str| Reading::missing(PROBE, metric, &no_subject, &Arc::from(reason));
    let counters = |metric, total: u64| [0, total].map(|n| Reading::counter(PROBE, metric, &no_subject, n as i64));
    let mut rows = [Vec::new(), Vec::new()];
    let mut push = |pair: [Reading; 2]| {
        for (rows, row) in rows.iter_mut().zip(pair) {
            rows.push(row);
        }
    };
    match (job.io_mode, job.cache) {
        (IoMode::Direct, _) => {
            let why = "direct reads leave the page cache alone";
            push([missing("pages_first_touched", why), missing("pages_first_touched", why)]);
            push(counters("requests_expected", window.part.transactions));
        }
        (_, cache) => {
            let pages = match cache {
                Cache::Warm => 0,
                Cache::Cold => first_touched(&window.done, job.reads.io_size_bytes, job.range_bytes),
            };
            push(counters("pages_first_touched", pages));
            if pages == 0 || job.read_ahead_kib == Some(0) {
                push(counters("requests_expected", pages));
            } else {
                let why = "with read-ahead the kernel joins pages to requests, which bufferlab does not compute";
                push([missing("requests_expected", why), missing("requests_expected", why)]);
            }
        }
    }
    push(resident.map(|pages| match pages {
        Some(pages) => Reading::gauge(PROBE, "resident_pages", &no_subject, pages as f64),
        None => missing("resident_pages", "mincore tells this user nothing of other users' files"),
    }));
    rows
}

fn actual(with: &Readers<'_>, fallback: Option<String>, buffers_registered: bool) -> Settings {
    let job = with.job;
    let mut actual = BTreeMap::from([
        ("io_mode", json!(job.io_mode)),
        ("advice", json!(if job.advise_random { "random" } else { "none" })),
        ("cache", json!(job.cache)),
        ("backend", json!(job.backend)),
        ("file_size_bytes", json!(job.range_bytes)),
        ("backend_run", json!(with.backend)),
        ("buffers_registered", json!(if buffers_registered { "yes" } else { "no" })),
    ]);
    if let Some(why) = fallback {
        actual.insert("backend_reason", json!(why));
    }
    if let Some(bytes) = with.opened.direct_alignment_bytes {
        actual.insert("direct_io_unit_bytes", json!(bytes));
    }
    actual
}

/// Returns the kernel's release, which results have as the engine's version.
fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}
