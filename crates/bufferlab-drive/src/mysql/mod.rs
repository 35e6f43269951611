//! MySQL and MariaDB: the wire protocol, the client over prepared statements, counters, Python's control sessions, and
//! the loader.

pub mod client;
pub mod coalesce;
pub mod connection;
pub mod control;
pub mod counters;
mod dialect;
pub mod error;
pub mod line;
pub mod loader;
mod login;
mod plan;
mod program;
pub mod python_session;
pub mod run;
mod session;
mod storage_engine;
pub mod version;
mod wire;

pub use dialect::DIALECT;
