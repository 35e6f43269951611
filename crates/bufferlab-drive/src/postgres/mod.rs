//! PostgreSQL: the wire protocol, the client over prepared statements, counters by version, and the loader by COPY.

pub mod client;
pub mod connection;
pub mod control;
pub mod counters;
mod dialect;
pub mod error;
pub mod interrupt;
pub mod loader;
pub mod message;
mod plan;
pub mod python_session;
pub mod run;
mod session;
pub mod startup;
mod statement;
pub mod value;
pub mod wire;

pub use dialect::DIALECT;
pub use plan::session_sql;
