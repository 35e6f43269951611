//! The progress and the result of a load, for all engines.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The result of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// Number of rows of all tables together.
    pub rows: u64,
    /// Seconds of the whole load, with indexes and the final sync.
    pub seconds: f64,
    /// Bytes of the loaded database: of its file, or of its tables and indexes as the server reports them.
    pub bytes: u64,
    /// Name and number of rows of each table.
    #[serde(serialize_with = "by_name")]
    pub tables: Vec<(String, u64)>,
}

fn by_name<S: Serializer>(tables: &[(String, u64)], to: S) -> Result<S::Ok, S::Error> {
    tables.iter().cloned().collect::<BTreeMap<_, _>>().serialize(to)
}

/// The progress of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// Number of rows written so far, of all tables together; bytes if the load fills a file.
    pub rows: u64,
    /// Number of rows that the whole load is expected to write; bytes if it fills a file.
    pub total: u64,
}
