//! The checkpointer: decides when a checkpoint begins, and spreads the checkpoint's writes over time (checkpointer.c,
//! `CheckpointerMain` and `IsCheckpointOnSchedule`; bufmgr.c, `BufferSync`).
//!
//! A checkpoint writes the pages that are dirty when it begins, unless another process writes them first. It begins
//! `checkpoint_timeout` after the begin of the one before, or once the log has grown by a given number of bytes.
//!
//! Left out: checkpoints that a command asks for, and those that a server skips because the log has not grown.

use serde::{Deserialize, Serialize};

use super::buffers::Buffers;

/// A checkpoint that is ahead of its schedule sleeps this long (checkpointer.c, `CheckpointWriteDelay`).
pub const PAUSE_US: u64 = 100_000;

/// Settings of checkpoints, by the server's names, and the log between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRules {
    /// Microseconds from a checkpoint's begin to the next one's, at most.
    pub checkpoint_timeout_us: u64,
    /// The share of this time over which a checkpoint spreads its writes.
    pub checkpoint_completion_target: f64,
    /// Bytes of log since the last checkpoint's begin after which the next one begins (xlog.c, `XLogCheckpointNeeded`).
    pub bytes_to_checkpoint: u64,
    /// Bytes of log between two checkpoints, from which a checkpoint's schedule is computed (xlog.c,
    /// `CalculateCheckpointSegments`).
    pub bytes_between: u64,
}

/// The checkpointer.
pub struct Checkpointer {
    rules: CheckpointRules,
    /// The time, and the log's bytes, at the begin of the last checkpoint.
    began_us: u64,
    began_log_bytes: u64,
    /// The pages that the checkpoint wants to write, in the order of their files.
    marked: Vec<u32>,
    /// How many of the marked pages the checkpoint has processed.
    processed: usize,
}

impl Checkpointer {
    /// Makes a checkpointer whose clock starts at 0, as the server's does when the server starts.
    pub fn new(rules: CheckpointRules) -> Self {
        Checkpointer { rules, began_us: 0, began_log_bytes: 0, marked: Vec::new(), processed: 0 }
    }

    /// Begins a checkpoint if one is due, and writes the pages that its schedule asks for; returns their number.
    pub fn work(&mut self, now_us: u64, log_bytes: u64, buffers: &mut Buffers<'_>) -> u64 {
        if self.processed == self.marked.len() && self.is_due(now_us, log_bytes) {
            (self.began_us, self.began_log_bytes, self.processed) = (now_us, log_bytes, 0);
            buffers.begin_checkpoint(&mut self.marked);
        }
        let mut written = 0;
        while let Some(&page) = self.marked.get(self.processed) {
            self.processed += 1;
            written += u64::from(buffers.write_marked(page));
            if self.is_on_schedule(now_us, log_bytes) {
                break;
            }
        }
        written
    }

    fn is_due(&self, now_us: u64, log_bytes: u64) -> bool {
        let by_time = now_us - self.began_us >= self.rules.checkpoint_timeout_us;
        by_time || log_bytes - self.began_log_bytes >= self.rules.bytes_to_checkpoint
    }

    /// Returns whether the checkpoint may pause: its share of written pages is larger than the shares of time and of
    /// log that have passed.
    fn is_on_schedule(&self, now_us: u64, log_bytes: u64) -> bool {
        let share = |passed: u64, whole: u64| passed as f64 / whole as f64;
        let progress = share(self.processed as u64, self.marked.len() as u64) * self.rules.checkpoint_completion_target;
        progress >= share(log_bytes - self.began_log_bytes, self.rules.bytes_between)
            && progress >= share(now_us - self.began_us, self.rules.checkpoint_timeout_us)
    }
}
