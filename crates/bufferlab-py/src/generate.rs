//! Generated page accesses for Python: what pools would read that no server had.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use bufferlab_drive::failure::{Failure, FailureKind};
use bufferlab_drive::gate::{Gate as Rule, GateEnd, Window};
use bufferlab_generate::job::{self, Gate, Job};
use bufferlab_generate::run::{RunError, Watch};
use pyo3::prelude::*;

use crate::done;

/// Time between two calls of a watch.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// The gate of measured runs.
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

/// Generates a run without a server. The job is `bufferlab_generate::job::Job`, the answer its `Run`, both as JSON.
///
/// A watch hears, ten times a second, how many transactions are done, and how many of them in the window, None before
/// it. What it raises ends the run and is raised here.
#[pyfunction]
#[pyo3(signature = (job, watch = None))]
pub(crate) fn generate(py: Python<'_>, job: &str, watch: Option<Py<PyAny>>) -> PyResult<String> {
    let raised = Mutex::new(None);
    let mut last = Instant::now();
    let mut tell = |all: u64, measured: Option<u64>| {
        let Some(watch) = &watch else { return true };
        if last.elapsed() < WATCH_INTERVAL {
            return true;
        }
        last = Instant::now();
        let told = Python::attach(|py| watch.call1(py, (all, measured)).map(drop));
        told.map_err(|error| raised.lock().map(|mut raised| *raised = Some(error))).is_ok()
    };
    let answer = done(py, job, |job: &Job| generated(job, &mut tell));
    match raised.into_inner() {
        Ok(Some(error)) => Err(error),
        _ => answer,
    }
}

fn generated(job: &Job, watch: &mut Watch<'_>) -> Result<bufferlab_generate::run::Run, Failure> {
    let gate = |frames: u32, stretch, at_least| -> Box<dyn Gate> {
        Box::new(Measured { rule: Rule::new(frames.into(), stretch, at_least), end: None })
    };
    job::generate(job, &gate, Some(watch)).map_err(|error| {
        let place = if let RunError::Asked { field, .. } = error { field } else { "generate" };
        Failure::new(FailureKind::Usage, error.to_string(), place, "see docs/prediction.md for what can be generated")
    })
}
