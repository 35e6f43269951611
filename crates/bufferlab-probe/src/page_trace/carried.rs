//! Finds the page of an eviction whose record lacks the page's number.
//!
//! If the read of a page was useless, MariaDB from 10.6 on sets the page's number to ~0 before the page leaves the
//! pool. An example is a page that is free in its tablespace (`buf_page_t::set_corrupt_id` of buf0buf.h,
//! `buf_pool_t::corrupted_evict` of buf0lru.cc). The frame's address links such an eviction to the read, which has the
//! number.
//!
//! Rings are read one after another, so an eviction may be decoded before the read that precedes it. Therefore
//! evictions get their pages when the trace is complete.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use bufferlab_inside::layout::PATIENCE_NS;
use bufferlab_model::trace::{Kind, Record};

use super::mixed::Mixed;

/// The object of a page without a number. No tablespace has it: those have numbers below 2^32 - 1.
pub(super) const NAMELESS: u32 = u32::MAX;
/// The largest difference in time, in nanoseconds, between a record and a newer one that is decoded before it. A server
/// waits for its reader for one second with full rings.
const LATE_NS: u64 = 2 * PATIENCE_NS;

/// The last reads into frames, and the evictions from them that have no page.
#[derive(Debug, Default)]
pub(super) struct Carried {
    frames: HashMap<u64, Frame, BuildHasherDefault<Mixed>>,
    /// The evictions, by the numbers that their records have in place of a page.
    evictions: Vec<Eviction>,
}

#[derive(Debug, Default)]
struct Frame {
    reads: Vec<Read>,
    evictions: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    t_ns: u64,
    object: u32,
    page: u32,
}

#[derive(Clone, Copy, Debug)]
struct Eviction {
    t_ns: u64,
    /// The last known read into the eviction's frame before the eviction.
    of: Option<Read>,
}

impl Carried {
    /// Notes that a page is read into a frame.
    pub fn read(&mut self, frame: u64, record: &Record) {
        let read = Read { t_ns: record.t_ns, object: record.object, page: record.page };
        let of = self.frames.entry(frame).or_default();
        of.forget(read.t_ns, &self.evictions);
        of.reads.push(read);
        for number in &of.evictions {
            if let Some(eviction) = self.evictions.get_mut(*number as usize) {
                eviction.takes(read);
            }
        }
    }

    /// Notes that a page without a number leaves a frame; returns a number that replaces the page's number until the
    /// trace is complete.
    pub fn nameless(&mut self, frame: u64, t_ns: u64) -> u32 {
        let mut eviction = Eviction { t_ns, of: None };
        let of = self.frames.entry(frame).or_default();
        of.reads.iter().for_each(|read| eviction.takes(*read));
        let number = self.evictions.len() as u32;
        self.evictions.push(eviction);
        of.evictions.push(number);
        number
    }

    /// Returns a record; if it is an eviction without a page's number, fills in the page. Without a known read the
    /// number stays ~0.
    pub fn named(&self, record: Record) -> Record {
        if record.kind != Kind::Evict || record.object != NAMELESS {
            return record;
        }
        let of = self.evictions.get(record.page as usize).and_then(|eviction| eviction.of);
        let (object, page) = of.map_or((NAMELESS, u32::MAX), |read| (read.object, read.page));
        Record { object, page, ..record }
    }
}

impl Eviction {
    /// Takes a read of the frame as the source of this eviction's page, if it is the last known read before the
    /// eviction.
    fn takes(&mut self, read: Read) {
        if read.t_ns <= self.t_ns && self.of.is_none_or(|of| of.t_ns <= read.t_ns) {
            self.of = Some(read);
        }
    }
}

