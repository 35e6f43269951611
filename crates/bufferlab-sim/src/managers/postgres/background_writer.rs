//! The background writer (bufmgr.c, `BgBufferSync`): it runs ahead of the clock's hand and writes dirty buffers with a
//! usage count of 0. It writes as many as the sessions will probably take until its next round.
//!
//! Approximated: a round takes no time, and the writer never hibernates. (On a server it hibernates while sessions take
//! no buffers, when its rounds would find no page to clean.)

use serde::{Deserialize, Serialize};

use super::buffers::Buffers;

/// Rounds over which the density and the allocations are smoothed (`smoothing_samples`).
const SMOOTHING_SAMPLES: f32 = 16.0;
/// The longest time that the writer takes to scan the whole pool, in milliseconds (`scan_whole_pool_milliseconds`).
const SCAN_WHOLE_POOL_MS: f32 = 120_000.0;
/// The assumed number of buffers scanned for each reusable buffer, before the first round (`smoothed_density`).
const FIRST_DENSITY: f32 = 10.0;

/// Settings of the background writer, by the server's names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundWriterRules {
    /// Microseconds between two rounds.
    pub bgwriter_delay_us: u64,
    /// The most pages that a round writes. With 0 the background writer writes no page.
    pub bgwriter_lru_maxpages: u32,
    /// The number of buffers to clean ahead, as a multiple of the buffers that sessions took in recent rounds.
    pub bgwriter_lru_multiplier: f64,
}

/// The position of the clock's hand or of the writer (freelist.c, `StrategySyncStart`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The number of the buffer that comes next.
    pub buffer: u32,
    /// How often the hand or the writer has passed the whole pool.
    pub passes: u32,
}

impl Position {
    /// Moves the position to the next of `frames` buffers.
    pub fn advance(&mut self, frames: u32) {
        self.buffer += 1;
        if self.buffer == frames {
            *self = Position { buffer: 0, passes: self.passes.wrapping_add(1) };
        }
    }
}

/// The writer's memory of its previous round (the static variables of `BgBufferSync`).
struct Saved {
    hand: Position,
    next_to_clean: Position,
}

/// The background writer.
pub struct BackgroundWriter {
    rules: BackgroundWriterRules,
    saved: Option<Saved>,
    smoothed_alloc: f32,
    smoothed_density: f32,
}

impl BackgroundWriter {
    /// Makes a writer that has done no round.
    pub fn new(rules: BackgroundWriterRules) -> Self {
        BackgroundWriter { rules, saved: None, smoothed_alloc: 0.0, smoothed_density: FIRST_DENSITY }
    }

    /// Does one round; returns the number of pages that it wrote. `hand` is the position of the clock's hand, and
    /// `recent_alloc` the number of buffers that were taken since the previous round.
    pub fn round(&mut self, hand: Position, recent_alloc: u32, buffers: &mut Buffers<'_>) -> u64 {
        let frames = buffers.frames();
        if self.rules.bgwriter_lru_maxpages == 0 {
            self.saved = None;
            return 0;
        }
        let (strategy_delta, mut next, bufs_to_lap) = self.places(hand, frames);
        if strategy_delta > 0 && recent_alloc > 0 {
            self.smooth_density(strategy_delta as f32 / recent_alloc as f32);
        }
        let reusable_est = (f64::from(frames - bufs_to_lap) / f64::from(self.smoothed_density)) as u32;
        let recent = recent_alloc as f32;
        if self.smoothed_alloc <= recent {
            self.smoothed_alloc = recent;
        } else {
            self.smoothed_alloc += (recent - self.smoothed_alloc) / SMOOTHING_SAMPLES;
        }
        let mut upcoming = (f64::from(self.smoothed_alloc) * self.rules.bgwriter_lru_multiplier) as u32;
        if upcoming == 0 {
            self.smoothed_alloc = 0.0;
        }
        let min_scan = (frames as f32 / (SCAN_WHOLE_POOL_MS / (self.rules.bgwriter_delay_us as f32 / 1000.0))) as u32;
        upcoming = upcoming.max(min_scan + reusable_est);
        let (mut to_scan, mut reusable, mut written) = (bufs_to_lap, reusable_est, 0);
        while to_scan > 0 && reusable < upcoming {
            let buffer = next.buffer;
            next.advance(frames);
            to_scan -= 1;
            if !buffers.is_reusable(buffer) {
                continue;
            }
            reusable += 1;
            if buffers.write(buffer) {
                written += 1;
                if written >= self.rules.bgwriter_lru_maxpages {
                    break;
                }
            }
        }
        let (scanned, found) = (bufs_to_lap - to_scan, reusable - reusable_est);
        if scanned > 0 && found > 0 {
            self.smooth_density(scanned as f32 / found as f32);
        }
        self.saved = Some(Saved { hand, next_to_clean: next });
        u64::from(written)
    }

    /// Returns how far the hand has moved since the previous round, where the writer goes on, and how many buffers it
    /// may scan until it laps the hand.
    fn places(&self, hand: Position, frames: u32) -> (u64, Position, u32) {
        let Some(Saved { hand: before, next_to_clean: next }) = &self.saved else { return (0, hand, frames) };
        let passes = u64::from(hand.passes.wrapping_sub(before.passes));
        let strategy_delta = (passes * u64::from(frames) + u64::from(hand.buffer)).saturating_sub(before.buffer.into());
        let ahead = next.passes.wrapping_sub(hand.passes).cast_signed();
        if ahead > 0 {
            (strategy_delta, *next, hand.buffer.saturating_sub(next.buffer))
        } else if ahead == 0 && next.buffer >= hand.buffer {
            (strategy_delta, *next, frames - (next.buffer - hand.buffer))
        } else {
            // The hand has overtaken the writer, which skips forward to the hand.
            (strategy_delta, hand, frames)
        }
    }

    fn smooth_density(&mut self, scanned_per_alloc: f32) {
        self.smoothed_density += (scanned_per_alloc - self.smoothed_density) / SMOOTHING_SAMPLES;
    }
}
