//! `_native.replay`: plays a page trace to one buffer manager, from columns that Python passes without a copy.

use std::num::NonZeroU32;

use bufferlab_sim::{
    Columns, Counts, Innodb57, Innodb57Settings, Innodb1011, Innodb1011Settings, LargeTable, Lru, Manager, Opt,
    Postgres, PostgresSettings, Replayed, Sqlite,
};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::curve::column;
use crate::error::{guarded, json_text};

/// The largest pool and the highest page: a manager takes some 30 bytes for each.
const MOST: u32 = 1 << 28;

/// The settings of a manager without settings.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfInnodb57 {
    old_blocks_pct: u32,
    old_blocks_time_ms: u32,
    lru_scan_depth: u32,
    flush_neighbors: u32,
    wakes_cleaner: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfInnodb1011 {
    old_blocks_pct: u32,
    old_blocks_time_ms: u32,
    lru_scan_depth: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfPostgres {
    ring_buffers: u32,
    large_tables: Vec<OfLargeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfLargeTable {
    first_page: u32,
    pages: u32,
    had_rings: bool,
}

fn refused(what: impl Into<String>) -> PyErr {
    PyValueError::new_err(what.into())
}

fn settings<S: DeserializeOwned>(text: &str) -> PyResult<S> {
    serde_json::from_str(text).map_err(|error| refused(format!("settings of the manager: {error}")))
}

fn share(old_blocks_pct: u32) -> PyResult<u32> {
    let fits = (5..=95).contains(&old_blocks_pct);
    fits.then_some(old_blocks_pct).ok_or_else(|| refused("old_blocks_pct is 5 to 95"))
}

/// A checked trace, on which no replay can panic, with its window.
struct Checked<'a> {
    columns: Columns<'a>,
    pages: u32,
    first_row: usize,
    end_row: usize,
}

impl<'a> Checked<'a> {
    fn new(columns: Columns<'a>, first_row: usize, end_row: usize) -> PyResult<Self> {
        let rows = columns.page.len();
        if [columns.kind.len(), columns.latch.len(), columns.thread.len(), columns.delta_us.len()] != [rows; 4] {
            return Err(refused("the columns differ in length"));
        }
        if first_row > end_row || end_row > rows {
            return Err(refused(format!("rows {first_row} to {end_row} are not among {rows}")));
        }
        let pages = columns.page.iter().max().map_or(0, |&page| page.saturating_add(1));
        if pages > MOST || rows >= u32::MAX as usize {
            return Err(refused("the trace has too many pages or rows"));
        }
        Ok(Checked { columns, pages, first_row, end_row })
    }

    /// Returns the counts of the manager in the window, and since the trace began.
    fn replay<M: Manager>(&self, make: impl FnOnce() -> M) -> PyResult<(Replayed, Counts)> {
        guarded(|| {
            let mut manager = make();
            let in_window = bufferlab_sim::replay(&mut manager, &self.columns, self.first_row..self.end_row);
            Ok((in_window, manager.counts()))
        })
    }
}

/// See `bufferlab_sim::replay`. The manager's settings are JSON; the answer is `Replayed` as JSON, with the pages that got
/// a frame since the trace began. Wrong input is a `ValueError`.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "five of them are the columns of one table")]
pub(crate) fn replay(
    py: Python<'_>,
    manager: &str,
    settings_json: &str,
    frames: u32,
    page: PyBuffer<u32>,
    kind: PyBuffer<u8>,
    thread: PyBuffer<u16>,
    delta_us: PyBuffer<u32>,
    latch: PyBuffer<u8>,
    first_row: usize,
    end_row: usize,
) -> PyResult<String> {
    let columns = Columns {
        page: column(py, &page)?,
        kind: column(py, &kind)?,
        latch: column(py, &latch)?,
        thread: column(py, &thread)?,
        delta_us: column(py, &delta_us)?,
    };
    let trace = Checked::new(columns, first_row, end_row)?;
    let pages = trace.pages;
    let size = NonZeroU32::new(frames).filter(|&size| size.get() <= MOST);
    let frames = size.ok_or_else(|| refused(format!("a pool has 1 to {MOST} frames")))?;
    let (Replayed { gets, gets_if_in_pool, counts, frames_used }, since_start) = match manager {
        "lru" => {
            let Nothing {} = settings(settings_json)?;
            trace.replay(|| Lru::new(frames, pages))
        }
        "opt" => {
            let Nothing {} = settings(settings_json)?;
            trace.replay(|| Opt::new(frames, pages, &columns))
        }
        "sqlite" => {
            let Nothing {} = settings(settings_json)?;
            trace.replay(|| Sqlite::new(frames, pages))
        }
        "innodb57" => {
            let OfInnodb57 { old_blocks_pct, old_blocks_time_ms, lru_scan_depth, flush_neighbors, wakes_cleaner } =
                settings(settings_json)?;
            let old_blocks_pct = share(old_blocks_pct)?;
            let settings =
                Innodb57Settings { old_blocks_pct, old_blocks_time_ms, lru_scan_depth, flush_neighbors, wakes_cleaner };
            trace.replay(|| Innodb57::new(frames, pages, &settings))
        }
        "innodb1011" => {
            let OfInnodb1011 { old_blocks_pct, old_blocks_time_ms, lru_scan_depth } = settings(settings_json)?;
            let old_blocks_pct = share(old_blocks_pct)?;
            let settings = Innodb1011Settings { old_blocks_pct, old_blocks_time_ms, lru_scan_depth };
            trace.replay(|| Innodb1011::new(frames, pages, &settings))
        }
        "postgres" => {
            let OfPostgres { ring_buffers, large_tables } = settings(settings_json)?;
            if ring_buffers == 0 || ring_buffers > frames.get() {
                return Err(refused(format!("a ring of {frames} buffers has 1 to as many, not {ring_buffers}")));
            }
            let large_tables = large_tables
                .into_iter()
                .map(|OfLargeTable { first_page, pages, had_rings }| LargeTable { first_page, pages, had_rings });
            let settings = PostgresSettings { large_tables: large_tables.collect(), ring_buffers };
            trace.replay(|| Postgres::new(frames, pages, &settings))
        }
        other => return Err(refused(format!("there is no manager {other}"))),
    }?;
    let Counts { misses, prefetch_reads, creates, evictions, made_young, not_made_young, guessed_scan_gets } = counts;
    json_text(&json!({
        "gets": gets,
        "gets_if_in_pool": gets_if_in_pool,
        "misses": misses,
        "prefetch_reads": prefetch_reads,
        "creates": creates,
        "evictions": evictions,
        "made_young": made_young,
        "not_made_young": not_made_young,
        "guessed_scan_gets": guessed_scan_gets,
        "frames_used": frames_used,
        "brought_in_since_start": since_start.misses + since_start.prefetch_reads + since_start.creates,
    }))
}
