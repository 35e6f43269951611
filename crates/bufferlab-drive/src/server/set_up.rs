//! Executes the setup section of a script at a server, after the load of its tables.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};

use bufferlab_workload::script::Script;

use super::bulk::{ASK_AGAIN, stopped};
use crate::dialect::Dialect;
use crate::failure::{Failure, FailureKind};

/// A function that executes a statement, called as `execute(action, place, sql)`.
pub type Execute<'a> = dyn FnMut(&str, &str, &str) -> Result<(), Failure> + 'a;

/// Does work at a server, and returns its result. Once `cancelled` is set, another thread calls `interrupt` every 0.5 s
/// until the work has ended.
pub fn interruptible<T>(interrupt: &(dyn Fn() + Sync), cancelled: &AtomicBool, work: impl FnOnce() -> T) -> T {
    let (works, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(ASK_AGAIN) == Err(RecvTimeoutError::Timeout) {
                if cancelled.load(Ordering::Relaxed) {
                    interrupt();
                }
            }
        });
        let done = work();
        drop(works);
        done
    })
}

/// Executes a script's setup section, statement by statement, with its values as literals. `shell` is the name of the
/// server's own client, for hints.
///
/// # Errors
/// The server's error; an interruption when `cancelled` was set; when a variable of the script has no value.
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
            if cancelled.load(Ordering::Relaxed) {
                return stopped(&place);
            }
            if failed.kind == FailureKind::Data {
                failed.kind = FailureKind::Usage;
                failed.hint = format!("try it in {shell}");
            }
            failed
        })?;
    }
    // The end of the connection would roll back a transaction that the section left open, so commit it.
    execute("ending the setup section", script.source(), "COMMIT")
        .map_err(|failed| if cancelled.load(Ordering::Relaxed) { stopped(script.source()) } else { failed })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::postgres::DIALECT;

    /// Longest time that a test waits for another thread.
    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn work_is_interrupted_after_its_cancellation_and_not_before() {
        let (interrupt, interrupts) = channel();
        let cancelled = AtomicBool::new(false);
        let interrupt = || interrupt.send(()).expect("the test listens");
        let seen = interruptible(&interrupt, &cancelled, || {
            let before = interrupts.recv_timeout(ASK_AGAIN + ASK_AGAIN / 10).is_ok();
            cancelled.store(true, Ordering::Relaxed);
            (before, interrupts.recv_timeout(PATIENCE).is_ok())
        });
        assert_eq!(seen, (false, true));
    }

    #[test]
    fn work_that_goes_on_after_an_interruption_is_interrupted_again() {
        let (interrupt, interrupts) = channel();
        let interrupt = || interrupt.send(()).expect("the test listens");
        let seen = interruptible(&interrupt, &AtomicBool::new(true), || {
            [(); 2].map(|()| interrupts.recv_timeout(PATIENCE).is_ok())
        });
        assert_eq!(seen, [true; 2]);
    }

    #[test]
    fn work_that_has_ended_is_not_interrupted_and_its_result_returned() {
        let result = interruptible(&|| panic!("nothing is left to interrupt"), &AtomicBool::new(true), || 7);
        assert_eq!(result, 7);
    }

    /// Returns the failure of a setup section whose statement fails, after a cancellation if `is_cancelled`.
    fn failed(is_cancelled: bool) -> Failure {
        let script = Script::parse("my.sql", "-- setup\n\nSELECT 1;", &[]).expect("it is right");
        let cancelled = AtomicBool::new(false);
        let mut execute = |action: &str, place: &str, _: &str| -> Result<(), Failure> {
            cancelled.store(is_cancelled, Ordering::Relaxed);
            Err(Failure::new(FailureKind::Data, action, place, "look at it"))
        };
        set_up(&script, &DIALECT, "psql", &mut execute, &cancelled).expect_err("its statement failed")
    }

    #[test]
    fn a_statement_that_a_cancellation_ends_is_a_stopped_load_and_any_other_the_scripts_mistake() {
        assert_eq!(failed(true), stopped("my.sql:3"));
        let mistake = failed(false);
        assert_eq!((mistake.kind, mistake.hint.as_str()), (FailureKind::Usage, "try it in psql"));
    }
}
