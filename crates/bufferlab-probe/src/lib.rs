//! The probes of a run: of the block device, the processors, memory and this process. They emit only raw cumulative
//! counters and gauges; results make differences, rates and averages later from the stored samples. Follows the
//! kernel's own documents: proc(5), Documentation/admin-guide/iostats.rst, cgroup-v2.rst.
//!
//! ```
//! use bufferlab_probe::{DeviceProbe, Probe};
//!
//! let mut readings = Vec::new();
//! DeviceProbe::for_path(".".as_ref()).sample(&mut readings);
//! for reading in &readings {
//!     // A value, or the reason why there is none.
//!     assert!(reading.count.is_some() || reading.value.is_some() || reading.reason.is_some());
//! }
//! ```

pub mod block_trace;
mod cgroup;
pub mod clock;
mod cpu;
pub mod device;
pub mod host;
mod memory;
pub mod page_trace;
pub mod parse;
mod proc_file;
mod process;
mod pulse;
mod reading;
mod sched;
mod server;
pub mod tracefs;

pub use device::DeviceProbe;
pub use process::{DriverThread, ProcessProbe};
pub use reading::{Probe, Reading, Table};
pub use sched::SchedProbe;
pub use server::ServerProbe;

/// Returns the probes of the whole host, and the probe of this process's pulse. They need no parameters of a run.
pub fn of_host() -> Vec<Box<dyn Probe>> {
    vec![Box::new(cpu::CpuProbe::new()), Box::new(memory::MemoryProbe::new()), Box::new(pulse::PulseProbe::new())]
}
