//! Page traces of servers for Python: checks whether they are possible, and records a server that bufferlab starts or
//! one that runs already. It also removes from tracefs the objects of dead processes.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bufferlab_drive::failure::Failure;
use bufferlab_probe::page_trace::inside::{self, Inside};
use bufferlab_probe::page_trace::propose;
use bufferlab_probe::page_trace::{
    Buffers, LiveSettings, LiveTrace, Settings, check_calls, check_live, executable_segments,
};
use bufferlab_probe::{block_trace, tracefs::Tracing};
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

use crate::error::{guarded, json_text, parse};

/// A page trace of a server that bufferlab starts. Dropping an unfinished trace leaves nothing behind.
#[pyclass(frozen)]
pub struct PageTrace(Mutex<Option<Inside>>);

impl PageTrace {
    fn with<T>(&self, act: impl FnOnce(&mut Option<Inside>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl PageTrace {
    /// Begins to read the server's records. Writes the files that the server needs for it into `folder`. Returns the
    /// environment and the descriptor with which the caller must start the server, as JSON; null after the trace has
    /// ended.
    fn begin(&self, py: Python<'_>, folder: &str) -> PyResult<String> {
        let begin = || self.with(|trace| trace.as_mut().map(|trace| trace.begin(Path::new(folder))).transpose());
        json_text(&py.detach(|| guarded(|| begin().map_err(Failure::from)))?)
    }

    /// Raises an exception with the reason, if the trace does not record the server. The server must have started and
    /// answer statements.
    fn require_on(&self, py: Python<'_>) -> PyResult<()> {
        let require = || self.with(|trace| trace.as_ref().map_or(Ok(()), |trace| trace.require_on()));
        py.detach(|| guarded(|| require().map_err(Failure::from)))
    }

    /// Ends the trace and returns its result as JSON; a second call returns null.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        json_text(&py.detach(|| self.with(Option::take).map(|trace| trace.finish())))
    }
}

/// A page trace of a server that runs already. Dropping the trace ends it and leaves nothing behind.
#[pyclass(frozen, name = "LiveTrace")]
pub struct LivePageTrace(Mutex<LiveTrace>);

impl LivePageTrace {
    fn lock(&self) -> std::sync::MutexGuard<'_, LiveTrace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl LivePageTrace {
    /// Returns the present state of the trace, as JSON.
    fn told(&self, py: Python<'_>) -> PyResult<String> {
        json_text(&py.detach(|| self.lock().told()))
    }

    /// Gives the trace the server's own list of its buffers. The caller asked the server for the list at `asked_ns`.
    /// See `Buffers`.
    fn name_frames(
        &self,
        py: Python<'_>,
        asked_ns: u64,
        files: Vec<(u32, u64)>,
        buffer: PyBuffer<u32>,
        file: PyBuffer<u32>,
        page: PyBuffer<u32>,
    ) -> PyResult<()> {
        let (buffer, file, page) = (buffer.to_vec(py)?, file.to_vec(py)?, page.to_vec(py)?);
        self.lock().name_frames(Buffers { asked_ns, files, buffer, file, page });
        Ok(())
    }

    /// Ends the trace and returns its result as JSON; a second call returns null.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        json_text(&py.detach(|| self.lock().finish()))
    }
}

/// Begins to record a server that runs already. The options are `LiveSettings` as JSON.
#[pyfunction]
pub fn live_trace(py: Python<'_>, settings_json: &str) -> PyResult<LivePageTrace> {
    let settings: LiveSettings = parse(settings_json)?;
    let trace = py.detach(|| guarded(|| LiveTrace::attach(settings).map_err(Failure::from)))?;
    Ok(LivePageTrace(Mutex::new(trace)))
}

/// Prepares a page trace of a server that bufferlab will start. The options are `Settings` as JSON.
#[pyfunction]
pub fn page_trace(py: Python<'_>, settings_json: &str) -> PyResult<PageTrace> {
    let settings: Settings = parse(settings_json)?;
    let trace = py.detach(|| guarded(|| Inside::arm(settings).map_err(Failure::from)))?;
    Ok(PageTrace(Mutex::new(Some(trace))))
}

/// Raises an exception with the reason, if bufferlab cannot start a server that records itself here. See `Settings`.
#[pyfunction]
pub fn page_trace_check(py: Python<'_>, settings_json: &str) -> PyResult<()> {
    let settings: Settings = parse(settings_json)?;
    py.detach(|| guarded(|| inside::check(&settings).map_err(Failure::from)))
}

/// Raises an exception with the reason, if the kernel cannot record a running server for this user. `release` is a
/// kernel's release to check instead of this one's.
#[pyfunction]
#[pyo3(signature = (release=None))]
pub fn live_trace_check(py: Python<'_>, release: Option<&str>) -> PyResult<()> {
    py.detach(|| guarded(|| check_live(release).map_err(Failure::from)))
}

/// Raises an exception with the reason, if the kernel cannot follow a server's calls for this user.
#[pyfunction]
pub fn call_trace_check(py: Python<'_>) -> PyResult<()> {
    py.detach(|| guarded(|| check_calls().map_err(Failure::from)))
}

/// Returns the direct branches in a server's binary whose targets lie in bytes that bufferlab's patches would replace,
/// as JSON pairs of source and target.
#[pyfunction]
pub fn page_trace_branches(py: Python<'_>, settings_json: &str) -> PyResult<String> {
    let settings: Settings = parse(settings_json)?;
    json_text(&py.detach(|| guarded(|| inside::branches(&settings).map_err(Failure::from)))?)
}

/// Returns the proposed sites of a build of PostgreSQL or MySQL that no table lists, as JSON (`Proposed`).
#[pyfunction]
pub fn page_site_proposals(py: Python<'_>, binary: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| propose::sites(Path::new(binary)).map_err(Failure::from)))?)
}

/// Returns the places to try in an experiment on a build of MariaDB without symbol names, as JSON (`Experiment`).
#[pyfunction]
pub fn page_site_experiment(py: Python<'_>, binary: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| propose::experiment::experiment(Path::new(binary)).map_err(Failure::from)))?)
}

/// Raises an exception for a site at which no instruction of its binary begins. See `Settings`.
#[pyfunction]
pub fn page_site_check(py: Python<'_>, settings_json: &str) -> PyResult<()> {
    let settings: Settings = parse(settings_json)?;
    py.detach(|| guarded(|| propose::require_instructions(&settings).map_err(Failure::from)))
}

/// Returns offset and length of each executable segment in a binary's file, as JSON.
#[pyfunction]
pub fn executable_ranges(py: Python<'_>, binary: &str) -> PyResult<String> {
    json_text(&py.detach(|| guarded(|| executable_segments(Path::new(binary)).map_err(Failure::from)))?)
}

/// Removes from tracefs the objects of bufferlab's dead processes. Returns the objects' names as JSON; an empty list if
/// this user may not read tracefs.
#[pyfunction]
pub fn tracefs_clean(py: Python<'_>) -> PyResult<String> {
    let clean = || Tracing::open().and_then(|tracing| block_trace::remove_stale(&tracing)).unwrap_or_default();
    json_text(&py.detach(clean))
}