impl Frame {
    /// Forgets reads and evictions that no record decoded later can need. `t_ns` is the time of the present read.
    fn forget(&mut self, t_ns: u64, evictions: &[Eviction]) {
        let since_ns = t_ns.saturating_sub(LATE_NS);
        let last_ns = self.reads.iter().map(|read| read.t_ns).filter(|read_ns| *read_ns < since_ns).max();
        self.reads.retain(|read| read.t_ns >= since_ns || Some(read.t_ns) == last_ns);
        let is_late = |number: &u32| evictions.get(*number as usize).is_some_and(|one| one.t_ns >= since_ns);
        self.evictions.retain(is_late);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(t_ns: u64, kind: Kind, object: u32, page: u32) -> Record {
        Record { t_ns, object, page, thread: 0, kind, latch: 0, site: 0 }
    }

    /// Returns the page of each eviction if the events are decoded in the order `order`.
    fn carried(events: &[(u64, bool)], order: impl IntoIterator<Item = usize>) -> Vec<(u64, u32)> {
        let mut carried = Carried::default();
        let mut evictions = Vec::new();
        for at in order {
            let ((frame, is_read), t_ns) = (events[at], 10 + at as u64);
            if is_read {
                carried.read(frame, &record(t_ns, Kind::Read, 7, at as u32));
            } else {
                let number = carried.nameless(frame, t_ns);
                evictions.push(record(t_ns, Kind::Evict, NAMELESS, number));
            }
        }
        let mut found: Vec<_> = evictions.into_iter().map(|one| carried.named(one)).collect();
        found.sort_unstable_by_key(|one| one.t_ns);
        found.iter().map(|one| (one.t_ns, one.page)).collect()
    }

    /// Returns the same pages as `carried`, by a search back from each eviction over all events in the order of time.
    fn slowly(events: &[(u64, bool)]) -> Vec<(u64, u32)> {
        let read_before = |at: usize| events[..at].iter().rposition(|one| *one == (events[at].0, true));
        let evictions = (0..events.len()).filter(|at| !events[*at].1);
        evictions.map(|at| (10 + at as u64, read_before(at).map_or(u32::MAX, |read| read as u32))).collect()
    }

    #[test]
    fn an_eviction_without_a_number_has_the_page_that_was_read_into_its_frame_last() {
        let events = [(1, true), (2, true), (1, false), (1, true), (1, false), (3, false)];
        assert_eq!(carried(&events, 0..6), [(12, 0), (14, 3), (15, u32::MAX)]);
    }

    #[test]
    fn an_eviction_that_is_decoded_before_its_read_has_its_page() {
        let events = [(1, true), (1, false), (1, true), (1, false)];
        assert_eq!(carried(&events, [3, 1, 0, 2]), [(11, 0), (13, 2)]);
    }

    #[test]
    fn a_frame_keeps_the_reads_of_two_seconds_and_the_one_before() {
        let mut carried = Carried::default();
        for t_ns in (0..40).map(|number| number * LATE_NS / 10) {
            carried.read(1, &record(t_ns, Kind::Read, 7, (t_ns * 10 / LATE_NS) as u32));
            carried.nameless(1, t_ns);
        }
        assert_eq!((carried.frames[&1].reads.len(), carried.frames[&1].evictions.len()), (12, 11));
        let late = carried.nameless(1, 39 * LATE_NS / 10 - LATE_NS + 1);
        assert_eq!(carried.named(record(0, Kind::Evict, NAMELESS, late)).page, 29);
    }

    #[test]
    fn other_records_stay_as_they_are() {
        let mut carried = Carried::default();
        carried.read(1, &record(1, Kind::Read, 5, 6));
        carried.nameless(1, 2);
        for one in [record(3, Kind::Evict, 5, 0), record(3, Kind::Get, NAMELESS, 0)] {
            assert_eq!(carried.named(one), one);
        }
    }

    proptest! {
        #[test]
        fn any_events_of_rings_that_are_read_in_turn_give_what_looking_back_gives(
            events in prop::collection::vec((0..3_u64, any::<bool>()), 0..60),
            rings in prop::collection::vec(0..3_usize, 60),
        ) {
            // Within a round the reader reads ring after ring.
            let mut order: Vec<usize> = (0..events.len()).collect();
            order.chunks_mut(25).for_each(|round| round.sort_by_key(|at| (rings[*at], *at)));
            prop_assert_eq!(carried(&events, order), slowly(&events));
        }
    }
}
