//! MySQL and MariaDB: the wire protocol, the client over prepared statements, counters, sessions for questions, and the
//! loader.

pub mod client;
pub mod coalesce;
pub mod conn;
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
pub mod questions;
pub mod run;
mod session;
mod stream;
pub mod version;
mod wire;

pub use dialect::DIALECT;
