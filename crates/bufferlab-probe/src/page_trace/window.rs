//! The edges of the measured window, on the clock of the accesses.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;
use crate::reading::{Probe, Reading, Table};

/// The name of every probe of page accesses, and of its table.
pub const NAME: &str = "page_trace";

/// A run's request for a page trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTraceAsked {
    /// The file of accesses. The recorder makes it.
    pub spool: PathBuf,
}

/// Begin and end of the measured window, on CLOCK_MONOTONIC; none where the run did not come so far.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Window {
    /// Its begin.
    pub window_start_ns: Option<u64>,
    /// Its end.
    pub window_end_ns: Option<u64>,
}

impl Window {
    /// Notes that it begins now.
    pub fn begin(&mut self) {
        self.window_start_ns = Some(monotonic_ns());
    }

    /// Notes that it ends now.
    pub fn end(&mut self) {
        self.window_end_ns = Some(monotonic_ns());
    }
}

/// The probe of a run whose accesses another process records: the one that started the server, from its start on.
#[derive(Debug, Default, Serialize)]
pub struct WindowProbe {
    #[serde(flatten)]
    window: Window,
    uncounted_threads: Vec<u32>,
}

impl WindowProbe {
    /// Makes a probe that names our own threads (the kernel's numbers). The server's counters leave their accesses out.
    #[must_use]
    pub fn without(uncounted_threads: Vec<u32>) -> Self {
        Self { window: Window::default(), uncounted_threads }
    }
}

impl Probe for WindowProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, _out: &mut Vec<Reading>) {}

    fn begin(&mut self) {
        self.window.begin();
    }

    fn end(&mut self) {
        self.window.end();
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        Some(Table::new(NAME, &self))
    }
}
