//! The progress and the result of a load, for all engines.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

/// The result of a load.
#[derive(Clone, Debug, Serialize)]
pub struct Loaded {
    /// Rows of all tables.
    pub rows: u64,
    /// Duration of the whole load, indexes and the final sync included.
    pub seconds: f64,
    /// Size of the file.
    pub bytes: u64,
    /// Rows of each table.
    #[serde(serialize_with = "by_name")]
    pub tables: Vec<(String, u64)>,
}

fn by_name<S: Serializer>(tables: &[(String, u64)], to: S) -> Result<S::Ok, S::Error> {
    tables.iter().cloned().collect::<BTreeMap<_, _>>().serialize(to)
}

/// The progress of a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// Rows written.
    pub rows: u64,
    /// Rows expected.
    pub total: u64,
}
