//! Models of buffer managers, one file each. A model is a simulated pool of some size that gets recorded accesses.
//!
//! Pages are numbered from 0 without gaps, and the numbers index arrays: no model searches, hashes or allocates while
//! it runs.

mod highest;
mod innodb;
mod list;
mod lru;
mod opt;
mod postgres;
mod scans;
mod sqlite;

use serde_json::Value;

use crate::replay::{Make, Model, Replay, make_new, replay_new};

pub use innodb::{
    AgeCourse, FlushRate, Innodb, Innodb57, Innodb57Settings, Innodb1011, Innodb1011Settings, IoCapacity,
};
pub use lru::Lru;
pub use opt::Opt;
pub use postgres::{BackgroundWriterRules, CheckpointRules, LogRules, Postgres, PostgresSettings, WriteRules};
pub use scans::LargeTable;
pub use sqlite::Sqlite;

/// All models. Python finds each by its name in this list.
pub const MODELS: &[Entry] = &[
    Entry::of::<Lru>(),
    Entry::of::<Opt>(),
    Entry::of::<Sqlite>(),
    Entry::of::<Innodb57>(),
    Entry::of::<Innodb1011>(),
    Entry::of::<Postgres>(),
];

/// A model in the list: its name, its default settings, and a replay with it.
pub struct Entry {
    /// The model's name.
    pub name: &'static str,
    /// Returns the settings of the server that the model follows, with the server's defaults.
    pub defaults: fn() -> Value,
    /// Makes an empty pool.
    pub make: Make,
    /// Replays a trace with a new pool.
    pub replay: Replay,
}

impl Entry {
    const fn of<M: Model + Send + 'static>() -> Self {
        let defaults = || serde_json::json!(M::Settings::default());
        Entry { name: M::NAME, defaults, make: make_new::<M>, replay: replay_new::<M> }
    }
}
