//! Models of buffer managers, one file each: what a pool of some size does with recorded accesses.
//!
//! Pages are dense numbers, which index arrays: no model searches, hashes or allocates while it runs.

mod list;
mod lru;
mod sqlite;

pub use lru::Lru;
pub use sqlite::Sqlite;
