//! Executes the setup section of a script at a server, after the load of its tables.

use std::sync::atomic::{AtomicBool, Ordering};

use bufferlab_workload::script::Script;

use super::bulk::stopped;
use crate::dialect::Dialect;
use crate::failure::{Failure, FailureKind};

/// Executes a statement, as `execute(action, place, sql)`.
pub type Execute<'a> = dyn FnMut(&str, &str, &str) -> Result<(), Failure> + 'a;

/// Executes a script's setup section, statement by statement, with its values as literals; `shell` names the server's
/// own client.
///
/// # Errors
/// The server's, or an interruption when `cancelled` was set.
pub fn set_up(
    script: &Script,
    dialect: &Dialect,
    shell: &str,
    execute: &mut Execute<'_>,
    cancelled: &AtomicBool,
) -> Result<(), Failure> {
    for setup in script.setup()? {
        let place = format!("{}:{}", script.source(), setup.sql.line);
        if cancelled.load(Ordering::Relaxed) {
            return Err(stopped(&place));
        }
        let sql = setup.sql.text(|index| (dialect.literal)(setup.values[index]));
        execute("this statement of the setup section failed", &place, &sql).map_err(|mut failed| {
            if failed.kind == FailureKind::Data {
                failed.kind = FailureKind::Usage;
                failed.hint = format!("try it in {shell}");
            }
            failed
        })?;
    }
    // A transaction left open would be lost with its connection: ending it here keeps its changes.
    execute("ending the setup section", script.source(), "COMMIT")
}
