//! Plays the columns of a page trace to one buffer manager and counts its actions in a window.
//!
//! A manager gets the database's requests (gets, creations, prefetches, drops, changes), never the traced server's own
//! actions (reads, evictions, writes).

use std::num::NonZeroU32;
use std::ops::{Add, Range, Sub};

use bufferlab_model::trace::{Access, Columns, Kind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The counts of a manager since it was made, or in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Pages read because a caller wanted them.
    pub misses: u64,
    /// Pages read because of a prefetch.
    pub prefetch_reads: u64,
    /// Pages that got a frame without a read, because they are new.
    pub creates: u64,
    /// Pages that lost their frame because the manager needed the frame. Drops do not count.
    pub evictions: u64,
    /// InnoDB's `Pages made young`: moves from the old sublist to the head. Zero in other managers.
    pub made_young: u64,
    /// InnoDB's `not young`: accesses to old pages that came too early to move them. Zero in other managers.
    pub not_made_young: u64,
    /// Gets that PostgreSQL's model ascribed to a scan without a mark in the trace. Zero in other managers.
    pub guessed_scan_gets: u64,
    /// Misses that took a buffer of their scan's own ring in PostgreSQL's model: no other page left the pool for them.
    /// Zero in other managers.
    pub ring_reuses: u64,
    /// Dirty pages that a cleaner wrote ahead of their frames' reuse: InnoDB's, or PostgreSQL's background writer. Zero in
    /// other managers.
    pub lru_writes: u64,
    /// Dirty pages that InnoDB's cleaner wrote from the flush list; they stayed in the pool. Zero in other managers.
    pub flush_list_writes: u64,
    /// Dirty pages that a thread of InnoDB, or a session of PostgreSQL, had to write itself to get a frame. Zero in
    /// other managers.
    pub single_page_writes: u64,
    /// Dirty pages that PostgreSQL's checkpoints wrote. Zero in other managers.
    pub checkpoint_writes: u64,
    /// First changes of pages after a checkpoint's begin, which PostgreSQL logs with the whole page. Zero in other
    /// managers.
    pub page_images: u64,
}

impl Counts {
    /// Combines two sets of counts: `of` returns each count from the two of its kind.
    fn with(self, other: Counts, mut of: impl FnMut(u64, u64) -> u64) -> Counts {
        Counts {
            misses: of(self.misses, other.misses),
            prefetch_reads: of(self.prefetch_reads, other.prefetch_reads),
            creates: of(self.creates, other.creates),
            evictions: of(self.evictions, other.evictions),
            made_young: of(self.made_young, other.made_young),
            not_made_young: of(self.not_made_young, other.not_made_young),
            guessed_scan_gets: of(self.guessed_scan_gets, other.guessed_scan_gets),
            ring_reuses: of(self.ring_reuses, other.ring_reuses),
            lru_writes: of(self.lru_writes, other.lru_writes),
            flush_list_writes: of(self.flush_list_writes, other.flush_list_writes),
            single_page_writes: of(self.single_page_writes, other.single_page_writes),
            checkpoint_writes: of(self.checkpoint_writes, other.checkpoint_writes),
            page_images: of(self.page_images, other.page_images),
        }
    }

    /// Returns how many pages got a frame, without those that took a frame of their scan's own ring.
    pub fn brought_in(&self) -> u64 {
        self.misses + self.prefetch_reads + self.creates - self.ring_reuses
    }

    /// Returns whether no count is lower in `later`.
    fn have_not_fallen(&self, later: &Counts) -> bool {
        let mut fell = false;
        let _ = self.with(*later, |count, later| {
            fell |= later < count;
            later
        });
        !fell
    }

    /// Returns the counts times `factor`, rounded.
    #[must_use]
    pub fn times(self, factor: f64) -> Counts {
        self.with(self, |count, _| (count as f64 * factor).round() as u64)
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        self.with(other, |count, more| count + more)
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, before: Counts) -> Counts {
        self.with(before, |count, less| count - less)
    }
}

