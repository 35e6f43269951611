//! The Python extension module `bufferlab._native`: conversions, error mapping, releasing the GIL.
//! No logic: what is measured lives in the crates below.
//! Built by maturin against Python's stable ABI (3.11 and later).

use pyo3::prelude::*;

/// Version of the Rust core, recorded with every run.
#[pyfunction]
fn core_version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The functions of the core that Python may call.
#[pymodule(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(core_version, module)?)?;
    Ok(())
}
