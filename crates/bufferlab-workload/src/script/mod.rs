//! A user's own workload: a script of SQL statements, `\set` variables and weighted transactions, and the
//! [`Workload`](crate::client::Workload) that executes it. Scripts resemble those of pgbench (PostgreSQL documentation,
//! pgbench, "Custom Scripts").
//!
//! The reader divides SQL into statements, and does not parse them further. The engine's dialect defines the
//! placeholder of a variable. This module reads no file and no clock. docs/scripts.md describes scripts for users.

mod bundle;
mod error;
mod expression;
mod number;
mod parser;
mod sql;
mod updates;
mod workload;

pub use bundle::{BUNDLE, ScriptJob};
pub use error::ScriptError;
pub use number::Number;
pub use parser::{MAX_SCRIPT_BYTES, Script, Transaction};
pub use sql::Sql;
pub use workload::{ScriptWorkload, SetupStatement};

/// The workload's name.
const NAME: &str = "script";
