//! A file of accesses, which a recorder writes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bufferlab_model::trace::{KINDS, RECORD_BYTES, Record};
use serde::Serialize;

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
