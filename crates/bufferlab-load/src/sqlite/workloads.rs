//! How each workload runs on SQLite: its statements, what fills the pool, and what it has to tell at the end.

use bufferlab_workload::client::Workload;
use bufferlab_workload::hot_rows::{self, HotRowsDriver};
use bufferlab_workload::tpcc::random::NuRandConstants;
use bufferlab_workload::tpcc::statements::STATEMENTS;
use bufferlab_workload::tpcc::{InputCounts, TpccDriver};

use crate::dialect::Statements;
use crate::failure::Failure;

/// A workload with its dialect for SQLite.
pub trait SqliteWorkload: Workload {
    /// The catalogue with SQLite's texts.
    ///
    /// # Errors
    /// When catalogue and dialect have drifted apart.
    fn statements(&self) -> Result<Statements, Failure>;

    /// Sections of SQL that fill the pool, executed one after another before [`Workload::prefill_step`].
    fn prefill_sql(&self) -> &'static str {
        ""
    }

    /// What it drew and did, over warm-up and window.
    fn findings(&self) -> Findings {
        Findings::None
    }
}

/// What a workload tells of itself beside counts and latencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Findings {
    /// Nothing.
    None,
    /// TPC-C's draws and deliveries.
    Tpcc {
        /// The constants of NURand, drawn from the seeds (2.1.6.1).
        constants: NuRandConstants,
        /// How often each choice fell.
        inputs: InputCounts,
        /// Orders delivered since the load: (warehouse, district, orders), for consistency condition 11.
        delivered_orders: Vec<(u32, u32, u64)>,
    },
    /// The hot rows that were chosen.
    HotRows {
        /// How many.
        hot_rows: u32,
    },
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
        let by_district = self.delivered_orders().iter().zip(0u32..);
        Findings::Tpcc {
            constants: *self.constants(),
            inputs: *self.input_counts(),
            delivered_orders: by_district.map(|(&orders, at)| (at / 10 + 1, at % 10 + 1, orders)).collect(),
        }
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
