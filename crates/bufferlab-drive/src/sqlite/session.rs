//! SQLite behind the trait [`Server`]: a server of one connection, inside the thread that drives it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bufferlab_probe::Reading;
use bufferlab_workload::client::Workload;
use bufferlab_workload::script::SetupStatement;

use super::client::SqliteClient;
use super::dialect::DIALECT;
use super::engine::Engine;
use super::interrupt::Interruptible;
use super::knobs::Database;
use super::{plan, script};
use crate::failure::{DEVICE_ERROR_HINT, Failure};
use crate::gate::Window;
use crate::sampler::{AtEdge, Inside};
use crate::server::session::Server;

/// An open SQLite database as a session's server.
pub(super) struct SqliteServer<'a> {
    /// The guard that lets `cancelled` stop long statements of the workload. It ends before the engine.
    interruptible: Option<Interruptible<'a>>,
    engine: Engine,
    cancelled: &'a AtomicBool,
}

impl<'a> SqliteServer<'a> {
    pub fn new(engine: Engine, cancelled: &'a AtomicBool) -> Self {
        SqliteServer { interruptible: None, engine, cancelled }
    }

    /// Adds the operating system's message to a failure, if there is one that SQLite did not report.
    pub fn with_cause(&self, mut failure: Failure) -> Failure {
        if let Some(cause) = self.engine.take_io_error() {
            failure.what = format!("{} ({cause})", failure.what);
        }
        failure
    }

    /// Closes the database. SQLite then copies the WAL back into it.
    pub fn close(self) -> Result<(), Failure> {
        drop(self.interruptible);
        self.engine.close()
    }
}

impl Inside for Engine {
    fn counters(&mut self, out: &mut Vec<Reading>) {
        let no_subject = Arc::from("");
        for (metric, count) in self.counters() {
            out.push(Reading::counter("engine", metric, &no_subject, count as i64));
        }
        for (metric, value) in self.gauges() {
            out.push(Reading::gauge("engine", metric, &no_subject, value as f64));
        }
    }

    fn counted(&mut self) -> Window {
        Window { misses: self.demand_misses(), dropped: self.dropped_pages() }
    }
}

impl AtEdge for SqliteServer<'_> {
    fn inside(&mut self) -> Option<&mut dyn Inside> {
        Some(&mut self.engine)
    }
}

impl Server for SqliteServer<'_> {
    type Client = SqliteClient;
    type Target = Database;

    const LOST_HINT: &'static str = DEVICE_ERROR_HINT;

    fn place(&self) -> String {
        self.engine.path().display().to_string()
    }

    fn counted(&mut self) -> Result<Window, Failure> {
        Ok(self.engine.counted())
    }

    fn set_up(&mut self, setup: &SetupStatement<'_>, place: &str) -> Result<(), Failure> {
        // SAFETY: the engine is open, and this is its only thread.
        unsafe { script::set_up(self.engine.handle(), setup, place, self.cancelled) }.map(|_| ())
    }

    fn connect(&mut self, workloads: &mut [Box<dyn Workload>]) -> Result<Vec<SqliteClient>, Failure> {
        let connect = |workload: &mut Box<dyn Workload>| {
            plan::check(&mut **workload, &self.engine)?;
            // SAFETY: clients end with their drivers, before the run closes the engine.
            unsafe { SqliteClient::new(&self.engine, &DIALECT.statements(&mut **workload)?) }
        };
        workloads.iter_mut().map(connect).collect()
    }

    fn prefill(&mut self, workload: &dyn Workload, cancelled: &AtomicBool) -> Result<bool, Failure> {
        for (_, sql) in DIALECT.prefill(workload) {
            if !self.engine.execute_script_unless(cancelled, &sql)? {
                return Ok(false);
            }
        }
        if workload.has_long_statements() {
            // SAFETY: the guard ends before the engine. The guard of a setup section replaces this one only after the
            // window.
            self.interruptible = Some(unsafe { Interruptible::begin(self.engine.handle(), self.cancelled) });
        }
        Ok(true)
    }
}
