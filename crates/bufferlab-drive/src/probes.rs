//! Makes the list of a run's probes from the job. The sampler reads the probes once a second, and the run reads them at
//! the edges of windows.
//!
//! A probe may also record between the edges of the measured window, as the block trace does. The caller that samples
//! the edges notifies the list of each edge. At the end of the run the list returns the recorded tables.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bufferlab_probe::block_trace::{BlockTracer, Settings};
use bufferlab_probe::page_trace::{PageTraceAsked, window_without};
use bufferlab_probe::tracefs::TraceError;
use bufferlab_probe::{DeviceProbe, Probe, ProcessProbe, Reading, SchedProbe, ServerProbe, Table, device, of_host};
use serde::Deserialize;

use crate::event::{Edge, Phase};
use crate::failure::{Failure, FailureKind};
use crate::lock;

/// The probes that a job asks for, in addition to those of every run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Asked {
    /// The block trace: every request to the device that holds the data.
    pub block_trace: Option<BlockTraceAsked>,
    /// The page trace: every access to a page of the buffer pool.
    pub page_trace: Option<PageTraceAsked>,
}

/// The options of a block trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlockTraceAsked {
    /// A directory for the pages of the kernel's trace buffers. The tracer makes it, and decodes the pages after the
    /// run.
    pub spool: PathBuf,
    /// Size of the kernel's trace buffer for each processor, in KiB.
    pub buffer_kib_per_cpu: u64,
    /// Whether to record allocation, plugging and insertion of requests, too.
    #[serde(default)]
    pub every_step: bool,
}

impl BlockTraceAsked {
    /// Prepares the trace of the device at `path`, or of the device that holds the file at `path`. The tracer records
    /// nothing yet.
    ///
    /// # Errors
    /// When the device cannot be traced, or the directory for the pages cannot be made.
    pub fn arm(&self, path: &Path) -> Result<BlockTracer, Failure> {
        let settings = Settings {
            device: device::resolve(path),
            spool: self.spool.clone(),
            buffer_kib_per_cpu: self.buffer_kib_per_cpu,
            every_step: self.every_step,
        };
        Ok(BlockTracer::arm(&settings)?)
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Failure::new(FailureKind::Environment, error.what, error.place, error.hint)
    }
}

/// The reason why figures of the device are null for a server that bufferlab did not start.
const NO_DEVICE: &str = "bufferlab did not start the server, and does not know the device of its data";

/// The parts of a run that decide its probes.
pub struct ProbedRun<'a> {
    /// The id of the server's process, when the server runs on this host.
    pub server_pid: Option<u32>,
    /// The path of the data, or of the device itself, when this host can see it.
    pub data: Option<&'a Path>,
    /// The probe of this process, whose threads drive the engine.
    pub process: ProcessProbe,
    /// Further probes for which the job asks.
    pub asked: &'a Asked,
    /// The probe of page accesses, if the engine has one in this process. For a server, the process that started it
    /// records the accesses.
    pub page_trace: Option<Box<dyn Probe>>,
}

/// The probes of one run, which the sampler and the run share.
#[derive(Default)]
pub struct Probes(Mutex<Vec<Box<dyn Probe>>>);

impl Probes {
    /// Returns all probes of a run, ready to be read.
    ///
    /// # Errors
    /// When a probe that the job asks for cannot start, or cannot record this engine's pages or the device of this
    /// run's data.
    pub fn of(run: ProbedRun<'_>) -> Result<Self, Failure> {
        let mut probes: Vec<Box<dyn Probe>> = Vec::new();
        // The server's probe is read first, so that no other work of the sample lies between the engine's counters and
        // the bytes of the server's process.
        if let Some(pid) = run.server_pid {
            probes.push(Box::new(ServerProbe::new(pid)));
        }
        probes.push(Box::new(run.data.map_or_else(
            || DeviceProbe::for_device(&device::Device { reason: Some(NO_DEVICE.to_owned()), ..Default::default() }),
            DeviceProbe::for_path,
        )));
        probes.extend(of_host());
        probes.push(Box::new(run.process));
        probes.push(Box::new(SchedProbe::new(run.server_pid)));
        if let Some(trace) = &run.asked.block_trace {
            let hint = "leave the block trace out, or let bufferlab start the server";
            let what = "this host does not know the device of the data";
            let data = run.data.ok_or_else(|| Failure::new(FailureKind::Usage, what, "block-trace", hint))?;
            probes.push(Box::new(trace.arm(data)?));
        }
        match run.page_trace {
            Some(trace) => probes.push(trace),
            None if run.asked.page_trace.is_some() && run.server_pid.is_some() => {
                probes.push(Box::new(window_without(Vec::new())));
            }
            None if run.asked.page_trace.is_some() => {
                let what = "accesses to this engine's pages cannot be recorded";
                return Err(Failure::new(FailureKind::Usage, what, "page-trace", "leave it out"));
            }
            None => {}
        }
        Ok(Probes(Mutex::new(probes)))
    }

