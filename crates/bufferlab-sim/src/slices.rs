//! Passes a trace to one buffer manager and returns its counts at several moments, for estimates with intervals.

use bufferlab_model::trace::Columns;
use serde::Serialize;

use crate::managers::MODELS;
use crate::replay::{Counts, OneIn, Refused, play, rows_and_pages};

/// The counts of a manager from the first row to a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Slice {
    /// The manager's counts from the first row to the moment.
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames that hold a page at the moment.
    pub frames_used: u32,
}

/// Plays a trace to a new pool; returns its counts up to each of the rows `ends`, which are in order.
///
/// # Errors
/// `Refused` with the reason, if there can be no such manager, settings or rows.
pub fn replay_slices(
    manager: &str,
    settings: &str,
    frames: u32,
    columns: &Columns,
    ends: &[usize],
) -> Result<Vec<Slice>, Refused> {
    let refused = |why: String| Err(Refused(why));
    let (rows, pages) = rows_and_pages(columns)?;
    if !ends.is_sorted() || ends.last().is_some_and(|&end| end > rows) {
        return refused(format!("the ends of slices are not in order among {rows} rows"));
    }
    let Some(model) = MODELS.iter().find(|model| model.name == manager) else {
        return refused(format!("there is no manager {manager}"));
    };
    let mut pool = (model.make)(settings, frames, pages, OneIn::ONE)?;
    pool.foresee(columns);
    let (mut begun, mut now_us) = (0, 0);
    Ok(ends
        .iter()
        .map(|&end| {
            now_us = play(&mut *pool, columns, begun..end, now_us);
            begun = end;
            Slice { counts: pool.counts(), frames_used: pool.frames_used() }
        })
        .collect())
}
