//! PostgreSQL behind the trait [`Server`]: connects clients, fills the pool, and reads the counters for the warm-up's
//! gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use bufferlab_workload::client::{ClientError, Workload};
use bufferlab_workload::script::SetupStatement;

use super::client::{PostgresClient, TELL_SQL};
use super::control::Control;
use super::counters::DemandMisses;
use super::dialect::{DIALECT, literal};
use super::error::failure;
use super::interrupt::Interrupter;
use super::plan;
use super::startup::{connect, patient};
use super::wire::Silence;
use crate::failure::Failure;
use crate::gate::Window;
use crate::sampler::AtEdge;
use crate::server::Sending;
use crate::server::prefill::TableReads;
use crate::server::session::{Server, refused};
use crate::server::target::Target;

/// A running PostgreSQL server.
pub(super) struct PostgresServer {
    pub target: Target,
    pub sending: Sending,
    pub misses: DemandMisses,
    /// The connection that checks plans and executes scripts' setup sections.
    pub control: Control,
    pub interrupter: Arc<Interrupter>,
    pub own_commits: Arc<AtomicU64>,
}

impl AtEdge for PostgresServer {}

impl Server for PostgresServer {
    type Client = PostgresClient;
    type Target = Target;

    /// Time between two polls of the counters for the warm-up's gate. Connections flush their counters only every 200
    /// ms, so polling more often would find the same counts.
    const GATE_LOOK: Duration = Duration::from_millis(250);

    fn place(&self) -> String {
        self.target.place()
    }

    fn counted(&mut self) -> Result<Window, Failure> {
        self.misses.read().map(Window::of)
    }

    fn watch_closely(&mut self, client: &mut PostgresClient) {
        client.tell_counters_often();
    }

    fn settle(&mut self, client: &mut PostgresClient) -> Result<(), ClientError> {
        client.tell_counters()
    }

    fn set_up(&mut self, setup: &SetupStatement<'_>, place: &str) -> Result<(), Failure> {
        let sql = setup.sql.text(|index| literal(setup.values[index]));
        // Flush the counters at once, so that the window does not count the setup section.
        let done = self.control.try_execute(&sql).and_then(|()| self.control.try_execute(TELL_SQL));
        done.map_err(|error| refused(error, place))
    }

    fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync> {
        let interrupter = Arc::clone(&self.interrupter);
        Arc::new(move || interrupter.interrupt())
    }

    fn connect(&mut self, workloads: &mut [Box<dyn Workload>]) -> Result<Vec<PostgresClient>, Failure> {
        for workload in &mut *workloads {
            plan::check(&mut **workload, &mut self.control)?;
        }
        let connect = |workload: &mut Box<dyn Workload>| {
            // Most statements of bufferlab's own workloads take milliseconds; a user's statements have no limit.
            let is_patient = workload.has_long_statements() || workload.own_sql(DIALECT.place).is_some();
            let silence = if is_patient { patient(&self.target) } else { Silence::Fatal };
            let connection = connect(&self.target, silence)?;
            PostgresClient::of_workload(connection, &mut **workload, self.sending, Arc::clone(&self.own_commits))
        };
        let clients = workloads.iter_mut().map(connect).collect::<Result<Vec<_>, _>>()?;
        let handles = clients.iter().map(PostgresClient::handle).collect::<Result<Vec<_>, _>>();
        self.interrupter.set(handles.map_err(|error| failure("connecting", &self.target.place(), &error))?);
        Ok(clients)
    }

    fn prefill(&mut self, workload: &dyn Workload, cancelled: &AtomicBool) -> Result<bool, Failure> {
        let sections = DIALECT.prefill(workload);
        if sections.is_empty() {
            return Ok(true);
        }
        let mut control = Control::open(&self.target)?;
        let interrupter = Interrupter::new(&self.target);
        interrupter.set(vec![control.handle()?]);
        let reading = TableReads { sections: &sections, always: &|_| false };
        let filled =
            reading.run(&mut |action, sql| control.execute(action, sql), &|| interrupter.interrupt(), cancelled)?;
        if filled {
            // Flush the counts of the prefill's reads before the warm-up begins.
            control.execute("flushing counters", TELL_SQL)?;
        }
        Ok(filled)
    }
}
