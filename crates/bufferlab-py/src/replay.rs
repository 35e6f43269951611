//! The simulated pools for Python, on columns of a trace that Python passes without a copy. Wrong input raises a
//! `ValueError`.

use std::collections::BTreeMap;

use bufferlab_model::trace::{COLUMNS, Columns, KINDS, RECORD};
use bufferlab_sim::{MODELS, stretched};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::json;

use crate::error::{guarded, json_text};
use crate::watch::Teller;

/// The miss curve of `bufferlab_sim::Curve`, for Python.
#[pyclass]
pub(crate) struct Curve {
    curve: bufferlab_sim::Curve,
    pages: u32,
}

/// Returns a column as a slice, which is valid while this thread holds Python's lock (GIL), and longer if the column is
/// read-only.
fn column<'a, T: pyo3::buffer::Element>(_py: Python<'a>, buffer: &'a PyBuffer<T>) -> PyResult<&'a [T]> {
    let cells = buffer.as_slice_ptr().ok_or_else(|| refused("a column must be contiguous"))?;
    // SAFETY: the buffer keeps the memory. No code writes it meanwhile: this code does not, and other code needs
    // Python's lock, or cannot write a read-only column.
    Ok(unsafe { cells.as_ref() })
}

/// Returns the columns of a trace, which are valid while this thread holds Python's lock (GIL).
fn columns<'a>(
    py: Python<'a>,
    page: &'a PyBuffer<u32>,
    kind: &'a PyBuffer<u8>,
    latch: &'a PyBuffer<u8>,
    thread: &'a PyBuffer<u16>,
    delta_us: &'a PyBuffer<u32>,
) -> PyResult<Columns<'a>> {
    Ok(Columns {
        page: column(py, page)?,
        kind: column(py, kind)?,
        latch: column(py, latch)?,
        thread: column(py, thread)?,
        delta_us: column(py, delta_us)?,
    })
}

fn refused(what: impl ToString) -> PyErr {
    PyValueError::new_err(what.to_string())
}

#[pymethods]
impl Curve {
    /// Makes a curve for pages `0..pages`. It counts misses only on the pages `first_page..end_page`.
    #[new]
    fn new(pages: u32, first_page: u32, end_page: u32) -> PyResult<Self> {
        Ok(Curve { curve: bufferlab_sim::Curve::new(pages, first_page..end_page).map_err(refused)?, pages })
    }

    /// Takes accesses in their order. Misses count from the access number `first` on.
    fn feed(&mut self, py: Python<'_>, page: PyBuffer<u32>, kind: PyBuffer<u8>, first: usize) -> PyResult<()> {
        let (page, kind) = (column(py, &page)?, column(py, &kind)?);
        if page.iter().any(|&page| page >= self.pages) || kind.len() != page.len() {
            return Err(refused("a page is too large, or a kind is missing"));
        }
        self.curve.feed(page, kind, first);
        Ok(())
    }

    /// Returns the misses of pools of 0, 1, 2, ... pages, as u64 in native byte order.
    fn misses<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = self.curve.misses().into_iter().flat_map(u64::to_ne_bytes).collect();
        PyBytes::new(py, &bytes)
    }
}

