//! What to read, how, and for how long, in the core's types.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::job::{Limit, sample_interval};
use crate::probes::Asked;

/// Smallest read, and the unit of every offset and size.
pub const SECTOR_BYTES: u64 = 512;
/// Largest read.
pub const LARGEST_READ_BYTES: u64 = 1 << 20;
/// Most reads a thread keeps in flight.
pub const DEEPEST_QUEUE: usize = 256;
/// Most threads.
pub const MOST_THREADS: usize = 64;

/// How bytes get from the file into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// Past the page cache (`O_DIRECT`).
    Direct,
    /// Through the page cache.
    Buffered,
    /// Through a mapping of the page cache, copied by the reader itself.
    Mmap,
}

/// What the page cache holds when the window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Nothing of the file.
    Cold,
    /// The file, as far as memory allows.
    Warm,
}

/// Who asks the kernel to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `io_uring` where this process may use it, else threads.
    Auto,
    /// `io_uring`, or a failure.
    IoUring,
    /// A thread for every read in flight, each with `pread`.
    Threads,
}

/// Where the next read goes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Anywhere, each place with the same probability.
    Random,
    /// On from the last; every reader has a part of the file of its own to begin with.
    Sequential,
    /// Anywhere, places being as popular as Zipf's law with this exponent says.
    Zipf(f64),
}

/// The reads themselves.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reads {
    /// Bytes of each.
    pub io_size_bytes: u64,
    /// Every offset is a multiple of it.
    pub alignment_bytes: u64,
    /// Where they go.
    pub order: Order,
    /// Reads that each thread keeps in flight.
    pub queue_depth: usize,
    /// Threads.
    pub threads: usize,
    /// Decides every offset.
    pub seed: u64,
}

impl Reads {
    /// Reads that are in flight at the same time.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.queue_depth * self.threads
    }

    /// Refuses what cannot be read.
    ///
    /// # Errors
    /// A usage failure that names the setting.
    pub fn check(&self) -> Result<(), Failure> {
        let refuse =
            |place: &str, what: String, hint: &str| Err(Failure::new(FailureKind::Usage, what, place, hint.to_owned()));
        let size = self.io_size_bytes;
        if !(SECTOR_BYTES..=LARGEST_READ_BYTES).contains(&size) || !size.is_multiple_of(SECTOR_BYTES) {
            let hint = "choose a multiple of 512 bytes, from 512 bytes to 1 MiB";
            return refuse("io_size", format!("reads of {size} bytes"), hint);
        }
        let alignment = self.alignment_bytes;
        if alignment == 0 || !alignment.is_multiple_of(SECTOR_BYTES) {
            return refuse("alignment", format!("offsets in multiples of {alignment}"), "choose 512, 4096 or io_size");
        }
        if !(1..=DEEPEST_QUEUE).contains(&self.queue_depth) {
            return refuse("queue_depth", format!("a queue depth of {}", self.queue_depth), "choose 1 to 256");
        }
        if !(1..=MOST_THREADS).contains(&self.threads) {
            return refuse("threads", format!("{} threads", self.threads), "choose 1 to 64");
        }
        if let Order::Zipf(exponent) = self.order
            && !(exponent.is_finite() && exponent >= 0.0)
        {
            return refuse("zipf", format!("an exponent of {exponent}"), "choose a number from 0");
        }
        Ok(())
    }
}

/// What to run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// A file or block device, which is only read.
    pub path: PathBuf,
    /// So many bytes from its beginning are read.
    pub range_bytes: u64,
    /// Files below it (of a loop device) whose cached pages are dropped too.
    pub below: Vec<PathBuf>,
    /// How it is read.
    pub io_mode: IoMode,
    /// Whether the kernel is told that reads are random (`POSIX_FADV_RANDOM`).
    pub advise_random: bool,
    /// What the page cache holds at the start.
    pub cache: Cache,
    /// Who reads.
    pub backend: Backend,
    /// The device's read-ahead, where it is known: with none, a buffered read asks for page after page.
    pub read_ahead_kib: Option<u64>,
    /// The reads.
    pub reads: Reads,
    /// Reads before the window, whose figures are not counted.
    pub warm_up: Limit,
    /// The measured window.
    pub measure: Limit,
    /// Distance of two samples.
    #[serde(rename = "sample_interval_ms", deserialize_with = "sample_interval")]
    pub sample_interval: Duration,
    /// Probes beyond those of every run.
    #[serde(default)]
    pub probes: Asked,
}
