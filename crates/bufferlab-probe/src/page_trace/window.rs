//! The edges of the measured window, on the clock of the accesses.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::clock::monotonic_ns;
use crate::reading::{Probe, Reading, Table};

/// Of every probe of page accesses, and of its table.
pub const NAME: &str = "page_trace";

/// Where a run's page accesses go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTraceAsked {
    /// A file that is made.
    pub spool: PathBuf,
}

/// When the measured window began and ended, on CLOCK_MONOTONIC; none where it did not come so far.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Window {
    /// Its begin.
    pub window_start_ns: Option<u64>,
    /// Its end.
    pub window_end_ns: Option<u64>,
}

impl Window {
    /// It begins now.
    pub fn begin(&mut self) {
        self.window_start_ns = Some(monotonic_ns());
    }

    /// It ends now.
    pub fn end(&mut self) {
        self.window_end_ns = Some(monotonic_ns());
    }
}

/// The probe of a run whose accesses are recorded elsewhere: since a server's start, by whoever started it.
#[derive(Debug, Default, Serialize)]
pub struct WindowProbe {
    #[serde(flatten)]
    window: Window,
    uncounted_threads: Vec<u32>,
}

impl WindowProbe {
    /// These threads (the kernel's numbers) are ours, and the server's counters leave out what they access.
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
