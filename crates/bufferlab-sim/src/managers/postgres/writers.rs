//! The processes other than sessions that write dirty pages: the background writer and the checkpointer.
//!
//! They free no buffer and change no usage count, so reads do not depend on them. Sessions write dirty pages too, if
//! they take the pages' buffers (`postgres.rs`).

use serde::{Deserialize, Serialize};

use super::background_writer::{BackgroundWriter, BackgroundWriterRules, Position};
use super::buffers::{Buffers, LOGGED, Page};
use super::checkpointer::{CheckpointRules, Checkpointer, PAUSE_US};
use crate::replay::{Counts, OneIn};

/// The most bytes that settings may give for a change or an image. With this limit, any sum over a trace fits into 64
/// bits.
const MOST_RECORD_BYTES: u64 = 1 << 30;

/// How the server writes dirty pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteRules {
    /// The rules of the background writer.
    pub background_writer: BackgroundWriterRules,
    /// The rules of checkpoints.
    pub checkpoints: CheckpointRules,
    /// The log's growth.
    pub log: LogRules,
}

/// The growth of the log (xloginsert.c, `XLogRecordAssemble`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRules {
    /// Mean bytes of log for a change.
    pub change_bytes: u64,
    /// Additional bytes of log for a page's first change after a checkpoint has begun, which logs a full image; 0 if
    /// the server logs none.
    pub image_bytes: u64,
}

impl WriteRules {
    /// Refuses numbers that no server has.
    pub fn check(&self) -> Result<(), String> {
        let WriteRules { background_writer: writer, checkpoints, log } = self;
        let least = [
            writer.bgwriter_delay_us,
            checkpoints.checkpoint_timeout_us,
            checkpoints.bytes_to_checkpoint,
            checkpoints.bytes_between,
        ];
        let fits = least.iter().all(|&number| number >= 1)
            && log.change_bytes.max(log.image_bytes) <= MOST_RECORD_BYTES
            && (0.0..=10.0).contains(&writer.bgwriter_lru_multiplier)
            && (0.0..=1.0).contains(&checkpoints.checkpoint_completion_target);
        fits.then_some(()).ok_or_else(|| "times and bytes of writes are 1 or more, and shares are shares".to_owned())
    }

    /// Adapts the rules to a sample: a pool that gets only a share of the pages, and so of their changes.
    pub fn sample(&mut self, one_in: OneIn) {
        let WriteRules { background_writer, checkpoints, .. } = self;
        let most = &mut background_writer.bgwriter_lru_maxpages;
        if *most > 0 {
            *most = one_in.of(*most).max(1);
        }
        let share = f64::from(one_in.of(1 << 20)) / f64::from(1 << 20);
        for bytes in [&mut checkpoints.bytes_to_checkpoint, &mut checkpoints.bytes_between] {
            *bytes = ((*bytes as f64 * share) as u64).max(1);
        }
    }
}

/// The processes that write, and when they work next.
pub struct Writers {
    background_writer: BackgroundWriter,
    checkpointer: Checkpointer,
    delay_us: u64,
    next_round_us: u64,
    next_checkpoint_look_us: u64,
    /// Buffers that were taken since the background writer's last round (freelist.c, `numBufferAllocs`).
    pub recent_alloc: u32,
    log: LogRules,
    /// Bytes of the log so far.
    log_bytes: u64,
}

impl Writers {
    /// Makes a background writer and a checkpointer that have done nothing yet.
    pub fn new(rules: &WriteRules) -> Self {
        let delay_us = rules.background_writer.bgwriter_delay_us;
        Writers {
            background_writer: BackgroundWriter::new(rules.background_writer.clone()),
            checkpointer: Checkpointer::new(rules.checkpoints.clone()),
            delay_us,
            next_round_us: delay_us,
            next_checkpoint_look_us: PAUSE_US,
            recent_alloc: 0,
            log: rules.log.clone(),
            log_bytes: 0,
        }
    }

    /// Logs a change of a page, with a full image if the log lacks one; returns the number of images.
    #[inline]
    pub fn log_change(&mut self, page: &mut Page) -> u64 {
        self.log_bytes += self.log.change_bytes;
        if page.marks & LOGGED != 0 {
            return 0;
        }
        page.marks |= LOGGED;
        self.log_bytes += self.log.image_bytes;
        1
    }

    /// Returns the time of the next work.
    pub fn due_us(&self) -> u64 {
        self.next_round_us.min(self.next_checkpoint_look_us)
    }

    /// Does all work that is due at `now_us`, in the order of time. `hand` is the position of the clock's hand.
    pub fn work(&mut self, now_us: u64, hand: Position, buffers: &mut Buffers<'_>, counts: &mut Counts) {
        while self.due_us() <= now_us {
            if self.next_round_us <= self.next_checkpoint_look_us {
                counts.lru_writes += self.background_writer.round(hand, self.recent_alloc, buffers);
                self.recent_alloc = 0;
                self.next_round_us += self.delay_us;
            } else {
                let at_us = self.next_checkpoint_look_us;
                counts.checkpoint_writes += self.checkpointer.work(at_us, self.log_bytes, buffers);
                self.next_checkpoint_look_us += PAUSE_US;
            }
        }
    }
}