/// A buffer manager: a pool of a fixed number of frames that holds pages `0..pages`.
///
/// The caller guarantees that pages are below `pages`, that times never go back, and that `foresee` comes first or
/// never. The manager guarantees that counts never fall, and that `frames_used` is never above its frames.
pub trait Manager {
    /// Processes one event of a trace. Ignores the traced server's reads, evictions and writes, because this manager
    /// decides its own.
    #[inline]
    fn hear(&mut self, kind: Kind, access: Access) {
        match kind {
            Kind::Get => self.get(access),
            Kind::GetIfInPool => self.get_if_in_pool(access),
            Kind::Create => self.create(access),
            Kind::Prefetch => self.prefetch(access),
            Kind::Drop => self.drop_page(access),
            Kind::Dirty => self.dirty(access),
            Kind::Read | Kind::Evict | Kind::Write => {}
        }
    }

    /// Gives the page to a caller. If it is not in the pool, reads it and counts one miss; otherwise reads nothing.
    fn get(&mut self, access: Access);

    /// Gives the page to a caller if it is in the pool.
    fn get_if_in_pool(&mut self, access: Access);

    /// Gives the page a frame without a read, or touches it if it has one.
    fn create(&mut self, access: Access);

    /// Reads the page if it is not in the pool. This is not a use of the page.
    fn prefetch(&mut self, access: Access);

    /// Takes the page out of the pool.
    fn drop_page(&mut self, access: Access);

    /// Notes that a caller changed the page. Most managers ignore it: they derive dirty pages from latches, or have
    /// none.
    fn dirty(&mut self, _access: Access) {}

    /// Returns the manager's counts so far.
    fn counts(&self) -> Counts;

    /// Returns how many frames hold a page now.
    fn frames_used(&self) -> u32;

    /// Shows the manager all events of a replay before it gets the first one. Only `opt` uses this, because no server
    /// knows the future. The caller guarantees that exactly these events follow.
    fn foresee(&mut self, _columns: &Columns) {}
}

/// The model of a buffer manager, which can be made by its name and settings.
///
/// The caller guarantees that `check` has accepted the settings before `new` gets them. A model's `sample` must keep
/// valid settings valid.
///
/// The default settings, as JSON, have the names and the defaults of the server that the model follows. The JSON lacks
/// settings that follow from the server's version or from the sizes of pools and tables.
pub trait Model: Manager + Sized {
    /// The name by which Python and run.json know the model.
    const NAME: &'static str;

    /// The settings of the model's pools.
    type Settings: Default + Serialize + DeserializeOwned;

    /// Makes an empty pool of `frames` for pages `0..pages`.
    fn new(frames: NonZeroU32, pages: u32, settings: &Self::Settings) -> Self;

    /// Adapts the settings to a sample: a pool that gets only a share of the pages. Most models have no settings that
    /// count pages.
    fn sample(_settings: &mut Self::Settings, _one_in: OneIn) {}

    /// Refuses settings that no server with `frames` frames has.
    ///
    /// # Errors
    /// The reason why it refuses them.
    fn check(_settings: &Self::Settings, _frames: NonZeroU32) -> Result<(), String> {
        Ok(())
    }
}

/// The share of a database's pages that a pool gets, as one page in N, where N is at least 1.
///
/// The caller divides the frames. A model divides its settings that count pages, by [`OneIn::of`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneIn(f64);

impl OneIn {
    /// The share of all pages.
    pub const ONE: OneIn = OneIn(1.0);

    /// Returns the share of one page in `pages`.
    ///
    /// # Panics
    /// If `pages` is below 1.
    pub fn new(pages: f64) -> Self {
        assert!(pages >= 1.0, "one page in {pages} is more than all");
        OneIn(pages)
    }

    /// Returns the share of a count of pages, rounded.
    pub fn of(self, count: u32) -> u32 {
        (f64::from(count) / self.0).round() as u32
    }
}

impl Default for OneIn {
    fn default() -> Self {
        OneIn::ONE
    }
}

/// The settings of a model without settings.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}

/// The counts of a replay between the edges of its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// Events of kind get in the window.
    pub gets: u64,
    /// Events of kind get_if_in_pool in the window.
    pub gets_if_in_pool: u64,
    /// The manager's counts in the window.
    #[serde(flatten)]
    pub counts: Counts,
    /// Frames that hold a page at the window's end.
    pub frames_used: u32,
    /// Pages that got a frame since the load began, without those that a scan read into its own ring, because these do
    /// not fill the pool.
    pub brought_in_since_start: u64,
}

