//! The job of a run that reads a file, as types of Rust.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};
use crate::job::{Limit, sample_interval};
use crate::probes::Asked;

/// Smallest read, and the unit of every offset and size.
pub const SECTOR_BYTES: u64 = 512;
/// Largest read, in bytes.
pub const LARGEST_READ_BYTES: u64 = 1 << 20;
/// Most reads that a thread keeps in flight.
pub const DEEPEST_QUEUE: usize = 256;
/// Most threads that read.
pub const MOST_THREADS: usize = 64;

/// How bytes get from the file into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// Reads bypass the page cache (`O_DIRECT`).
    Direct,
    /// Reads go through the page cache.
    Buffered,
    /// Readers copy from a mapping of the page cache.
    Mmap,
}

/// The content of the page cache when the window begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// The page cache holds no page of the file.
    Cold,
    /// The page cache holds the pages of the file, as many as memory allows.
    Warm,
}

/// The interface over which readers ask the kernel to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// `io_uring` if this process may use it, else threads.
    Auto,
    /// `io_uring`; the run fails if this process may not use it.
    IoUring,
    /// Threads with `pread`, one for every read in flight.
    Threads,
}

/// The order of the reads' offsets in the file.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Random offsets, each with the same probability.
    Random,
    /// Each offset follows the one before. Every reader begins in a different part of the file.
    Sequential,
    /// Random offsets whose popularity follows Zipf's law with this exponent.
    Zipf(f64),
}

/// The settings of a run's reads.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reads {
    /// Bytes of each read.
    pub io_size_bytes: u64,
    /// Every offset is a multiple of this number of bytes.
    pub alignment_bytes: u64,
    /// The order of the reads' offsets.
    pub order: Order,
    /// Reads that each thread keeps in flight.
    pub queue_depth: usize,
    /// Number of threads that read.
    pub threads: usize,
    /// The seed from which the offsets of all readers are drawn.
    pub seed: u64,
}

impl Reads {
    /// Returns the number of reads that are in flight at the same time.
    pub fn in_flight(&self) -> usize {
        self.queue_depth * self.threads
    }

    /// Refuses settings with which no reader can read.
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

/// The job of a run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The file or block device. The run only reads it.
    pub path: PathBuf,
    /// The bytes from the file's beginning within which the run reads.
    pub range_bytes: u64,
    /// Files that hold the data of `path`, if that is a loop device. A cold run drops their cached pages, too.
    pub below: Vec<PathBuf>,
    /// How bytes get from the file into memory.
    pub io_mode: IoMode,
    /// Whether readers advise the kernel that reads are random (`POSIX_FADV_RANDOM`).
    pub advise_random: bool,
    /// The content of the page cache when the window begins.
    pub cache: Cache,
    /// The interface over which readers ask the kernel to read.
    pub backend: Backend,
    /// The device's read-ahead in KiB, if known. If it is zero, a buffered read requests its pages from the device one
    /// by one.
    pub read_ahead_kib: Option<u64>,
    /// The settings of the reads.
    pub reads: Reads,
    /// The limit of the warm-up: of the reads before the window, which no result counts.
    pub warm_up: Limit,
    /// The limit of the measured window.
    pub measure: Limit,
    /// Time between two samples.
    #[serde(rename = "sample_interval_ms", deserialize_with = "sample_interval")]
    pub sample_interval: Duration,
    /// Probes beyond those of every run.
    #[serde(default)]
    pub probes: Asked,
}
