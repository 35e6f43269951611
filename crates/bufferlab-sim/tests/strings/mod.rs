//! Random sequences of events, and a function that passes them to two managers and compares these: a model, and a slow
//! implementation over plain vectors, which each model's test has.

#![allow(dead_code, reason = "no test uses all of it")]

use std::num::NonZeroU32;

use bufferlab_model::trace::{Access, Columns, KINDS, Kind};
use bufferlab_sim::{Counts, Manager};
use rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The columns of a page trace.
pub struct Events {
    pub page: Vec<u32>,
    pub kind: Vec<u8>,
    pub latch: Vec<u8>,
    pub thread: Vec<u16>,
    pub delta_us: Vec<u32>,
}

/// How many events of 64 are of each kind, by the kind's number.
const SHARES: [u32; KINDS.len()] = [44, 2, 4, 1, 4, 1, 2, 5, 1];

impl Events {
    /// Returns a scan of `scanned` pages, then `events` events of all kinds on skewed pages, by four threads.
    pub fn random(seed: u64, pages: u32, scanned: u32, events: usize) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut all = Events {
            page: (0..scanned).collect(),
            kind: vec![Kind::Get as u8; scanned as usize],
            latch: vec![0; scanned as usize],
            thread: vec![0; scanned as usize],
            delta_us: vec![100; scanned as usize],
        };
        for _ in 0..events {
            all.page.push((random.next_u32() % pages).min(random.next_u32() % pages));
            let mut draw = random.next_u32() % 64;
            let kind = SHARES.iter().position(|share| {
                let found = draw < *share;
                draw = draw.wrapping_sub(*share);
                found
            });
            all.kind.push(kind.expect("the shares add up to 64") as u8);
            all.latch.push([1, 1, 2, 2, 4, 8][(random.next_u32() % 6) as usize]);
            all.thread.push((random.next_u32() % 4) as u16);
            // In one of 128 cases up to a second passes.
            all.delta_us.push(random.next_u32() % if random.next_u32() % 128 == 0 { 1_000_000 } else { 3000 });
        }
        all
    }

    pub fn columns(&self) -> Columns<'_> {
        Columns {
            page: &self.page,
            kind: &self.kind,
            latch: &self.latch,
            thread: &self.thread,
            delta_us: &self.delta_us,
        }
    }

    /// Passes all events to both managers. After each event both must have the same counts, and `holds` must be true
    /// for the first.
    pub fn play_to_both<F: Manager>(&self, fast: &mut F, naive: &mut impl Manager, holds: impl Fn(&F) -> bool) {
        let mut now_us = 0;
        for row in 0..self.page.len() {
            now_us += u64::from(self.delta_us[row]);
            let kind = Kind::of(self.kind[row]).expect("a kind");
            let access = Access { page: self.page[row], thread: self.thread[row], latch: self.latch[row], now_us };
            fast.hear(kind, access);
            naive.hear(kind, access);
            let both = |manager: &dyn Manager| (manager.counts(), manager.frames_used());
            assert_eq!(both(fast), both(naive), "fast, then naive, after event {row}: {kind:?} of {access:?}");
            assert!(holds(fast), "a property does not hold after event {row}");
        }
    }

    /// Returns the counts of a manager over all events.
    pub fn counts(&self, mut manager: impl Manager) -> Counts {
        bufferlab_sim::replay(&mut manager, &self.columns(), 0, 0..self.page.len()).counts
    }
}

/// Returns a size that is not zero.
pub fn frames(frames: u32) -> NonZeroU32 {
    NonZeroU32::new(frames).expect("not zero")
}
