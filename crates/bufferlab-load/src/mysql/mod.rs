//! MySQL and MariaDB: the client over prepared statements, its statement lists, and the bulk loader.

pub mod client;
pub mod coalesce;
pub mod connection;
pub mod datetime;
pub mod error;
pub mod target;
pub mod workloads;
