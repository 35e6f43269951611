//! Random reads of a file or block device: no database, only what lies under one. Reads, and never writes.
//!
//! `run` is the whole of a run, `stretch` a part of it with its readers' threads, `uring` and `calls` are the ways to read.
//! What the offsets of a run must cost is told by `pages`, from the offsets themselves.

mod board;
mod calls;
pub mod fill;
pub mod job;
mod memory;
pub mod offsets;
mod opened_file;
pub mod pages;
mod reader;
pub mod run;
mod stretch;
mod uring;

pub use uring::is_available as io_uring_is_available;
