//! One run on a server: connect, warm up through the gate, measure a fixed number of transactions, then further phases.
//!
//! The calling thread drives nothing: it starts and stops the drivers, one thread and connection each, and asks the
//! server for its counters at the edges; the sampler's thread does so once a second over a connection of its own. Starting
//! and stopping the server is not done here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Instant;

use bufferlab_probe::{CpuProbe, DeviceProbe, MemoryProbe, Probe, ProcessProbe, Reading, ServerProbe, clock};
use bufferlab_workload::hot_rows::HotRowsDriver;
use bufferlab_workload::script::ScriptWorkload;
use bufferlab_workload::tpcc::TpccDriver;

use super::connection::no_socket;
use super::control::{Control, Killer};
use super::counters::{Counters, DemandMisses};
use super::job::{Load, Run};
use super::line::Lines;
use super::program::{self, ProgramCounters};
use super::session::{Session, latencies_of, scripts};
use super::workloads::MysqlWorkload;
use crate::event::{Phase, Sink};
use crate::failure::{Failure, FailureKind};
use crate::findings::Findings;
use crate::finished::{Finished, Part, TypeLatency};
use crate::gate::GateEnd;
use crate::job::WorkloadJob;
use crate::sampler::HostProbes;
use crate::watch::{EngineCounters, StopOnDrop, Watch};

/// What a run has come to so far.
#[derive(Default)]
pub(super) struct Measured {
    pub interrupted: bool,
    pub gate: Option<GateEnd>,
    pub warm_up_misses: u64,
    pub warm_up: Part,
    pub window: Part,
    pub phases: Vec<(Arc<str>, Part)>,
    pub latencies: Vec<TypeLatency>,
}

/// Executes a run.
///
/// # Errors
/// Whatever connecting, executing or reading counters meets. Being cancelled is no error: see [`Finished::interrupted`].
pub fn run(job: &Run, sink: &dyn Sink, cancelled: &AtomicBool) -> Result<Finished, Failure> {
    for phase in &job.phases {
        phase.check()?;
    }
    if job.connections == 0 {
        return Err(Failure::new(
            FailureKind::Usage,
            "no connection drives the server",
            "connections",
            "use 1 or more",
        ));
    }
    let anchor = clock::Anchor::now();
    let start_ns = anchor.monotonic_ns;
    let seconds_now = move || (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    let lines = Arc::new(Lines::default());
    let mut control = held(Control::open(&job.target)?, &lines)?;
    let version = control.version()?;
    if version.flavour != job.flavour {
        let what = format!("this server says it is {}, which is not a {:?}", version.text, job.flavour);
        return Err(Failure::new(FailureKind::Usage, what, control.place(), "name the server that is running there"));
    }
    let schema = job.datadir.as_ref().map(|datadir| datadir.join(&job.target.database));
    let control_of_counters = held(Control::open(&job.target)?, &lines)?;
    let counters = Counters::new(control_of_counters, &version, schema.as_deref(), job.may_change_settings)?;
    let counters: Box<dyn EngineCounters> = match &job.load {
        Load::Workload(_) => Box::new(counters),
        Load::Program(program) => Box::new(ProgramCounters::new(counters, program.counted)),
    };
    let engine = Box::new(Listening { counters, lines: Arc::clone(&lines) });
    let cpu_ns = Arc::new(AtomicU64::new(0));
    let watch = Watch::new(engine, probes(job, &cpu_ns), sink, &seconds_now);
    let mut session = Session {
        job,
        watch: &watch,
        misses: DemandMisses::new(control, &version),
        killer: Killer::new(&job.target),
        lines: &lines,
        cancelled,
        cpu_ns,
    };
    let outcome = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&watch);
        scope.spawn(|| watch.sample_until_stopped(job.sample_interval));
        drive(job, &mut session)
    });
    // Connections that were cut fail in their own words; what they were cut for says more.
    let (measured, findings) = outcome.map_err(|failure| lines.silence().unwrap_or(failure))?;
    watch.enter(Phase::Closing, None, 0);
    Ok(Finished {
        interrupted: measured.interrupted,
        actual: Vec::new(),
        gate: measured.gate,
        warm_up_misses: measured.warm_up_misses,
        warm_up: measured.warm_up,
        measured: measured.window,
        phases: measured.phases,
        latencies: measured.latencies,
        findings,
        engine_version: version.text,
        clock: anchor,
    })
}

fn held(control: Control, lines: &Lines) -> Result<Control, Failure> {
    lines.hold(control.line()).map_err(|error| no_socket(&error, control.place()))?;
    Ok(control)
}