/// A function that takes the share of a replay's rows that were played, from 0 to 1, and returns whether to go on.
pub type Watch<'a> = dyn FnMut(f64) -> bool + 'a;

/// Rows between two calls of a watch: the slowest manager plays them in a tenth of a second.
const WATCHED: usize = 1 << 20;

/// Passes the events before the window, which fill the pool, and those in the window to a manager; returns the counts
/// of the window alone. `window` is a range of events. `load` is the index of the load's first event: before it a check
/// may have read all tables.
///
/// # Panics
/// If the columns differ in length, the window is not within them or begins before the load, or a page is not one of
/// the manager's.
pub fn replay<M: Manager>(manager: &mut M, columns: &Columns, load: usize, window: Range<usize>) -> Replayed {
    watched(manager, columns, load, window, &mut |_| true).expect("nothing stops it")
}

/// Does what [`replay`] does; returns nothing when the watch stops it.
fn watched<M: Manager>(
    manager: &mut M,
    columns: &Columns,
    load: usize,
    window: Range<usize>,
    watch: &mut Watch<'_>,
) -> Option<Replayed> {
    assert!(columns.rows().is_some(), "{UNLIKE}");
    manager.foresee(columns);
    let mut now_us = 0;
    let mut play_all = |manager: &mut M, rows: Range<usize>| {
        for start in rows.clone().step_by(WATCHED) {
            let end = rows.end.min(start + WATCHED);
            now_us = play(manager, columns, start..end, now_us);
            if !watch(end as f64 / window.end as f64) {
                return None;
            }
        }
        Some(manager.counts())
    };
    let idle = play_all(manager, 0..load)?;
    let before = play_all(manager, load..window.start)?;
    let after = play_all(manager, window.clone())?;
    assert!(idle.have_not_fallen(&before) && before.have_not_fallen(&after), "counts of a manager fell");
    let of_kind = |wanted| columns.kind[window.clone()].iter().filter(|&&kind| kind == wanted as u8).count() as u64;
    let loaded = after - idle;
    Some(Replayed {
        gets: of_kind(Kind::Get),
        gets_if_in_pool: of_kind(Kind::GetIfInPool),
        counts: after - before,
        frames_used: manager.frames_used(),
        brought_in_since_start: loaded.brought_in(),
    })
}

/// Plays some rows; returns the time of the last one.
pub(crate) fn play<M: Manager + ?Sized>(manager: &mut M, columns: &Columns, rows: Range<usize>, from_us: u64) -> u64 {
    let mut now_us = from_us;
    let what = columns.page[rows.clone()].iter().zip(&columns.kind[rows.clone()]);
    let who = columns.thread[rows.clone()].iter().zip(&columns.latch[rows.clone()]);
    for ((&page, &kind), ((&thread, &latch), &delta_us)) in what.zip(who.zip(&columns.delta_us[rows])) {
        now_us += u64::from(delta_us);
        if let Some(kind) = Kind::of(kind) {
            manager.hear(kind, Access { page, thread, latch, now_us });
        }
    }
    now_us
}

const UNLIKE: &str = "the columns differ in length";
/// The most frames of a pool, and the most pages: a manager takes some 30 bytes for each.
const MOST: u32 = 1 << 28;

/// The reason why a replay is refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Refused(pub(crate) String);

/// A function that replays a trace with a new pool. It takes the JSON of the pool's settings, its frames, the trace,
/// the load's first row, the rows of the window and a watch.
pub type Replay = fn(&str, u32, &Columns, usize, Range<usize>, &mut Watch<'_>) -> Result<Replayed, Refused>;

/// A function that makes an empty pool. It takes the JSON of the pool's settings, its frames, the number of pages, and
/// the share that these are of the database's pages.
pub type Make = fn(&str, u32, u32, OneIn) -> Result<Box<dyn Manager + Send>, Refused>;

/// Makes an empty pool of the model `M`, with the parameters of a [`Make`].
pub(crate) fn make_new<M: Model + Send + 'static>(
    settings: &str,
    frames: u32,
    pages: u32,
    one_in: OneIn,
) -> Result<Box<dyn Manager + Send>, Refused> {
    let (frames, mut settings) = checked::<M>(settings, frames, pages)?;
    M::sample(&mut settings, one_in);
    Ok(Box::new(M::new(frames, pages, &settings)))
}

