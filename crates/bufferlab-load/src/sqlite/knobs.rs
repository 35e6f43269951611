//! The settings of a run on SQLite, typed; strings and percentages were resolved before they came here.

use bufferlab_model::PageSize;

/// Whether the database file bypasses the kernel's page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoChoice {
    /// O_DIRECT: the pool is the only cache of pages.
    Direct,
    /// Through the kernel's page cache, as an ordinary application runs.
    Buffered,
}

/// Which page cache SQLite uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pcache {
    /// bufferlab's pool in aligned frames.
    Ours,
    /// SQLite's own `pcache1`.
    Stock,
}

/// When SQLite calls sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synchronous {
    /// Never.
    Off,
    /// At checkpoints.
    Normal,
    /// At every commit.
    Full,
}

/// Whether the connection gives its file locks back between transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockingMode {
    /// Locks are taken and released by every transaction.
    Normal,
    /// Locks are kept until the connection closes.
    Exclusive,
}

/// All settings of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteKnobs {
    /// Page size of the loaded database.
    pub page_size: PageSize,
    /// Frames of the pool: pages only, without SQLite's bookkeeping beside them.
    pub pool_frames: u64,
    /// Direct or buffered.
    pub io_mode: IoChoice,
    /// Whose page cache.
    pub pcache: Pcache,
    /// When to sync.
    pub synchronous: Synchronous,
    /// The WAL is copied back into the database when it is longer than this.
    pub wal_autocheckpoint_bytes: u64,
    /// Locks between transactions.
    pub locking_mode: LockingMode,
}

macro_rules! named {
    ($type:ty { $($name:literal => $variant:path),+ $(,)? }) => {
        impl $type {
            /// The value of this name, as experiments spell it.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some($variant),)+ _ => None }
            }

            /// The name of this value.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $($variant => $name,)+ }
            }
        }
    };
}

named!(IoChoice { "direct" => IoChoice::Direct, "buffered" => IoChoice::Buffered });
named!(Pcache { "ours" => Pcache::Ours, "stock" => Pcache::Stock });
named!(Synchronous { "off" => Synchronous::Off, "normal" => Synchronous::Normal, "full" => Synchronous::Full });
named!(LockingMode { "normal" => LockingMode::Normal, "exclusive" => LockingMode::Exclusive });
