//! How each workload runs on PostgreSQL: its statements, its sessions' settings, and what fills the pool.

use bufferlab_workload::client::Workload;
use bufferlab_workload::hot_rows::{self, HotRowsDriver};
use bufferlab_workload::index_scan::IndexScanDriver;
use bufferlab_workload::script::ScriptWorkload;
use bufferlab_workload::tpcc::TpccDriver;
use bufferlab_workload::tpcc::statements::STATEMENTS;

use super::control::Control;
use super::plan;
use crate::dialect::{RowUse, Statements};
use crate::failure::Failure;

/// Our own statements name rows by their keys, and every one has an index that leads to them. Statistics that are a little old
/// would let the planner walk a small table instead, and change its mind in the middle of a window: so each statement is
/// planned once, through its index, and the one join is a loop of look-ups.
const BY_INDEX: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_bitmapscan = off; \
    SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off";

/// A workload with its dialect for PostgreSQL.
pub trait PostgresWorkload: Workload {
    /// The catalogue with its texts.
    ///
    /// # Errors
    /// When catalogue and dialect have drifted apart.
    fn statements(&self) -> Result<Statements, Failure>;

    /// Settings of the sessions that execute them.
    fn session_sql(&self) -> &'static str {
        ""
    }

    /// Whether the server takes the plan that the workload wants; asked once, before anything is read. Most want none.
    ///
    /// # Errors
    /// When it takes another one.
    fn check_plan(&mut self, _control: &mut Control) -> Result<(), Failure> {
        Ok(())
    }

    /// Whether one statement may take so long that a silent server need not be a dead one.
    fn has_long_statements(&self) -> bool {
        false
    }

    /// Sections of SQL that fill the pool, executed one after another on one connection before
    /// [`Workload::prefill_step`].
    fn prefill_sql(&self) -> &'static str {
        ""
    }
}

impl PostgresWorkload for TpccDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        let text = include_str!("../../dialects/postgres/tpcc/statements.sql");
        Statements::from_file("dialects/postgres/tpcc/statements.sql", text, STATEMENTS)
    }

    fn session_sql(&self) -> &'static str {
        BY_INDEX
    }

    fn prefill_sql(&self) -> &'static str {
        include_str!("../../dialects/postgres/tpcc/prefill.sql")
    }
}

impl PostgresWorkload for HotRowsDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        let text = include_str!("../../dialects/postgres/hot_rows/statements.sql");
        Statements::from_file("dialects/postgres/hot_rows/statements.sql", text, hot_rows::STATEMENTS)
    }

    fn session_sql(&self) -> &'static str {
        BY_INDEX
    }
}

impl PostgresWorkload for IndexScanDriver {
    fn statements(&self) -> Result<Statements, Failure> {
        plan::DIALECT.statements(self.plan_asked())
    }

    fn session_sql(&self) -> &'static str {
        plan::session_sql(self.plan_asked())
    }

    fn check_plan(&mut self, control: &mut Control) -> Result<(), Failure> {
        plan::check(self, control)
    }

    fn has_long_statements(&self) -> bool {
        true
    }
}

impl PostgresWorkload for ScriptWorkload {
    fn has_long_statements(&self) -> bool {
        true
    }

    fn statements(&self) -> Result<Statements, Failure> {
        let catalogue = self.script().catalogue();
        let numbered = |index: usize| format!("${}", index + 1);
        let (specs, texts) = catalogue.into_iter().map(|(spec, sql)| (spec, sql.text(numbered))).unzip();
        Ok(Statements { place: self.script().source().to_owned(), specs, texts, rows: RowUse::Counted })
    }
}
