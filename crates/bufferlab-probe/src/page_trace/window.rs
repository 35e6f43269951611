//! The edges of the measured window, on the clock of the accesses.

use std::path::PathBuf;

use bufferlab_model::trace::Window;
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

/// The probe of a run whose accesses are recorded: by its engine, or by the process that started the server.
pub struct WindowProbe<F> {
    window: Window,
    rest: F,
}

impl<T: Serialize, F: FnOnce() -> T + Send> WindowProbe<F> {
    /// Makes a probe that notes the edges of the window. Once the engine has ended, it tells them and what `rest`
    /// returns then.
    pub fn with(rest: F) -> Self {
        Self { window: Window::default(), rest }
    }
}

/// Makes a probe that names our own threads (the kernel's numbers). The server's counters leave their accesses out.
#[must_use]
pub fn window_without(uncounted_threads: Vec<u32>) -> impl Probe {
    #[derive(Serialize)]
    struct Uncounted {
        uncounted_threads: Vec<u32>,
    }
    WindowProbe::with(|| Uncounted { uncounted_threads })
}

impl<T: Serialize, F: FnOnce() -> T + Send> Probe for WindowProbe<F> {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, _out: &mut Vec<Reading>) {}

    fn begin(&mut self) {
        self.window.window_start_ns = Some(monotonic_ns());
    }

    fn end(&mut self) {
        self.window.window_end_ns = Some(monotonic_ns());
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        #[derive(Serialize)]
        struct Told<T> {
            #[serde(flatten)]
            window: Window,
            #[serde(flatten)]
            rest: T,
        }
        let Self { window, rest } = *self;
        Some(Table::new(NAME, &Told { window, rest: rest() }))
    }
}
