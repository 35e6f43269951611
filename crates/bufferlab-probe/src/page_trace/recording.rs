//! What every recorder of page accesses makes: a file of accesses, and the edges of the measured window on their clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bufferlab_model::trace::{KINDS, RECORD_BYTES, Record, Window};
use serde::{Deserialize, Serialize};

use super::recorder::Method;
use crate::clock::monotonic_ns;
use crate::reading::{Probe, Reading, Table};

/// A write of this size costs a few hundred microseconds at most, into the page cache.
const BUFFER_BYTES: usize = 10_000 * RECORD_BYTES;

/// A writer of accesses to a file.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    events: [u64; KINDS.len()],
    problem: Option<String>,
}

/// A finished spool. If it is not complete, it has a problem.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spooled {
    /// The file.
    pub spool: PathBuf,
    /// Accesses by kind, without kinds that did not occur.
    pub events: BTreeMap<&'static str, u64>,
    /// The reason why the file lacks accesses.
    pub problem: Option<String>,
}

impl Spool {
    /// Makes an empty file.
    ///
    /// # Errors
    /// The system's error.
    pub fn create(path: &Path) -> std::io::Result<Self> {
        let file = File::create_new(path)?;
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Ok(Spool { path: path.to_owned(), file, buffer, events: [0; KINDS.len()], problem: None })
    }

    /// Adds an access. Allocates nothing, and writes to the file once in 10,000 accesses.
    #[inline]
    pub fn push(&mut self, access: &Record) {
        self.events[access.kind as usize] += 1;
        self.buffer.extend_from_slice(&access.bytes());
        if self.buffer.len() >= BUFFER_BYTES {
            self.write_out();
        }
    }

    fn write_out(&mut self) {
        if self.problem.is_none()
            && let Err(error) = self.file.write_all(&self.buffer)
        {
            self.problem = Some(format!("the page trace could not be written: {error}"));
        }
        self.buffer.clear();
    }

    /// Writes the rest.
    #[must_use]
    pub fn finish(mut self) -> Spooled {
        self.write_out();
        let events = KINDS.iter().zip(self.events).filter(|(_, count)| *count > 0);
        Spooled {
            spool: self.path,
            events: events.map(|((_, name), count)| (*name, count)).collect(),
            problem: self.problem,
        }
    }
}

/// The name of every probe of page accesses, and of its table.
pub const NAME: &str = "page_trace";

/// A run's request for a page trace.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageTraceAsked {
    /// The file of accesses. The recorder makes it.
    pub spool: PathBuf,
    /// Who records a server; an engine in our own process records itself.
    pub way: Option<Method>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use bufferlab_model::trace::Kind;

    fn access(page: u32, kind: Kind) -> Record {
        Record { t_ns: 1, object: 0, page, thread: 0, kind, latch: 0, site: 0 }
    }

    #[test]
    fn every_access_is_in_the_file_and_counted_under_its_kind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let mut spool = Spool::create(&path).unwrap();
        for page in 0..25_000 {
            spool.push(&access(page, if page % 5 == 0 { Kind::Read } else { Kind::Get }));
        }
        let told = spool.finish();
        assert_eq!(told.events, BTreeMap::from([("get", 20_000), ("read", 5_000)]));
        assert_eq!(told.problem, None);
        let bytes = std::fs::read(path).unwrap();
        let pages = bytes.chunks(RECORD_BYTES).map(|record| u32::from_le_bytes(record[12..16].try_into().unwrap()));
        assert!(pages.eq(0..25_000));
    }

    #[test]
    fn a_full_disk_is_told_at_the_end_and_stops_nobody() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        let mut spool = Spool { path: "/dev/full".into(), file, buffer, events: [0; KINDS.len()], problem: None };
        for page in 0..25_000 {
            spool.push(&access(page, Kind::Get));
        }
        assert!(spool.finish().problem.unwrap().contains("No space left"));
    }
}
