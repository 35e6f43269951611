//! Generated page accesses for Python: what pools would read that no server had.

use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::gate::{Gate as Rule, Window};
use bufferlab_generate::job::{self, Gate, Job};
use bufferlab_generate::run::RunError;
use pyo3::prelude::*;

use crate::done;

/// The gate of measured runs.
struct Measured(Rule);

impl Gate for Measured {
    fn prefill(&mut self, misses: u64) {
        self.0.prefill(misses);
    }

    fn is_warm(&mut self, misses: u64) -> bool {
        self.0.window(Window::of(misses)).is_some()
    }
}

/// Generates a run without a server. The job is `bufferlab_generate::job::Job`, the answer its `Run`, both as JSON.
#[pyfunction]
pub(crate) fn generate(py: Python<'_>, job: &str) -> PyResult<String> {
    done(py, job, |job: &Job| {
        let gate = |frames: u32, stretch| -> Box<dyn Gate> { Box::new(Measured(Rule::new(frames.into(), stretch, 0))) };
        job::generate(job, &gate).map_err(|error| {
            let place = if let RunError::Asked { field, .. } = error { field } else { "generate" };
            Failure::new(
                FailureKind::Usage,
                error.to_string(),
                place,
                "see docs/prediction.md for what can be generated",
            )
        })
    })
}
