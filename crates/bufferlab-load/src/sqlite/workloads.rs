//! How each workload runs on SQLite: its statements, what fills the pool, and what it has to tell at the end.

use bufferlab_workload::client::Workload;
use bufferlab_workload::hot_rows::{self, HotRowsDriver};
use bufferlab_workload::index_scan::IndexScanDriver;
use bufferlab_workload::tpcc::TpccDriver;
use bufferlab_workload::tpcc::statements::STATEMENTS;

use super::engine::Engine;
use super::plan;
use crate::dialect::Statements;
use crate::failure::Failure;
pub use crate::findings::Findings;

/// A workload with its dialect for SQLite.
pub trait SqliteWorkload: Workload {
    /// The catalogue with SQLite's texts.
    ///
    /// # Errors
    /// When catalogue and dialect have drifted apart.
    fn statements(&self) -> Result<Statements, Failure>;

    /// Whether SQLite takes the plan that the workload wants; asked once, before anything is read. Most want none.
    ///
    /// # Errors
    /// When it takes another one.
    fn check_plan(&mut self, _engine: &Engine) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether one statement may take so long that stopping the run must not wait for its end.
    fn has_long_statements(&self) -> bool {
        false
    }

    /// Sections of SQL that fill the pool, executed one after another before [`Workload::prefill_step`].
    fn prefill_sql(&self) -> &'static str {
        ""
    }

    /// What it drew and did, over warm-up and window.
    fn findings(&self) -> Findings {
        Findings::None
    }
}

impl SqliteWorkload for TpccDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        let text = include_str!("../../dialects/sqlite/tpcc/statements.sql");
        Statements::from_file("dialects/sqlite/tpcc/statements.sql", text, STATEMENTS)
    }

    fn prefill_sql(&self) -> &'static str {
        include_str!("../../dialects/sqlite/tpcc/prefill.sql")
    }

    fn findings(&self) -> Findings {
        Findings::of_tpcc(self)
    }
}

impl SqliteWorkload for HotRowsDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        let text = include_str!("../../dialects/sqlite/hot_rows/statements.sql");
        Statements::from_file("dialects/sqlite/hot_rows/statements.sql", text, hot_rows::STATEMENTS)
    }

    fn findings(&self) -> Findings {
        Findings::HotRows { hot_rows: self.hot_set().len() }
    }
}

impl SqliteWorkload for IndexScanDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        plan::DIALECT.statements(self.plan_asked())
    }

    fn check_plan(&mut self, engine: &Engine) -> Result<(), Failure> {
        plan::check(self, engine)
    }

    fn has_long_statements(&self) -> bool {
        true
    }

    fn findings(&self) -> Findings {
        Findings::of_index_scan(self)
    }
}
