//! Random reads of a file or block device, without a database. This module reads and never writes.
//!
//! `run` does a whole run, and `segment` does a part of it with the readers' threads. `uring` and `calls` are two ways
//! to read. `pages` computes the expected cost of a run from its offsets.

mod calls;
pub mod fill;
pub mod job;
mod memory;
pub mod offsets;
mod opened_file;
pub mod pages;
mod reader;
pub mod run;
mod scoreboard;
mod segment;
mod uring;

pub use uring::is_available as io_uring_is_available;
