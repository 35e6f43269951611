//! Traces the page accesses of a pool one by one (get, create, read, evict and others), each with its page, thread and
//! time.
//!
//! A recorder pushes accesses into a [`Spool`], in memory. After the run they become a file of records of one size,
//! which Python turns into page-trace.parquet. If a spool cannot be written, the run continues, and the trace reports
//! the problem at its end. bufferlab's own pool records its accesses itself. A server that bufferlab starts is recorded
//! at known places in its binary, by code of bufferlab in its process ([`inside`]). A server that runs already is
//! recorded only by the kernel, without code in its process ([`LiveTrace`]).

mod binary;
mod bpf;
mod calls;
mod carried;
mod decode;
mod fetch;
mod frames;
pub mod inside;
mod live;
mod mixed;
mod packed;
pub mod propose;
mod recording;
mod sites;
#[cfg(all(test, target_arch = "x86_64"))]
mod test_program;

pub use binary::{Segment, executable_segments, segments};
pub use calls::check as check_calls;
pub use frames::Buffers;
pub use live::{LiveSettings, LiveTrace, What};

pub use recording::{
    NAME, PageTraceAsked, Settings, Site, Spool, SpoolAsked, Spooled, Told, WindowProbe, window_without,
};
pub use sites::check as check_live;