/// Returns the frames and the settings of a pool, or the reason why there can be no such pool.
fn checked<M: Model>(settings: &str, frames: u32, pages: u32) -> Result<(NonZeroU32, M::Settings), Refused> {
    let refused = |why: String| Err(Refused(why));
    if pages > MOST {
        return refused("there are too many pages".into());
    }
    let Some(frames) = NonZeroU32::new(frames).filter(|size| size.get() <= MOST) else {
        return refused(format!("a pool has 1 to {MOST} frames"));
    };
    let settings = serde_json::from_str(settings).map_err(|error| error.to_string());
    match settings.and_then(|settings| M::check(&settings, frames).map(|()| settings)) {
        Ok(settings) => Ok((frames, settings)),
        Err(why) => refused(format!("settings of the manager: {why}")),
    }
}

/// Returns the numbers of rows and of pages of a trace, or the reason why no manager can be made for them.
pub(crate) fn rows_and_pages(columns: &Columns) -> Result<(usize, u32), Refused> {
    let Some(rows) = columns.rows() else { return Err(Refused(UNLIKE.into())) };
    let pages = columns.page.iter().max().map_or(0, |&page| page.saturating_add(1));
    if pages > MOST || rows >= u32::MAX as usize {
        return Err(Refused("the trace has too many pages or rows".into()));
    }
    Ok((rows, pages))
}

/// Replays a trace with a new pool of the model `M`, with the parameters of a [`Replay`]. Refuses every input for which
/// [`replay`] would panic.
pub(crate) fn replay_new<M: Model>(
    settings: &str,
    frames: u32,
    columns: &Columns,
    load: usize,
    window: Range<usize>,
    watch: &mut Watch<'_>,
) -> Result<Replayed, Refused> {
    let (rows, pages) = rows_and_pages(columns)?;
    if load > window.start || window.start > window.end || window.end > rows {
        let (start, end) = (window.start, window.end);
        return Err(Refused(format!("rows {load}, {start} and {end} are not in order among {rows}")));
    }
    let (frames, settings) = checked::<M>(settings, frames, pages)?;
    let replayed = watched(&mut M::new(frames, pages, &settings), columns, load, window, watch);
    let used = replayed.map_or(0, |replayed| replayed.frames_used);
    assert!(used <= frames.get(), "{used} of {frames} frames hold a page");
    replayed.ok_or_else(|| Refused("the replay was stopped".into()))
}

#[cfg(test)]
mod tests {
    use super::Counts;

    #[test]
    fn a_window_has_what_each_count_grew_by() {
        let of = |counts: [u64; 13]| {
            let [misses, prefetch_reads, creates, evictions, made_young, not_made_young, rest @ ..] = counts;
            let [guessed_scan_gets, ring_reuses, lru_writes, flush_list_writes, rest @ ..] = rest;
            let [single_page_writes, checkpoint_writes, page_images] = rest;
            let of_managers =
                Counts { made_young, not_made_young, guessed_scan_gets, ring_reuses, ..Counts::default() };
            let written =
                Counts { lru_writes, flush_list_writes, single_page_writes, checkpoint_writes, ..of_managers };
            let written = Counts { page_images, ..written };
            Counts { misses, prefetch_reads, creates, evictions, ..written }
        };
        let grown = of([11, 22, 33, 44, 55, 66, 77, 88, 99, 110, 121, 132, 143])
            - of([1, 3, 5, 7, 9, 13, 17, 19, 23, 29, 31, 37, 41]);
        assert_eq!(grown, of([10, 19, 28, 37, 46, 53, 60, 69, 76, 81, 90, 95, 102]));
        assert_eq!(grown + grown, grown.times(2.0));
        assert_eq!(of([3; 13]).times(0.5), of([2; 13]), "half a page is rounded up");
    }
}
