//! Page accesses of a pool one by one: got, created, read, evicted, each with its page, thread and moment.
//!
//! A recorder pushes accesses into a [`Spool`], a file of records of one size; Python turns it into page-trace.parquet
//! after the run. A spool that cannot be written says so at its end and never stops a run. Our own pool records its
//! accesses itself; in a server's binary the kernel stops at known places ([`PageTracer`]).

mod binary;
mod decode;
mod definition;
mod family;
mod merge;
mod recording;
mod tracer;

pub use binary::executable_segments;
pub use definition::{check, remove_stale};
pub use recording::{NAME, PageTraceAsked, Spool, Spooled, WindowProbe, window_without};
pub use tracer::{PageTracer, Settings, Site, Told};
