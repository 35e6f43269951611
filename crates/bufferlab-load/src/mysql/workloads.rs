//! How each workload runs on MySQL and MariaDB: its statements one by one and coalesced, and what fills the pool.

use bufferlab_workload::client::Workload;
use bufferlab_workload::hot_rows::{self, HotRowsDriver};
use bufferlab_workload::index_scan::IndexScanDriver;
use bufferlab_workload::script::ScriptWorkload;
use bufferlab_workload::tpcc::TpccDriver;
use bufferlab_workload::tpcc::statements::STATEMENTS;

use super::coalesce::Coalesced;
use super::control::Control;
use super::plan;
use crate::dialect::{RowUse, Statements};
use crate::failure::Failure;

/// A workload with its dialect for MySQL and MariaDB.
pub trait MysqlWorkload: Workload {
    /// The catalogue with its texts.
    ///
    /// # Errors
    /// When catalogue and dialect have drifted apart.
    fn statements(&self) -> Result<Statements, Failure>;

    /// What the list `batched` sends as one.
    ///
    /// # Errors
    /// As [`MysqlWorkload::statements`].
    fn coalesced(&self) -> Result<Coalesced, Failure> {
        Ok(Coalesced::default())
    }

    /// Whether the server takes the plan that the workload wants; asked once, before anything is read. Most want none.
    ///
    /// # Errors
    /// When it takes another one.
    fn check_plan(&mut self, _control: &mut Control) -> Result<(), Failure> {
        Ok(())
    }

    /// Sections of SQL that fill the pool, executed one after another on one connection before
    /// [`Workload::prefill_step`].
    fn prefill_sql(&self) -> &'static str {
        ""
    }
}

impl MysqlWorkload for TpccDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        let text = include_str!("../../dialects/mysql/tpcc/statements.sql");
        Statements::from_file("dialects/mysql/tpcc/statements.sql", text, STATEMENTS)
    }

    fn coalesced(&self) -> Result<Coalesced, Failure> {
        let text = include_str!("../../dialects/mysql/tpcc/batched.sql");
        Coalesced::from_file("dialects/mysql/tpcc/batched.sql", text, STATEMENTS)
    }

    fn prefill_sql(&self) -> &'static str {
        include_str!("../../dialects/mysql/tpcc/prefill.sql")
    }
}

impl MysqlWorkload for HotRowsDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        let text = include_str!("../../dialects/mysql/hot_rows/statements.sql");
        Statements::from_file("dialects/mysql/hot_rows/statements.sql", text, hot_rows::STATEMENTS)
    }
}

impl MysqlWorkload for IndexScanDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        plan::DIALECT.statements(self.plan_asked())
    }

    fn check_plan(&mut self, control: &mut Control) -> Result<(), Failure> {
        plan::check(self, control)
    }
}

impl MysqlWorkload for ScriptWorkload {
    fn statements(&self) -> Result<Statements, Failure> {
        let catalogue = self.script().catalogue();
        let (specs, texts) = catalogue.into_iter().map(|(spec, sql)| (spec, sql.text(|_| "?".to_owned()))).unzip();
        Ok(Statements { place: self.script().source().to_owned(), specs, texts, rows: RowUse::Counted })
    }
}
