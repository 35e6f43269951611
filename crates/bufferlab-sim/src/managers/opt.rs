//! `opt`: the fewest reads that any manager could need, because it knows the future. It is the lower bound for the
//! models' reads.
//!
//! It evicts the page whose next get is farthest away (Belady: "A study of replacement algorithms for a virtual-storage
//! computer", IBM Systems Journal 5(2), 1966, where it is MIN). A page whose next use is a creation, or follows a drop,
//! gains nothing from a frame until then. `opt` may admit a page of a get-if-in-pool without a read, and it ignores
//! prefetches. Both can only lower the count.
//!
//! From the trace's first event on, no manager reads less. In the window alone, a manager may read less if it has read
//! more during the warm-up.

use std::num::NonZeroU32;

use bufferlab_model::trace::{Access, Columns, Kind};

use super::highest::Bits;
use crate::replay::{Counts, Manager, Model, NoSettings};

/// This value in place of an event's number means that the page has no next get, or that a frame would not save the
/// read of the next get.
const NEVER: u32 = u32::MAX;

/// A pool that knows all later accesses.
pub struct Opt {
    frames: u32,
    pages: u32,
    /// For each event that this manager gets, the number of the event that is the next get of its page.
    next_get: Vec<u32>,
    /// The number of the next event.
    event: usize,
    /// The numbers of the next gets of the pages in the pool. A page is in the pool if the number of its next get is in
    /// this set.
    wanted: Bits,
    counts: Counts,
}

impl Model for Opt {
    const NAME: &'static str = "opt";
    type Settings = NoSettings;

    fn new(frames: NonZeroU32, pages: u32, _settings: &NoSettings) -> Self {
        let (next_get, wanted) = (Vec::new(), Bits::new(0));
        Opt { frames: frames.get(), pages, next_get, event: 0, wanted, counts: Counts::default() }
    }
}

impl Opt {
    /// Returns the number of the current event, and moves on to the next.
    fn advance(&mut self) -> u32 {
        debug_assert!(self.event < self.next_get.len(), "event {} was not foreseen", self.event);
        self.event += 1;
        self.event as u32 - 1
    }

    /// Gives the page of an event a frame, which it keeps if a later event gets the page again.
    fn admit(&mut self, event: u32) {
        if self.wanted.len() == self.frames {
            self.wanted.remove_highest();
            self.counts.evictions += 1;
        }
        self.keep(event);
        debug_assert!(self.wanted.len() <= self.frames, "{} pages are in {} frames", self.wanted.len(), self.frames);
    }

    fn keep(&mut self, event: u32) {
        let next = self.next_get[event as usize];
        debug_assert!(next > event, "the next get {next} of the page of event {event} is behind it");
        if next != NEVER {
            self.wanted.insert(next);
        }
    }
}

impl Manager for Opt {
    fn get(&mut self, _access: Access) {
        let event = self.advance();
        if self.wanted.remove(event) {
            self.keep(event);
        } else {
            self.counts.misses += 1;
            self.admit(event);
        }
    }

    fn get_if_in_pool(&mut self, _access: Access) {
        let event = self.advance();
        if self.wanted.len() < self.frames {
            self.keep(event);
        } else if self.wanted.highest().is_some_and(|highest| self.next_get[event as usize] < highest) {
            self.admit(event);
        }
    }

    fn create(&mut self, _access: Access) {
        let event = self.advance();
        self.counts.creates += 1;
        self.admit(event);
    }

    fn prefetch(&mut self, _access: Access) {
        self.advance();
    }

    fn drop_page(&mut self, _access: Access) {
        self.advance();
    }

    /// Returns the counts. Evictions are counted only for pages that are read again.
    fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns how many frames hold a page that would be read again if it were evicted.
    fn frames_used(&self) -> u32 {
        self.wanted.len()
    }

    /// Looks up the next get of each event.
    ///
    /// # Panics
    /// If there are 2^32 - 1 events or more, or a page is not below `pages`.
    fn foresee(&mut self, columns: &Columns) {
        assert_eq!(self.event, 0, "what comes is known before the first event");
        self.next_get = next_gets(self.pages, columns);
        self.wanted = Bits::new(self.next_get.len());
    }
}

/// Returns, for each event that a manager gets, the next get of its page, if no creation, get-if-in-pool or drop comes
/// first.
fn next_gets(pages: u32, columns: &Columns) -> Vec<u32> {
    let is_heard = |kind: &Kind| !matches!(kind, Kind::Read | Kind::Evict | Kind::Dirty | Kind::Write);
    let heard = |&kind: &u8| Kind::of(kind).filter(is_heard);
    let events = columns.kind.iter().filter_map(heard).count();
    assert!(events < NEVER as usize, "{events} events are more than can be numbered");
    let mut next_get = vec![NEVER; events];
    let mut next_of_page = vec![NEVER; pages as usize];
    let wishes = columns.page.iter().zip(columns.kind).rev().filter_map(|(&page, kind)| Some((page, heard(kind)?)));
    for (event, (page, kind)) in (0..events).rev().zip(wishes) {
        let next = &mut next_of_page[page as usize];
        next_get[event] = *next;
        match kind {
            Kind::Get => *next = event as u32,
            Kind::Prefetch => {}
            _ => *next = NEVER,
        }
    }
    next_get
}
