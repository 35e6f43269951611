//! The database of a run on SQLite, and the run's settings with their types. Python has already converted texts and
//! percentages to numbers.

use std::path::PathBuf;

use bufferlab_model::PageSize;
use serde::{Deserialize, Deserializer, Serialize, de};

/// Whether the database file bypasses the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IoChoice {
    /// O_DIRECT: the pool is the only cache of pages.
    Direct,
    /// Reads and writes go through the kernel's page cache, as in an ordinary application.
    Buffered,
}

/// Which page cache SQLite uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pcache {
    /// bufferlab's pool in aligned frames.
    Ours,
    /// SQLite's own `pcache1`.
    Stock,
}

/// The moments at which SQLite calls sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Synchronous {
    /// SQLite never calls sync.
    Off,
    /// SQLite calls sync at checkpoints.
    Normal,
    /// SQLite calls sync at every commit.
    Full,
}

/// Whether the connection releases its file locks between transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LockingMode {
    /// Every transaction takes and releases locks.
    Normal,
    /// The connection keeps locks until it closes.
    Exclusive,
}

/// A loaded database that a run may change, and the settings with which the run opens it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// The database's file.
    pub path: PathBuf,
    /// The settings of the run.
    pub knobs: SqliteKnobs,
}

/// All settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqliteKnobs {
    /// Page size of the loaded database.
    #[serde(rename = "page_size_bytes", deserialize_with = "page_size")]
    pub page_size: PageSize,
    /// Size of the pool: pages only, without SQLite's bookkeeping.
    pub pool_size_bytes: u64,
    /// Whether the database file bypasses the kernel's page cache.
    pub io_mode: IoChoice,
    /// The page cache that SQLite uses.
    pub pcache: Pcache,
    /// The moments at which SQLite calls sync.
    pub synchronous: Synchronous,
    /// SQLite copies the WAL back into the database when the WAL has more bytes than this.
    pub wal_autocheckpoint_bytes: u64,
    /// Whether the connection releases its file locks between transactions.
    pub locking_mode: LockingMode,
}

impl SqliteKnobs {
    /// Returns the number of frames of the pool.
    #[must_use]
    pub fn pool_frames(&self) -> u64 {
        self.page_size.frames_in(self.pool_size_bytes)
    }
}

pub(crate) fn page_size<'de, D: Deserializer<'de>>(json: D) -> Result<PageSize, D::Error> {
    let bytes = u64::deserialize(json)?;
    let refused = || format!("{bytes} bytes: a page size is a power of two from 512 to 65,536 bytes");
    PageSize::new(bytes).ok_or_else(|| de::Error::custom(refused()))
}
