//! The block trace for Python: checks whether it is possible, records outside of a run, decodes its pages, and removes
//! the tracefs instances of dead processes.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bufferlab_drive::failure::Failure;
use bufferlab_drive::probes::BlockTraceAsked;
use bufferlab_probe::block_trace::{BlockTracer, check, decode};
use bufferlab_probe::{Probe, device};
use pyo3::prelude::*;

use crate::error::{guarded, json_text, parse};

/// A block trace outside of a run, for measurements that Python makes itself. Dropping an unfinished trace removes all
/// that it made in tracefs.
#[pyclass(frozen)]
pub struct BlockTrace(Mutex<Option<Box<BlockTracer>>>);

impl BlockTrace {
    fn with<T>(&self, act: impl FnOnce(&mut Option<Box<BlockTracer>>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl BlockTrace {
    /// Begins to record requests to the device. A trace records only one span of time.
    fn begin(&self, py: Python<'_>) {
        py.detach(|| self.with(|tracer| tracer.iter_mut().for_each(|tracer| tracer.begin())));
    }

    /// Stops recording requests.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.with(|tracer| tracer.iter_mut().for_each(|tracer| tracer.end())));
    }

    /// Ends the trace and returns its result as JSON; a second call returns null.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        let table = py.detach(|| self.with(Option::take).and_then(|tracer| tracer.finish()));
        json_text(&table.map(|table| table.told))
    }
}

/// Prepares a trace of the device at `path`, or of the device that holds the file at `path`. The options are
/// `BlockTraceAsked` as JSON.
#[pyfunction]
pub fn block_trace(py: Python<'_>, path: &str, asked_json: &str) -> PyResult<BlockTrace> {
    let asked: BlockTraceAsked = parse(asked_json)?;
    let tracer = py.detach(|| guarded(|| asked.arm(Path::new(path))))?;
    Ok(BlockTrace(Mutex::new(Some(Box::new(tracer)))))
}

/// Checks whether this user can trace the device that holds a path, and removes the tracefs instances of dead
/// processes. Returns the device's name and the names of the removed instances, as JSON.
#[pyfunction]
pub fn block_trace_check(py: Python<'_>, path: &str) -> PyResult<String> {
    let device = device::resolve(Path::new(path));
    let removed = py.detach(|| guarded(|| check(&device).map_err(Failure::from)))?;
    json_text(&serde_json::json!({ "device": device.name, "removed": removed }))
}

/// Decodes a spool of trace pages into a file of records. Returns the counts of events as JSON.
#[pyfunction]
pub fn block_trace_decode(py: Python<'_>, spool: &str, out: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| decode(Path::new(spool), Path::new(out)).map_err(Failure::from)))?)
}