/// Replays a trace to the model of a buffer manager; see `bufferlab_sim::Replay`. The manager's settings are JSON; the
/// answer is `Replayed` as JSON. The times before the row `first_row` are multiplied by the factor `before`, and the
/// times from that row on by `within`.
///
/// If all columns are read-only, other threads of Python run meanwhile. The function `watch`, if given, gets the share
/// done, up to ten times a second. An exception of `watch` ends the replay, which raises it.
#[pyfunction]
#[pyo3(signature = (
    manager, settings_json, frames, load_row, first_row, end_row, page, kind, latch, thread, delta_us,
    before = 1.0, within = 1.0, watch = None
))]
#[allow(clippy::too_many_arguments, reason = "five of them are the columns of one table")]
pub(crate) fn replay(
    py: Python<'_>,
    manager: &str,
    settings_json: &str,
    frames: u32,
    load_row: usize,
    first_row: usize,
    end_row: usize,
    page: PyBuffer<u32>,
    kind: PyBuffer<u8>,
    latch: PyBuffer<u8>,
    thread: PyBuffer<u16>,
    delta_us: PyBuffer<u32>,
    before: f64,
    within: f64,
    watch: Option<Py<PyAny>>,
) -> PyResult<String> {
    let columns = columns(py, &page, &kind, &latch, &thread, &delta_us)?;
    let is_frozen = [page.readonly(), kind.readonly(), latch.readonly(), thread.readonly(), delta_us.readonly()];
    let may_detach = is_frozen.iter().all(|&is| is);
    if watch.is_some() && !may_detach {
        return Err(refused("a replay that is watched needs read-only columns: the watch might write them"));
    }
    let model = MODELS.iter().find(|model| model.name == manager);
    let replay = model.ok_or_else(|| refused(format!("there is no manager {manager}")))?.replay;
    let mut teller = Teller::new(watch);
    let mut tell = |share: f64| teller.tell((share,));
    let mut work = || {
        guarded(|| {
            let own_us =
                (before != 1.0 || within != 1.0).then(|| stretched(columns.delta_us, first_row, before, within));
            let columns = Columns { delta_us: own_us.as_deref().unwrap_or(columns.delta_us), ..columns };
            Ok(replay(settings_json, frames, &columns, load_row, first_row..end_row, &mut tell))
        })
    };
    let replayed = if may_detach { py.detach(work) } else { work() };
    json_text(&teller.answer(replayed)?.map_err(refused)?)
}

/// Replays a trace in slices; see `bufferlab_sim::replay_slices`. The answer is a list of `Slice`, one for each of
/// `ends`, as JSON.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "five of them are the columns of one table")]
pub(crate) fn replay_slices(
    py: Python<'_>,
    manager: &str,
    settings_json: &str,
    frames: u32,
    ends: Vec<usize>,
    page: PyBuffer<u32>,
    kind: PyBuffer<u8>,
    latch: PyBuffer<u8>,
    thread: PyBuffer<u16>,
    delta_us: PyBuffer<u32>,
) -> PyResult<String> {
    let columns = columns(py, &page, &kind, &latch, &thread, &delta_us)?;
    let replayed = || Ok(bufferlab_sim::replay_slices(manager, settings_json, frames, &columns, &ends));
    json_text(&guarded(replayed)?.map_err(refused)?)
}

/// Returns the depths and the lengths of `bufferlab_sim::ghost_depths`, as u32 in native byte order.
#[pyfunction]
pub(crate) fn ghost_depths<'py>(
    py: Python<'py>,
    ring_reads: u32,
    page: PyBuffer<u32>,
    kind: PyBuffer<u8>,
    latch: PyBuffer<u8>,
    thread: PyBuffer<u16>,
    delta_us: PyBuffer<u32>,
) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
    let columns = columns(py, &page, &kind, &latch, &thread, &delta_us)?;
    if columns.rows().is_none() {
        return Err(refused("the columns differ in length"));
    }
    let found = bufferlab_sim::ghost_depths(&columns, ring_reads).map_err(refused)?;
    let bytes = |cells: Vec<u32>| {
        let bytes: Vec<u8> = cells.into_iter().flat_map(u32::to_ne_bytes).collect();
        PyBytes::new(py, &bytes)
    };
    Ok((bytes(found.depth), bytes(found.len)))
}

/// Returns the servers' settings that each model obeys, with the servers' defaults, as a JSON object by the models'
/// names.
#[pyfunction]
pub(crate) fn model_defaults() -> PyResult<String> {
    json_text(&MODELS.iter().map(|model| (model.name, (model.defaults)())).collect::<BTreeMap<_, _>>())
}

/// Returns the names in page traces as JSON: the kinds of records by their numbers, the columns, and the fields of a
/// record.
#[pyfunction]
pub(crate) fn page_trace_words() -> PyResult<String> {
    json_text(&json!({ "kinds": KINDS.map(|(_, name)| name), "columns": COLUMNS, "record": RECORD }))
}
