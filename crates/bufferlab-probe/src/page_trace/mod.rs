//! Page accesses of a pool one by one: got, created, read, evicted, each with its page, thread and moment.
//!
//! Whoever sees the accesses pushes them into a [`Spool`], a file of records of one size; Python turns it into
//! page-trace.parquet after the run. A spool that cannot be written says so at its end and never stops a run.

mod record;
mod spool;

pub use record::{Access, Kind, RECORD_BYTES};
pub use spool::{Spool, Spooled};
