//! `_native.Curve`: misses of every size of an LRU pool, from columns that Python passes without a copy.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// See `bufferlab_sim::Curve`.
#[pyclass]
pub(crate) struct Curve {
    curve: bufferlab_sim::Curve,
    pages: u32,
}

/// Returns a column as a slice, for as long as Python's lock is held.
pub(crate) fn column<'a, T: pyo3::buffer::Element>(_py: Python<'a>, buffer: &'a PyBuffer<T>) -> PyResult<&'a [T]> {
    let cells = buffer.as_slice_ptr().ok_or_else(|| PyValueError::new_err("a column must be contiguous"))?;
    // SAFETY: the buffer keeps the memory. Nobody writes: this code does not, and others need Python's lock.
    Ok(unsafe { cells.as_ref() })
}

#[pymethods]
impl Curve {
    /// Makes a curve for pages `0..pages`.
    #[new]
    fn new(pages: u32) -> PyResult<Self> {
        let curve = bufferlab_sim::Curve::new(u64::from(pages));
        Ok(Curve { curve: curve.map_err(|error| PyValueError::new_err(error.to_string()))?, pages })
    }

    /// Touches pages (u32) in their order; `counted` (u8) says for each whether its miss counts.
    fn feed(&mut self, py: Python<'_>, pages: PyBuffer<u32>, counted: PyBuffer<u8>) -> PyResult<()> {
        let (pages, counted) = (column(py, &pages)?, column(py, &counted)?);
        if pages.iter().any(|&page| page >= self.pages) || counted.len() != pages.len() {
            return Err(PyValueError::new_err("a page is too large, or a mark is missing"));
        }
        self.curve.feed(pages, counted);
        Ok(())
    }

    /// Returns the misses of pools of 0, 1, 2, ... pages, as u64 in native byte order.
    fn misses<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes: Vec<u8> = self.curve.misses().into_iter().flat_map(u64::to_ne_bytes).collect();
        PyBytes::new(py, &bytes)
    }
}
