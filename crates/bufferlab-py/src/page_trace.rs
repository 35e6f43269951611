//! The page trace of a server as Python uses it: can it be had, record it, tidy up after the dead.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bufferlab_drive::failure::Failure;
use bufferlab_probe::page_trace::{PageTracer, Settings, check, executable_segments, remove_stale};
use bufferlab_probe::{block_trace, tracefs::Tracing};
use pyo3::prelude::*;

use crate::error::{guarded, json_text, parse};

/// A trace of a server's page accesses. Dropped unfinished, it leaves nothing behind.
#[pyclass(frozen)]
pub struct PageTrace(Mutex<Option<PageTracer>>);

impl PageTrace {
    fn with<T>(&self, act: impl FnOnce(&mut Option<PageTracer>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl PageTrace {
    /// Begins to record a process that has yet to become the server.
    fn attach(&self, py: Python<'_>, pid: u32) -> PyResult<()> {
        let attach = || self.with(|tracer| tracer.as_mut().map_or(Ok(()), |tracer| tracer.attach(pid)));
        py.detach(|| guarded(|| attach().map_err(Failure::from)))
    }

    /// Ends the trace and says how it went, as JSON; null the second time.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        json_text(&py.detach(|| self.with(Option::take).map(PageTracer::finish)))
    }
}

/// Prepares a trace of a server's binary. See `Settings`.
#[pyfunction]
pub fn page_trace(py: Python<'_>, settings_json: &str) -> PyResult<PageTrace> {
    let settings: Settings = parse(settings_json)?;
    let tracer = py.detach(|| guarded(|| PageTracer::arm(settings).map_err(Failure::from)))?;
    Ok(PageTrace(Mutex::new(Some(tracer))))
}

/// Returns whether this user may watch programs here.
#[pyfunction]
pub fn page_trace_check(py: Python<'_>) -> PyResult<()> {
    py.detach(|| guarded(|| check().map_err(Failure::from))).map(|_| ())
}

/// Offset and length of each executable segment in a binary's file, as JSON.
#[pyfunction]
pub fn executable_ranges(py: Python<'_>, binary: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| executable_segments(Path::new(binary)).map_err(Failure::from)))?)
}

/// Removes from tracefs what processes of ours left that have gone; the names, as JSON. Where this user may not look there
/// are none.
#[pyfunction]
pub fn tracefs_clean(py: Python<'_>) -> PyResult<String> {
    let clean = || {
        let Ok(tracing) = Tracing::open() else { return Vec::new() };
        let kinds = [block_trace::remove_stale(&tracing), remove_stale(&tracing)];
        kinds.into_iter().flatten().flatten().collect()
    };
    json_text(&py.detach(clean))
}
