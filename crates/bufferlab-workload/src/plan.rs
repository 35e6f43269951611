//! How an engine finds the rows of a query, where a workload wants one way and no other.

use serde::Deserialize;

/// How an engine is to find the rows of the range.
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

/// A query that takes one plan and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForcedPlan {
    /// The plan that is asked for.
    pub asked: Plan,
    /// The parameters of the query, in their order: days since 1970.
    pub days: [i32; 2],
    /// The engine's words for the plan it takes, once somebody has judged them.
    pub told: String,
}
