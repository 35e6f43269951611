//! The page trace of a server for Python: a check, recording, removal of dead processes' definitions.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bufferlab_drive::failure::Failure;
use bufferlab_probe::page_trace::{PageTracer, Settings, check, executable_segments, remove_stale};
use bufferlab_probe::{block_trace, tracefs::Tracing};
use pyo3::prelude::*;

use crate::error::{guarded, json_text, parse};

/// A trace of a server's page accesses. Dropping it unfinished leaves nothing behind.
#[pyclass(frozen)]
pub struct PageTrace(Mutex<Option<PageTracer>>);

impl PageTrace {
    fn with<T>(&self, act: impl FnOnce(&mut Option<PageTracer>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl PageTrace {
    /// Begins to record a process that will become the server.
    fn attach(&self, py: Python<'_>, pid: u32) -> PyResult<()> {
        let attach = || self.with(|tracer| tracer.as_mut().map_or(Ok(()), |tracer| tracer.attach(pid)));
        py.detach(|| guarded(|| attach().map_err(Failure::from)))
    }

    /// Ends the trace and returns its result as JSON; null the second time.
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

/// Raises the exception that says why, if this user may not watch programs.
#[pyfunction]
pub fn page_trace_check(py: Python<'_>) -> PyResult<()> {
    py.detach(|| guarded(|| check().map_err(Failure::from))).map(|_| ())
}

/// Returns offset and length of each executable segment in a binary's file, as JSON.
#[pyfunction]
pub fn executable_ranges(py: Python<'_>, binary: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| executable_segments(Path::new(binary)).map_err(Failure::from)))?)
}

/// Removes from tracefs the objects of our dead processes; returns their names as JSON, none where this user may not
/// look.
#[pyfunction]
pub fn tracefs_clean(py: Python<'_>) -> PyResult<String> {
    let clean = || {
        let Ok(tracing) = Tracing::open() else { return Vec::new() };
        let kinds = [block_trace::remove_stale(&tracing), remove_stale(&tracing)];
        kinds.into_iter().flatten().flatten().collect()
    };
    json_text(&py.detach(clean))
}