    /// Reads all probes, and appends their readings to `out`.
    pub fn sample(&self, out: &mut Vec<Reading>) {
        for probe in lock(&self.0).iter_mut() {
            probe.sample(out);
        }
    }

    /// Announces to all probes that the next sample is taken at an edge of the window. Call it before reading the
    /// engine's counters.
    pub fn before_edge(&self) {
        for probe in lock(&self.0).iter_mut() {
            probe.before_edge();
        }
    }

    /// Makes probes begin or end recording at an edge of the measured window. At the start edge call it after all other
    /// work, at the end edge before all other work. Probes do not record a run's further windows.
    pub fn at_edge(&self, edge: Edge, phase: &Phase) {
        if *phase != Phase::Measure {
            return;
        }
        for probe in lock(&self.0).iter_mut() {
            match edge {
                Edge::Start => probe.begin(),
                Edge::End => probe.end(),
            }
        }
    }

    /// Ends the probes, and returns the tables that they recorded.
    #[must_use]
    pub fn finish(self) -> Vec<Table> {
        let probes = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        probes.into_iter().filter_map(|probe| probe.finish()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A probe that notes the calls that it gets; its table holds their names.
    struct Told(Vec<&'static str>);

    impl Probe for Told {
        fn name(&self) -> &'static str {
            "told"
        }

        fn sample(&mut self, _out: &mut Vec<Reading>) {
            self.0.push("sample");
        }

        fn begin(&mut self) {
            self.0.push("begin");
        }

        fn end(&mut self) {
            self.0.push("end");
        }

        fn finish(self: Box<Self>) -> Option<Table> {
            Some(Table::new("told", &self.0))
        }
    }

    #[test]
    fn a_probe_records_the_measured_window_alone_and_one_without_a_table_gives_none() {
        let probes = Probes(Mutex::new(vec![Box::new(ProcessProbe::new()), Box::new(Told(Vec::new()))]));
        let after = Phase::Extra(Arc::from("range_scan"));
        for phase in [Phase::WarmUp, Phase::Measure, after] {
            probes.at_edge(Edge::Start, &phase);
            probes.at_edge(Edge::End, &phase);
        }
        probes.sample(&mut Vec::new());
        let tables = probes.finish();
        assert_eq!(tables.iter().map(|table| table.probe).collect::<Vec<_>>(), ["told"]);
        assert_eq!(tables[0].told, serde_json::json!(["begin", "end", "sample"]));
    }

    #[test]
    fn figures_of_the_device_of_a_server_that_runs_already_are_null_with_the_reason() {
        let asked = Asked::default();
        let run =
            ProbedRun { server_pid: None, data: None, process: ProcessProbe::new(), asked: &asked, page_trace: None };
        let mut out = Vec::new();
        Probes::of(run).expect("nothing was asked for").sample(&mut out);
        let of_device: Vec<_> = out.iter().filter(|reading| reading.probe == "device").collect();
        assert!(of_device.iter().any(|reading| reading.metric == "device_read_bytes"));
        assert!(
            of_device.iter().all(|reading| reading.count.is_none() && reading.reason.as_deref() == Some(NO_DEVICE))
        );
    }

    #[test]
    fn a_trace_of_data_that_this_host_cannot_see_is_refused() {
        let trace = BlockTraceAsked { spool: "spool".into(), buffer_kib_per_cpu: 64, every_step: false };
        let asked = Asked { block_trace: Some(trace), ..Asked::default() };
        let run =
            ProbedRun { server_pid: None, data: None, process: ProcessProbe::new(), asked: &asked, page_trace: None };
        let refused = Probes::of(run).err().expect("there is no path");
        assert_eq!(refused.kind, FailureKind::Usage);
        assert!(!refused.hint.is_empty());
    }
}
