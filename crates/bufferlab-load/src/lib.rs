//! Clients, loaders and the driver: what turns a workload into requests on a real engine, and times it.

pub mod counter;
pub mod sqlite;
