//! Block requests one by one: queued, split, merged, issued, completed, unplugged, each with device, sector and
//! process.
//!
//! The events are the kernel's own tracepoints. A private instance of tracefs records them
//! (Documentation/trace/ftrace.rst, events.rst). It has a separate buffer, is filtered in the kernel to one device, and
//! is switched on from one edge of the measured window to the other. A thread moves the buffer's pages unchanged to
//! files (the spool); Python decodes them with this crate after the run. The kernel counts the events for which its
//! buffer had no room. A trace with even one such event has failed. The cost is the thread's processor time, which the
//! trace keeps, and the tracepoints' own: `benches/block_trace_cost.py` measures it per request.
//!
//! The alternative, perf events of the same tracepoints (with the crate that page traces use), would need neither an
//! instance nor a reader of its pages. But each traced request would then cost the task that makes it 1.8 us instead of
//! 1.0 us, and a trace must not slow the measured reads. (Medians of 15 pairs of 30,000 reads of 4 KiB from a loop
//! device, in turn with untraced reads.)

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
