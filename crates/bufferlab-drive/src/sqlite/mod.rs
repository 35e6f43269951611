//! SQLite as an engine for measurements: direct I/O of pages, bufferlab's own page pool, and one connection for all
//! terminals.

pub mod aligned_file;
pub mod client;
mod dialect;
pub mod direct_io;
pub mod engine;
pub mod frames;
pub mod interrupt;
pub mod knobs;
pub mod loader;
pub mod page_trace;
pub mod pcache;
mod plan;
pub mod pool;
pub mod run;
pub mod script;
mod session;
pub mod shape;
pub mod statement;
pub mod vfs;

pub use dialect::DIALECT;
