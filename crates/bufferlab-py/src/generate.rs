//! Generated page accesses for Python: predicts the reads of a pool of any size without a server.

use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::gate::{Gate as Rule, GateEnd, Patience, Window};
use bufferlab_generate::job::Job;
use bufferlab_generate::run::{Gate, RunError, Watch};
use bufferlab_generate::simulate;
use pyo3::prelude::*;

use crate::done;
use crate::watch::Teller;

/// The rule that ends the warm-up of a generated run. Measured runs have the same rule.
struct Measured {
    rule: Rule,
    end: Option<GateEnd>,
}

impl Gate for Measured {
    fn prefill(&mut self, misses: u64) {
        self.rule.prefill(misses);
    }

    fn is_warm(&mut self, misses: u64) -> bool {
        self.end = self.rule.window(Window::of(misses));
        self.end.is_some()
    }

    fn end(&self) -> Option<&'static str> {
        self.end.map(GateEnd::name)
    }
}

/// Generates a run without a server. The job is `bufferlab_generate::job::Job`, the answer is
/// `bufferlab_generate::run::Run`, both as JSON.
///
/// The function `watch`, if given, is called up to ten times a second. It gets the number of transactions done, and the
/// number of those in the window, which is None before the window. An exception of `watch` ends the run, which raises
/// it.
#[pyfunction]
#[pyo3(signature = (job, watch = None))]
pub(crate) fn generate(py: Python<'_>, job: &str, watch: Option<Py<PyAny>>) -> PyResult<String> {
    let mut teller = Teller::new(watch);
    let answer = done(py, job, |job: &Job| generated(job, &mut |all, measured| teller.tell((all, measured))));
    teller.answer(answer)
}

/// Returns the approximate bytes of memory that a job takes, as JSON.
#[pyfunction]
pub(crate) fn generated_bytes(py: Python<'_>, job: &str) -> PyResult<String> {
    done(py, job, |job: &Job| simulate::bytes(job).map_err(|error| failure(&error)))
}

fn generated(job: &Job, watch: &mut Watch<'_>) -> Result<bufferlab_generate::run::Run, Failure> {
    let gate = |frames: u32, stretch, at_least| -> Box<dyn Gate> {
        let patience = Patience { at_least, ..Patience::default() };
        Box::new(Measured { rule: Rule::new(frames.into(), stretch, patience), end: None })
    };
    simulate::generate(job, &gate, Some(watch)).map_err(|error| failure(&error))
}

fn failure(error: &RunError) -> Failure {
    let place = if let RunError::Asked { field, .. } = error { *field } else { "generate" };
    Failure::new(FailureKind::Usage, error.to_string(), place, "see docs/prediction.md for what can be generated")
}
