//! Models of buffer managers, one file each: each plays recorded accesses to a pool of some size.
//!
//! Pages are dense numbers, which index arrays: no model searches, hashes or allocates while it runs.

mod highest;
mod innodb;
mod list;
mod lru;
mod opt;
mod postgres;
mod scans;
mod sqlite;

pub use innodb::{Innodb, Innodb57, Innodb57Settings, Innodb1011, Innodb1011Settings};
pub use lru::Lru;
pub use opt::Opt;
pub use postgres::{Postgres, PostgresSettings};
pub use scans::LargeTable;
pub use sqlite::Sqlite;
