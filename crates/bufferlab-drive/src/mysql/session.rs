//! MySQL and MariaDB behind the trait [`Server`]: connects clients, fills the pool, and reads the counters for the
//! warm-up's gate.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bufferlab_workload::client::Workload;
use bufferlab_workload::script::SetupStatement;

use super::client::MysqlClient;
use super::connection::{connect, no_socket};
use super::control::{Control, Killer};
use super::counters::DemandMisses;
use super::dialect::DIALECT;
use super::line::Lines;
use super::plan;
use crate::failure::Failure;
use crate::gate::Window;
use crate::sampler::AtEdge;
use crate::server::Sending;
use crate::server::prefill::TableReads;
use crate::server::session::{Server, refused};
use crate::server::target::Target;

/// The beginning of a statement that changes a setting of the whole server.
const SETTING: &str = "SET GLOBAL";

/// A running MySQL or MariaDB server.
pub(super) struct MysqlServer {
    pub target: Target,
    pub sending: Sending,
    pub misses: DemandMisses,
    pub killer: Arc<Killer>,
    pub lines: Arc<Lines>,
    /// Whether the run may change settings of the server; see [`crate::server::job::Run`].
    pub may_change_settings: bool,
}

impl AtEdge for MysqlServer {
    fn status_text(&mut self) -> Result<Option<String>, Failure> {
        self.misses.control().innodb_status()
    }
}

impl Server for MysqlServer {
    type Client = MysqlClient;
    type Target = Target;

    /// Time between two polls of the counters for the warm-up's gate. Each poll is a query for which the server needs a
    /// few hundred microseconds.
    const GATE_LOOK: Duration = Duration::from_millis(60);

    fn place(&self) -> String {
        self.target.place()
    }

    fn counted(&mut self) -> Result<Window, Failure> {
        self.misses.read().map(Window::of)
    }

    fn set_up(&mut self, setup: &SetupStatement<'_>, place: &str) -> Result<(), Failure> {
        let control = self.misses.control();
        control.execute_with(&setup.sql.text(|_| "?".to_owned()), &setup.values).map_err(|error| refused(error, place))
    }

    fn interrupter(&self) -> Arc<dyn Fn() + Send + Sync> {
        let killer = Arc::clone(&self.killer);
        Arc::new(move || killer.kill())
    }

    fn connect(&mut self, workloads: &mut [Box<dyn Workload>]) -> Result<Vec<MysqlClient>, Failure> {
        let mut clients = Vec::with_capacity(workloads.len());
        for workload in workloads {
            plan::check(&mut **workload, self.misses.control())?;
            let conn = connect(&self.target)?;
            self.lines.hold_of(&conn).map_err(|error| no_socket(&error, &self.target.place()))?;
            clients.push(MysqlClient::of_workload(conn, &mut **workload, self.sending)?);
        }
        self.killer.set(clients.iter().map(MysqlClient::connection_id).collect());
        Ok(clients)
    }

    fn prefill(&mut self, workload: &dyn Workload, cancelled: &AtomicBool) -> Result<bool, Failure> {
        let mut sections = DIALECT.prefill(workload);
        sections.retain(|(_, sql)| self.may_change_settings || !sql.trim_start().starts_with(SETTING));
        if sections.is_empty() {
            return Ok(true);
        }
        let mut control = Control::open_among(&self.target, &self.lines)?;
        control.be_patient()?;
        let killer = Killer::new(&self.target);
        killer.set(vec![control.id()]);
        // Restore changed settings also after an interruption.
        let is_setting = |sql: &str| sql.starts_with(SETTING);
        let reading = TableReads { sections: &sections, always: &is_setting };
        reading.run(&mut |action, sql| control.execute(action, sql), &|| killer.kill(), cancelled)
    }
}
