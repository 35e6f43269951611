//! Block requests one by one: queued, split, merged, issued, completed, unplugged, each with device, sector and process.
//!
//! The events are the kernel's own tracepoints, recorded by a private instance of tracefs (Documentation/trace/ftrace.rst,
//! events.rst): a buffer of our own, filtered in the kernel to one device, on from one edge of the measured window to the
//! other. A thread moves the buffer's pages as they are to files (the spool); they are decoded after the run. An event
//! that the kernel had no room for is counted, and makes the trace a failed one. The cost is the thread's processor time,
//! which is kept with the trace, and the tracepoints' own: `benches` of the trace tell it per request.

mod decode;
mod event;
mod instance;
mod page;
mod spool;
mod summary;
mod tracer;

pub use decode::{Decoded, decode};
pub use event::{Event, RECORD_BYTES};
pub use instance::remove_stale;
pub use summary::{Lost, Summary};
pub use tracer::{BlockTracer, Settings, check};