/// The server's counters, whose once-a-second question is also how a server is noticed that answers nobody.
struct Listening {
    counters: Box<dyn EngineCounters>,
    lines: Arc<Lines>,
}

impl EngineCounters for Listening {
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure> {
        self.counters.read(out).inspect_err(|failure| self.lines.met(failure))
    }
}

fn probes(job: &Run, cpu_ns: &Arc<AtomicU64>) -> HostProbes {
    let mut probes: Vec<Box<dyn Probe>> = Vec::new();
    // First, so that nothing of this sample lies between the engine's counters and the bytes of its process.
    if let Some(pid) = job.server_pid {
        probes.push(Box::new(ServerProbe::new(pid)));
    }
    if let Some(datadir) = &job.datadir {
        probes.push(Box::new(DeviceProbe::for_path(datadir)));
    }
    probes.push(Box::new(CpuProbe::new()));
    probes.push(Box::new(MemoryProbe::new()));
    probes.push(Box::new(ProcessProbe::new().with_drivers(Arc::clone(cpu_ns))));
    HostProbes::new(probes)
}

fn drive(job: &Run, session: &mut Session<'_>) -> Result<(Measured, Findings), Failure> {
    let unusable = |what: String, hint: &str| Failure::new(FailureKind::Usage, what, "workload", hint);
    let (mut measured, findings) = match &job.load {
        Load::Program(program) => (program::measure(session, program)?, Findings::None),
        Load::Workload(WorkloadJob::Tpcc(config)) => {
            let drivers = job.connections as u32;
            let each = (0..drivers).map(|index| TpccDriver::new(*config, index, drivers));
            let workloads = each.collect::<Result<Vec<_>, _>>().map_err(|error| {
                unusable(error.to_string(), "choose another number of warehouses, or fewer connections")
            })?;
            measure(session, workloads, config.run_seed())?
        }
        Load::Workload(WorkloadJob::HotRows(config)) => {
            let each = (0..job.connections as u64).map(|index| Ok(HotRowsDriver::new(config)?.numbered(index)));
            let workloads = each.collect::<Result<Vec<_>, bufferlab_workload::hot_rows::HotRowsConfigError>>();
            let workloads = workloads.map_err(|error| unusable(error.to_string(), "see `bufferlab list workloads`"))?;
            measure(session, workloads, config.run_seed)?
        }
        Load::Workload(WorkloadJob::Script(script)) => {
            measure(session, scripts(script, job.connections)?, script.seed)?
        }
    };
    for phase in &job.phases {
        if !measured.interrupted {
            let (part, latencies, whole) = session.phase(phase)?;
            measured.phases.push((Arc::clone(&phase.name), part));
            measured.latencies.extend(latencies);
            measured.interrupted = !whole;
        }
    }
    Ok((measured, findings))
}

/// Warm-up and window with a workload of our own, the second only when the first was not interrupted.
fn measure<W: RunWorkload + Send>(
    session: &mut Session<'_>,
    workloads: Vec<W>,
    seed: u64,
) -> Result<(Measured, Findings), Failure> {
    let job = session.job;
    let mut measured = Measured::default();
    let mut drivers = session.connect(workloads, &job.pace, seed, None)?;
    let board = drivers.board();
    session.watch.enter(Phase::WarmUp, Some(drivers.board()), job.warm_up.transactions);
    let begun = Instant::now();
    (measured.gate, measured.warm_up_misses) = session.warm_up(&mut drivers, begun)?;
    measured.warm_up = Part { transactions: board.transactions(), seconds: begun.elapsed().as_secs_f64() };
    measured.interrupted = measured.gate.is_none();
    if !measured.interrupted {
        session.watch.enter(Phase::Measure, Some(drivers.board()), job.measure.transactions);
        let (part, whole) = session.window(&mut drivers, job.measure)?;
        measured.window = part;
        measured.interrupted = !whole;
        measured.latencies = latencies_of(&drivers);
    }
    let findings = drivers.each().map(|driver| driver.workload().findings()).reduce(Findings::plus);
    Ok((measured, findings.unwrap_or(Findings::None)))
}

/// A workload that says at the end what it drew and did, over warm-up and window.
trait RunWorkload: MysqlWorkload {
    fn findings(&self) -> Findings {
        Findings::None
    }
}

impl RunWorkload for TpccDriver {
    fn findings(&self) -> Findings {
        Findings::of_tpcc(self)
    }
}

impl RunWorkload for HotRowsDriver {
    fn findings(&self) -> Findings {
        Findings::HotRows { hot_rows: self.hot_set().len() }
    }
}

impl RunWorkload for ScriptWorkload {}
