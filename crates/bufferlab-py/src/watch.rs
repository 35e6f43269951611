//! Lets Python watch work of the core, and stop it.

use std::time::{Duration, Instant};

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// Least time between two calls of a watch, a function of Python.
const INTERVAL: Duration = Duration::from_millis(100);

/// Reports the progress of work to a watch, a function of Python, at most ten times a second.
pub(crate) struct Teller {
    watch: Option<Py<PyAny>>,
    last: Instant,
    raised: Option<PyErr>,
}

impl Teller {
    /// Makes the reporter of a watch. Without a watch, the reporter only lets Python handle signals.
    pub(crate) fn new(watch: Option<Py<PyAny>>) -> Self {
        Teller { watch, last: Instant::now(), raised: None }
    }

    /// Calls the watch with these arguments if 0.1 s have passed since the last call. Returns false if the watch or a
    /// signal handler raised an exception; the work must then stop.
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
