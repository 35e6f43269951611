//! Fills the pool by a workload's own SQL, on a separate connection, and stops when the user asks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::failure::Failure;

/// Time between two checks for a request to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A function that executes a statement, called as `execute(action, sql)`.
pub type Execute<'a> = dyn FnMut(&str, &str) -> Result<(), Failure> + Send + 'a;

/// Statements that read tables into a pool.
#[derive(Clone, Copy)]
pub struct TableReads<'a> {
    /// The statements' names and texts, in the order of execution.
    pub sections: &'a [(String, String)],
    /// Returns true for a statement that restores a setting, which is executed also after a failure or an interruption.
    pub always: &'a (dyn Fn(&str) -> bool + Sync),
}

impl TableReads<'_> {
    /// Executes the sections one after another. Returns false when `cancelled` was set before the end. Then it calls
    /// `interrupt` every 50 ms until the running statement has ended.
    ///
    /// # Errors
    /// The server's error.
    pub fn run(
        &self,
        execute: &mut Execute<'_>,
        interrupt: &dyn Fn(),
        cancelled: &AtomicBool,
    ) -> Result<bool, Failure> {
        let outcome = std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.execute_all(execute, cancelled));
            while !reader.is_finished() {
                std::thread::sleep(LOOK);
                if cancelled.load(Ordering::Relaxed) && !reader.is_finished() {
                    interrupt();
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

    fn execute_all(&self, execute: &mut Execute<'_>, cancelled: &AtomicBool) -> Result<(), Failure> {
        let mut outcome = Ok(());
        for (name, sql) in self.sections {
            let sql = sql.trim().trim_end_matches(';');
            if (outcome.is_err() || cancelled.load(Ordering::Relaxed)) && !(self.always)(sql) {
                continue;
            }
            let executed = execute(&format!("reading {name} into the pool"), sql);
            outcome = outcome.and(executed);
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::sections;
    use crate::failure::FailureKind;

    const SQL: &str = "-- name: setting\nSET GLOBAL a = 1;\n-- name: rows\nSELECT 1;\n-- name: more\nSELECT 2;\n-- name: back\nSET GLOBAL a = 0;\n";

    fn run(execute: &mut Execute<'_>, interrupt: &dyn Fn(), cancelled: &AtomicBool) -> Result<bool, Failure> {
        let reading = TableReads { sections: &sections(SQL), always: &|sql| sql.starts_with("SET GLOBAL") };
        reading.run(execute, interrupt, cancelled)
    }

    #[test]
    fn a_reading_that_fails_still_puts_settings_back() {
        let mut executed = Vec::new();
        let mut execute = |_: &str, sql: &str| {
            executed.push(sql.to_owned());
            let failed = || Failure::new(FailureKind::Io, "no answer", "here", "wait");
            if sql == "SELECT 1" { Err(failed()) } else { Ok(()) }
        };
        run(&mut execute, &|| {}, &AtomicBool::new(false)).expect_err("one statement failed");
        assert_eq!(executed, ["SET GLOBAL a = 1", "SELECT 1", "SET GLOBAL a = 0"]);
    }

    #[test]
    fn a_cancelled_reading_is_interrupted_and_no_failure() {
        let (cancelled, interrupted) = (AtomicBool::new(false), AtomicBool::new(false));
        let mut execute = |_: &str, sql: &str| {
            if sql == "SELECT 1" {
                cancelled.store(true, Ordering::Relaxed);
                while !interrupted.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                return Err(Failure::new(FailureKind::Io, "interrupted", "here", ""));
            }
            Ok(())
        };
        let outcome = run(&mut execute, &|| interrupted.store(true, Ordering::Relaxed), &cancelled);
        assert_eq!(outcome, Ok(false));
    }
}
