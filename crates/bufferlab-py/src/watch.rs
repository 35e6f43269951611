//! Python watches work of the core, and may stop it.

use std::time::{Duration, Instant};

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// Time between two calls of a watch.
const INTERVAL: Duration = Duration::from_millis(100);

/// Calls a watch, ten times a second, with the progress of the work.
pub(crate) struct Teller {
    watch: Option<Py<PyAny>>,
    last: Instant,
    raised: Option<PyErr>,
}

impl Teller {
    /// Makes the caller of a watch. Without a watch, it only lets Python handle signals.
    pub(crate) fn new(watch: Option<Py<PyAny>>) -> Self {
        Teller { watch, last: Instant::now(), raised: None }
    }

    /// Calls the watch if it is time; returns whether to go on.
    pub(crate) fn tell<A: for<'py> PyCallArgs<'py>>(&mut self, told: A) -> bool {
        if self.last.elapsed() < INTERVAL {
            return true;
        }
        self.last = Instant::now();
        let heard = Python::attach(|py| {
            py.check_signals()?;
            self.watch.as_ref().map_or(Ok(()), |watch| watch.call1(py, told).map(drop))
        });
        self.raised = heard.err();
        self.raised.is_none()
    }

    /// Returns the work's answer, or the exception that stopped the work.
    pub(crate) fn answer<T>(self, answer: PyResult<T>) -> PyResult<T> {
        self.raised.map_or(answer, Err)
    }
}
