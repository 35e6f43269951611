//! A user's own workload: a text of SQL statements, `\set` variables and weighted transactions, in the manner of
//! pgbench's scripts (PostgreSQL documentation, pgbench, "Custom Scripts"), and the [`Workload`](crate::client::Workload)
//! that plays it.
//!
//! The reader cuts SQL into statements, which stay text; the engine's dialect has the placeholder of a variable. This
//! module reads no file and no clock. docs/scripts.md is the user's description.

mod bundle;
mod error;
mod expression;
mod number;
mod parser;
mod sql;
mod workload;

pub use bundle::{BUNDLE, ScriptJob};
pub use error::ScriptError;
pub use number::Number;
pub use parser::{MAX_SCRIPT_BYTES, Script, Transaction};
pub use sql::Sql;
pub use workload::{ScriptWorkload, SetupStatement};

/// The workload's name.
const NAME: &str = "script";
