//! The processes that write dirty pages besides the sessions: the background writer and the checkpointer.
//!
//! They free no buffer and change no usage count, so that reads do not depend on them. A session writes a dirty page
//! whose buffer it takes (`postgres.rs`).

use serde::{Deserialize, Serialize};

use super::background_writer::{BackgroundWriter, Position};
use super::checkpointer::{Checkpointer, PAUSE_US};
use super::{NONE, Page};
use crate::replay::{Counts, OneIn};

/// The mark of a dirty page (buf_internals.h, `BM_DIRTY`).
pub const DIRTY: u8 = 1;
/// The mark of a page that the checkpoint wants to write (`BM_CHECKPOINT_NEEDED`).
const CHECKPOINT_NEEDED: u8 = 2;
/// The mark of a page that the log has whole since the last checkpoint's begin; a page keeps it outside the pool.
pub const LOGGED: u8 = 4;

/// The most bytes of a change or an image: any sum over a trace fits into 64 bits.
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

/// Settings of the background writer, by the server's names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackgroundWriterRules {
    /// Microseconds between two rounds.
    pub bgwriter_delay_us: u64,
    /// The most pages of a round; 0: it writes none.
    pub bgwriter_lru_maxpages: u32,
    /// The pages to clean ahead, over those that rounds before needed.
    pub bgwriter_lru_multiplier: f64,
}

/// The growth of the log (xloginsert.c, `XLogRecordAssemble`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogRules {
    /// Bytes of a change, in the mean.
    pub change_bytes: u64,
    /// Bytes more of a page's first change after a checkpoint's begin, which logs the whole page; 0: none does.
    pub image_bytes: u64,
}

/// Settings of checkpoints, by the server's names, and the log between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRules {
    /// Microseconds from a checkpoint's begin to the next one's, at most.
    pub checkpoint_timeout_us: u64,
    /// The share of this time over which a checkpoint spreads its writes.
    pub checkpoint_completion_target: f64,
    /// Bytes of log after which a checkpoint begins (xlog.c, `XLogCheckpointNeeded`).
    pub bytes_to_checkpoint: u64,
    /// Bytes of log by which a checkpoint wants to be complete (xlog.c, `CalculateCheckpointSegments`).
    pub bytes_between: u64,
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

    /// Adapts the rules to a pool that gets a share of the pages, and so of their changes.
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

/// The buffers, as processes see them that write dirty pages.
pub struct Buffers<'a> {
    pub(super) pages: &'a mut [Page],
    pub(super) buffers: &'a [u32],
}

impl Buffers<'_> {
    /// Returns the number of buffers.
    pub fn frames(&self) -> u32 {
        self.buffers.len() as u32
    }

    /// Returns whether a buffer's usage count is 0, or it has no page (bufmgr.c, `SyncOneBuffer`: `BUF_REUSABLE`).
    pub fn is_reusable(&self, buffer: u32) -> bool {
        let page = self.buffers[buffer as usize];
        page == NONE || self.pages[page as usize].usage_count == 0
    }

    /// Writes the page in a buffer if it is dirty; returns whether it did (bufmgr.c, `FlushBuffer`).
    pub fn write(&mut self, buffer: u32) -> bool {
        let page = self.buffers[buffer as usize];
        page != NONE && self.pages[page as usize].clean()
    }

    /// Marks every dirty page for a checkpoint, and puts them into `marked`, in the order of their numbers, which is
    /// that of their files (bufmgr.c, `BufferSync`). From now on the log has no page whole.
    pub fn begin_checkpoint(&mut self, marked: &mut Vec<u32>) {
        marked.clear();
        for (number, page) in (0..).zip(self.pages.iter_mut()) {
            page.marks &= !LOGGED;
            if page.marks & DIRTY != 0 {
                debug_assert_ne!(page.buffer, NONE, "page {number} is dirty and in no buffer");
                page.marks |= CHECKPOINT_NEEDED;
                marked.push(number);
            }
        }
    }

    /// Writes a page that still has the checkpoint's mark; returns whether it did. A page that was written since, or
    /// that left its buffer, has lost the mark.
    pub fn write_marked(&mut self, page: u32) -> bool {
        let page = &mut self.pages[page as usize];
        page.marks & CHECKPOINT_NEEDED != 0 && page.clean()
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
    /// Makes processes that have done nothing yet.
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

    /// Logs a change of a page, with the whole page if the log lacks it.
    #[inline]
    pub fn log_change(&mut self, page: &mut Page) {
        if page.marks & LOGGED == 0 {
            page.marks |= LOGGED;
            self.log_bytes += self.log.image_bytes;
        }
        self.log_bytes += self.log.change_bytes;
    }

    /// Returns the time of the next work.
    pub fn due_us(&self) -> u64 {
        self.next_round_us.min(self.next_checkpoint_look_us)
    }

    /// Does all work that is due at `now_us`, in the order of time. `hand` is where the clock stands.
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
