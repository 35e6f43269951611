//! The plan by which an engine finds the rows of a query, where a workload forces one.

use serde::Deserialize;

/// A way to find the rows of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// Along the index on the ship date, fetching each row of the table when its entry comes up.
    IndexScan,
    /// The whole table in the order in which it is stored.
    Sequential,
    /// The index first, then the table's pages that hold matches, in the order in which they are stored.
    Bitmap,
}

impl Plan {
    /// Returns its name in settings and results.
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
    /// The parameters of the query, in their order: days since 1970.
    pub days: [i32; 2],
    /// The engine's explanation of the plan that it takes, after the check.
    pub told: String,
}
