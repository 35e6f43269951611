//! The block trace as Python uses it: can it be had, prepare it, end it, decode it, tidy up after the dead.

use std::path::{Path, PathBuf};

use bufferlab_load::block_trace;
use bufferlab_load::event::{Edge, Phase};
use bufferlab_load::failure::Failure;
use bufferlab_probe::block_trace::{Settings, Tracing, check, decode, remove_stale};
use bufferlab_probe::device;
use pyo3::prelude::*;
use serde::Deserialize;

use crate::error::{guarded, json_text};
use crate::jobs::{choice, parse};

/// What to trace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BlockTraceJob {
    /// A file, directory or block device: what holds it is traced.
    path: PathBuf,
    /// Where pages go until they are decoded.
    spool: PathBuf,
    buffer_kib_per_cpu: u64,
    /// Also how a request was allocated, plugged and inserted.
    #[serde(default)]
    every_step: bool,
}

/// Whether the device that holds a path can be traced here; its name, and the names of instances that died with their process
/// and were removed, as JSON.
#[pyfunction]
fn block_trace_check(py: Python<'_>, path: &str) -> PyResult<String> {
    let device = device::resolve(Path::new(path));
    let removed = py.detach(|| guarded(|| check(&device).map_err(Failure::from)))?;
    json_text(&serde_json::json!({ "device": device.name, "removed": removed }))
}

/// Prepares the trace of the run that follows. See `BlockTraceJob`.
#[pyfunction]
fn block_trace_arm(py: Python<'_>, job_json: &str) -> PyResult<()> {
    let job: BlockTraceJob = parse(job_json)?;
    let settings = Settings {
        device: device::resolve(&job.path),
        spool: job.spool,
        buffer_kib_per_cpu: job.buffer_kib_per_cpu,
        every_step: job.every_step,
    };
    py.detach(|| guarded(|| block_trace::arm(&settings)))
}

/// Begins or ends recording ("start", "end"), for what is measured without a run of the core. True when a trace is prepared.
#[pyfunction]
fn block_trace_edge(py: Python<'_>, edge: &str) -> PyResult<bool> {
    let edge = choice("edge", edge, Edge::from_name(edge))?;
    Ok(py.detach(|| block_trace::at_edge(edge, &Phase::Measure)))
}

/// Ends the trace and says how it went, as JSON; null when none was prepared.
#[pyfunction]
fn block_trace_finish(py: Python<'_>) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| Ok(block_trace::disarm())))?)
}

/// Decodes a spool into a file of records; what was in it, as JSON.
#[pyfunction]
fn block_trace_decode(py: Python<'_>, spool: &str, out: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| decode(Path::new(spool), Path::new(out)).map_err(Failure::from)))?)
}

/// Removes instances that died with their process; their names, as JSON. Where this user may not look there are none.
#[pyfunction]
fn block_trace_clean(py: Python<'_>) -> PyResult<String> {
    let clean = || Tracing::open().and_then(|tracing| remove_stale(&tracing)).unwrap_or_default();
    json_text(&py.detach(clean))
}

/// Adds these functions to the module.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(block_trace_check, module)?)?;
    module.add_function(wrap_pyfunction!(block_trace_arm, module)?)?;
    module.add_function(wrap_pyfunction!(block_trace_edge, module)?)?;
    module.add_function(wrap_pyfunction!(block_trace_finish, module)?)?;
    module.add_function(wrap_pyfunction!(block_trace_decode, module)?)?;
    module.add_function(wrap_pyfunction!(block_trace_clean, module)?)?;
    Ok(())
}
