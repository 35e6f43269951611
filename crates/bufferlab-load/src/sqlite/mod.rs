//! SQLite as a laboratory engine: direct page I/O, a real page pool, and one connection for all terminals.

pub mod direct_io;
pub mod page_io;
pub mod pcache;
pub mod pool;
pub mod vfs;
