//! `postgres` against a vector of buffers that the test searches.

use bufferlab_sim::{Access, Counts, Manager, Postgres};
use proptest::prelude::*;

use crate::strings::{Events, frames};

#[derive(Clone, Copy)]
struct Buffer {
    page: u32,
    usage: u8,
}

struct Naive {
    buffers: Vec<Option<Buffer>>,
    /// Empty buffers, the next one first.
    free: Vec<usize>,
    hand: usize,
    counts: Counts,
}

impl Naive {
    fn new(frames: u32) -> Self {
        Naive {
            buffers: vec![None; frames as usize],
            free: (0..frames as usize).collect(),
            hand: 0,
            counts: Counts::default(),
        }
    }

    fn find(&self, page: u32) -> Option<usize> {
        self.buffers.iter().position(|buffer| buffer.is_some_and(|buffer| buffer.page == page))
    }

    fn free_buffer(&mut self) -> usize {
        if !self.free.is_empty() {
            return self.free.remove(0);
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.buffers.len();
            let buffer = self.buffers[at].as_mut().expect("no buffer is free");
            if buffer.usage == 0 {
                self.counts.evictions += 1;
                return at;
            }
            buffer.usage -= 1;
        }
    }

    /// Pins the page; returns whether the pool had it.
    fn pin(&mut self, access: Access) -> bool {
        let found = self.find(access.page);
        if let Some(at) = found {
            let buffer = self.buffers[at].as_mut().expect("just found");
            buffer.usage = (buffer.usage + u8::from(access.latch != 2)).min(5);
        } else {
            let at = self.free_buffer();
            self.buffers[at] = Some(Buffer { page: access.page, usage: 1 });
        }
        found.is_some()
    }
}

impl Manager for Naive {
    fn get(&mut self, access: Access) {
        self.counts.misses += u64::from(!self.pin(access));
    }

    fn get_if_in_pool(&mut self, access: Access) {
        if self.find(access.page).is_some() {
            self.pin(access);
        }
    }

    fn create(&mut self, access: Access) {
        self.counts.creates += u64::from(!self.pin(access));
    }

    fn prefetch(&mut self, access: Access) {
        if self.find(access.page).is_none() {
            self.counts.prefetch_reads += 1;
            self.pin(access);
        }
    }

    fn drop_page(&mut self, access: Access) {
        if let Some(at) = self.find(access.page) {
            self.buffers[at] = None;
            self.free.insert(0, at);
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn frames_used(&self) -> u32 {
        self.buffers.iter().flatten().count() as u32
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_clock_sweeps_as_a_searched_vector_does(seed: u64, size in 1u32..40, pages in 1u32..60) {
        let (mut fast, mut naive) = (Postgres::new(frames(size), pages), Naive::new(size));
        Events::random(seed, pages, 0, 300).play_to_both(&mut fast, &mut naive, |pool| pool.frames_used() <= size);
    }
}
