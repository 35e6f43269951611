//! Pages that an engine writes through a log: changed pages to the log, and at a checkpoint from the log into the
//! database. They depend on the transactions alone, and not on the pool.

use std::collections::HashSet;
use std::ops::Sub;

use serde::Serialize;

/// The counts of a log and its checkpoints since the run began, or in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogWrites {
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Pages that checkpoints wrote into the database.
    pub checkpointed_pages: u64,
    /// The most pages that one transaction changed since the run began.
    pub most_changed_pages: u64,
}

impl Sub for LogWrites {
    type Output = LogWrites;

    /// Returns the counts since `before`; the maximum stays that of the whole run.
    fn sub(self, before: LogWrites) -> LogWrites {
        LogWrites {
            log_bytes: self.log_bytes - before.log_bytes,
            checkpointed_pages: self.checkpointed_pages - before.checkpointed_pages,
            most_changed_pages: self.most_changed_pages,
        }
    }
}

/// SQLite's write-ahead log of one connection. A checkpoint after a commit empties it, because no other connection
/// reads (wal.c, `walRestartLog`).
pub(crate) struct Wal {
    page_bytes: u32,
    /// The frames of the log from which on a commit begins a checkpoint (main.c, `sqlite3WalDefaultHook`).
    checkpoint_frames: u64,
    frames: u64,
    pages: HashSet<u32>,
    written: LogWrites,
}

impl Wal {
    /// Bytes of the log's header, which the first frame of an empty log follows (wal.c, `WAL_HDRSIZE`).
    const HEADER_BYTES: u64 = 32;
    /// Bytes in front of each page (wal.c, `WAL_FRAME_HDRSIZE`).
    const FRAME_BYTES: u64 = 24;

    /// Makes an empty log for pages of `page_bytes` bytes.
    pub(crate) fn new(page_bytes: u32, checkpoint_frames: u64) -> Self {
        Wal { page_bytes, checkpoint_frames, frames: 0, pages: HashSet::new(), written: LogWrites::default() }
    }

    /// Appends each page that a transaction changed once (wal.c, `sqlite3WalFrames`). If the log has reached its limit,
    /// a checkpoint then writes each page of the log once (wal.c, `walCheckpoint`).
    pub(crate) fn commit(&mut self, mut changed: Vec<u32>) {
        changed.sort_unstable();
        changed.dedup();
        let frames = changed.len() as u64;
        if frames == 0 {
            return;
        }
        let header = if self.frames == 0 { Self::HEADER_BYTES } else { 0 };
        self.written.log_bytes += header + frames * (Self::FRAME_BYTES + u64::from(self.page_bytes));
        self.written.most_changed_pages = self.written.most_changed_pages.max(frames);
        self.frames += frames;
        self.pages.extend(changed);
        debug_assert!(self.pages.len() as u64 <= self.frames, "a page of the log has no frame");
        if self.frames >= self.checkpoint_frames {
            self.written.checkpointed_pages += self.pages.len() as u64;
            self.frames = 0;
            self.pages.clear();
        }
    }

    /// Returns the writes so far.
    pub(crate) fn written(&self) -> LogWrites {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{LogWrites, Wal};

    /// Computes the writes of some commits by a simple slow method: keeps each frame, and sorts the whole log at a
    /// checkpoint.
    fn slowly(commits: &[Vec<u32>], page_bytes: u64, checkpoint_frames: usize) -> LogWrites {
        let (mut log, mut told) = (Vec::new(), LogWrites::default());
        for commit in commits {
            let distinct: Vec<u32> = (0..20).filter(|page| commit.contains(page)).collect();
            if log.is_empty() && !distinct.is_empty() {
                told.log_bytes += 32;
            }
            told.log_bytes += distinct.iter().map(|_| 24 + page_bytes).sum::<u64>();
            told.most_changed_pages = told.most_changed_pages.max(distinct.len() as u64);
            log.extend(distinct);
            if log.len() >= checkpoint_frames {
                log.sort_unstable();
                let first = log.iter().enumerate().filter(|&(place, page)| place == 0 || log[place - 1] != *page);
                told.checkpointed_pages += first.count() as u64;
                log.clear();
            }
        }
        told
    }

    proptest! {
        #[test]
        fn a_log_writes_what_its_slow_twin_writes(
            commits in prop::collection::vec(prop::collection::vec(0_u32..20, 0..9), 0..60),
            checkpoint_frames in 1_usize..40,
        ) {
            let mut wal = Wal::new(512, checkpoint_frames as u64);
            commits.iter().for_each(|commit| wal.commit(commit.clone()));
            prop_assert_eq!(wal.written(), slowly(&commits, 512, checkpoint_frames));
        }
    }

    #[test]
    fn a_window_has_its_own_counts_and_the_maximum_of_the_whole_run() {
        let mut wal = Wal::new(4096, 3);
        wal.commit(vec![1, 2, 2]);
        let before = wal.written();
        wal.commit(vec![2]);
        assert_eq!(before, LogWrites { log_bytes: 32 + 2 * 4120, checkpointed_pages: 0, most_changed_pages: 2 });
        assert_eq!(wal.written() - before, LogWrites { log_bytes: 4120, checkpointed_pages: 2, most_changed_pages: 2 });
    }
}
