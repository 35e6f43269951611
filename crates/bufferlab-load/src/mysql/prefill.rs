//! Fills the pool by a workload's own SQL, on a connection of its own, and stops when asked to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::connection::no_socket;
use super::control::{Control, Killer};
use super::line::Lines;
use super::target::Target;
use crate::dialect;
use crate::failure::Failure;

/// How a statement begins that changes a setting of the whole server.
const SETTING: &str = "SET GLOBAL";
/// How often a request to stop is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Executes the sections one after another; false when `cancelled` was set meanwhile.
///
/// # Errors
/// The server's.
pub(super) fn run(
    target: &Target,
    sql: &str,
    may_change_settings: bool,
    lines: &Lines,
    cancelled: &AtomicBool,
) -> Result<bool, Failure> {
    let mut sections = dialect::sections(sql);
    sections.retain(|(_, sql)| may_change_settings || !sql.trim_start().starts_with(SETTING));
    if sections.is_empty() {
        return Ok(true);
    }
    let mut control = Control::open(target)?;
    lines.hold(control.line()).map_err(|error| no_socket(&error, &target.place()))?;
    control.be_patient()?;
    let killer = Killer::new(target);
    killer.set(vec![control.id()]);
    let outcome = std::thread::scope(|scope| {
        let reader = scope.spawn(|| execute(&mut control, &sections, cancelled));
        while !reader.is_finished() {
            std::thread::sleep(LOOK);
            if cancelled.load(Ordering::Relaxed) && !reader.is_finished() {
                killer.kill();
            }
        }
        reader.join()
    });
    match outcome {
        Ok(executed) if cancelled.load(Ordering::Relaxed) => executed.map(|()| false).or(Ok(false)),
        Ok(executed) => executed.map(|()| true),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn execute(control: &mut Control, sections: &[(String, String)], cancelled: &AtomicBool) -> Result<(), Failure> {
    let mut outcome = Ok(());
    for (name, sql) in sections {
        let sql = sql.trim().trim_end_matches(';');
        // Settings that were changed for the reading are put back also when it was broken off.
        if (outcome.is_err() || cancelled.load(Ordering::Relaxed)) && !sql.starts_with(SETTING) {
            continue;
        }
        let executed = control.execute(&format!("reading {name} into the pool"), sql);
        outcome = outcome.and(executed);
    }
    outcome
}
