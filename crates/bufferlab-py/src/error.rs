//! Turns the core's failures into one Python exception, `NativeError(kind, what, where, hint)`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bufferlab_drive::failure::{Failure, FailureKind};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

create_exception!(
    bufferlab._native,
    NativeError,
    PyException,
    "A failure of the core: args are (kind, what, where, hint)."
);

/// Returns the exception for a failure.
pub fn to_python(failure: Failure) -> PyErr {
    NativeError::new_err((failure.kind.name(), failure.what, failure.place, failure.hint))
}

/// Calls code of the core. Turns its failures, and its panics, which are bugs, into exceptions.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, Failure>) -> PyResult<T> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(outcome) => outcome.map_err(to_python),
        Err(panic) => {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(to_python(internal(format!("the core stopped at a broken invariant: {message}"))))
        }
    }
}

fn internal(what: String) -> Failure {
    Failure::new(FailureKind::Internal, what, "bufferlab core", "please report this with the run's worker.log")
}

/// Returns a value as JSON for Python.
pub fn json_text(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| to_python(internal(error.to_string())))
}

/// Returns the exception for a request that the core cannot fulfil.
pub fn unusable(what: String, place: &str) -> PyErr {
    to_python(Failure::new(FailureKind::Usage, what, place, "see `bufferlab list engines` for what is possible"))
}

/// Reads a job, or a part of one, from JSON. Invalid JSON raises a usage failure.
pub fn parse<T: DeserializeOwned>(json: &str) -> PyResult<T> {
    let mut reader = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut reader)
        .map_err(|error| unusable(error.inner().to_string(), &error.path().to_string()))
}
