//! What the workloads do, over the [`client`] trait: no sockets, no SQL text, no clocks.

pub mod client;
