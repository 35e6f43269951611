//! The plan by which an engine finds the rows of a query, for a workload that forces one.

use serde::Deserialize;

/// A plan to find the rows of Q1's range of ship dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// The engine reads the index on the ship date, and fetches each row of the table when it reads the row's entry.
    IndexScan,
    /// The engine reads the whole table in the order in which it is stored.
    Sequential,
    /// The engine first reads the index, then the table's pages with matching rows, in the order in which they are
    /// stored.
    Bitmap,
}

impl Plan {
    /// Returns the plan's name in settings and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Plan::IndexScan => "index_scan",
            Plan::Sequential => "sequential",
            Plan::Bitmap => "bitmap",
        }
    }
}

/// A query with a forced plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedPlan {
    /// The plan asked for.
    pub asked: Plan,
    /// The parameters of the query, in order, in days since 1970.
    pub days: [i32; 2],
    /// The engine's explanation (EXPLAIN) of the plan that it takes; empty before the check of the plan.
    pub told: String,
}
