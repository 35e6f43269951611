//! Loads several tables at a time: distributes tables over threads, encodes rows as chunks of text, and reports
//! progress.
//!
//! With any number of threads, each table is written by only one connection, in the order of the primary key, so each
//! load puts a row into the same place. At the same time another thread generates and encodes the table's rows, up to 8
//! chunks ahead of the connection.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use bufferlab_workload::population::{Population, RowBlock};
use crossbeam_channel::{Receiver, Sender, bounded};

use super::encode::Encoder;
use crate::failure::{Failure, FailureKind};
use crate::loaded::LoadProgress;

/// The number of chunks by which the generator may be ahead of the connection.
const CHUNKS_AHEAD: usize = 8;
/// Bytes of text in one chunk, and in one INSERT: well below the smallest default of MySQL's max_allowed_packet, 4 MiB.
const CHUNK_BYTES: usize = 256 * 1024;
/// Time between two reports of a load's progress.
const TICK: Duration = Duration::from_millis(20);
/// Time between two requests to interrupt a statement.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(500);

/// A chunk of encoded rows for the server.
pub struct Chunk {
    /// The rows as text, in the form that the load's statement takes.
    pub text: Vec<u8>,
    /// The number of rows in the chunk.
    pub rows: u64,
}

/// Tables that were written: the index of each in the population, and its number of rows.
pub type Written = Vec<(usize, u64)>;

/// The work of one thread. Its argument is a function that returns the index of the next table. The work writes that
/// table and repeats, until the function returns none.
pub type WriteTables<'a> = dyn Fn(&mut dyn FnMut() -> Option<usize>) -> Result<Written, Failure> + Sync + 'a;

/// The state that the threads of a load share.
pub struct Bulk<'a> {
    population: &'a dyn Population,
    place: String,
    /// Indices of the tables that no thread has begun, the largest table last.
    waiting: Mutex<Vec<usize>>,
    rows: AtomicU64,
    /// True when the user cancelled the load, or a thread failed.
    stop: AtomicBool,
}

/// Returns the partitions of one table.
fn partitions_of(population: &dyn Population, table: usize) -> Range<usize> {
    let mut own = (0..population.partitions()).skip_while(|&partition| population.table_of(partition) != table);
    let first = own.next().unwrap_or_default();
    let end = own.find(|&partition| population.table_of(partition) != table).unwrap_or(population.partitions());
    first..end
}

impl<'a> Bulk<'a> {
    /// Makes a load of all tables of a population; `place` names the server in messages.
    pub fn new(population: &'a dyn Population, place: &str) -> Self {
        let mut waiting: Vec<usize> = (0..population.tables().len()).collect();
        waiting.sort_by_key(|&table| partitions_of(population, table).len());
        Bulk {
            population,
            place: place.to_owned(),
            waiting: Mutex::new(waiting),
            rows: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// Adds rows that the server has stored to the count for reports of progress.
    pub fn took(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    fn next_table(&self) -> Option<usize> {
        if self.stop.load(Ordering::Relaxed) { None } else { self.waiting.lock().ok()?.pop() }
    }

    /// Writes all tables with `threads` threads, each of which calls `write` with a function that returns the next
    /// table. Once `cancelled` is set, it calls `interrupt` every 0.5 s until all threads have ended, because
    /// connections may be in the middle of a long statement.
    ///
    /// # Errors
    /// The failure of the thread that stopped the others; an interruption when cancelled.
    pub fn run(
        &self,
        threads: usize,
        write: &WriteTables<'_>,
        interrupt: &mut dyn FnMut(),
        cancelled: &AtomicBool,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) -> Result<Written, Failure> {
        let written = || {
            let written = write(&mut || self.next_table());
            if written.is_err() {
                self.stop.store(true, Ordering::Relaxed);
            }
            written
        };
        std::thread::scope(|scope| {
            let tables = self.waiting.lock().map_or(1, |waiting| waiting.len().max(1));
            let writers: Vec<_> = (0..threads.clamp(1, tables)).map(|_| scope.spawn(written)).collect();
            self.watch(&writers, interrupt, cancelled, on_progress);
            self.collect(writers, cancelled)
        })
    }

    /// Reports progress until every writer has ended. If the user cancels the load, stops the writers and interrupts
    /// their connections.
    fn watch<T>(
        &self,
        writers: &[ScopedJoinHandle<'_, T>],
        interrupt: &mut dyn FnMut(),
        cancelled: &AtomicBool,
        on_progress: &mut dyn FnMut(LoadProgress),
    ) {
        let total = self.population.expected_rows();
        let (mut last, mut asked) = (0, None::<Instant>);
        loop {
            let done = writers.iter().all(ScopedJoinHandle::is_finished);
            let rows = self.rows.load(Ordering::Relaxed);
            if rows != last || done {
                on_progress(LoadProgress { rows, total });
                last = rows;
            }
            if done {
                return;
            }
            // Ask repeatedly: a server forgets a request that comes between two statements.
            if cancelled.load(Ordering::Relaxed) && asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN) {
                self.stop.store(true, Ordering::Relaxed);
                interrupt();
                asked = Some(Instant::now());
            }
            std::thread::sleep(TICK);
        }
    }

    fn collect(
        &self,
        writers: Vec<ScopedJoinHandle<'_, Result<Written, Failure>>>,
        cancelled: &AtomicBool,
    ) -> Result<Written, Failure> {
        let died = || self.died("a thread that loads rows died");
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap_or_else(|_| Err(died()))).collect();
        let (mut loaded, mut failed) = (Vec::new(), None);
        for result in results {
            match result {
                Ok(tables) => loaded.extend(tables),
                // If several threads failed, keep the failure that stopped the others, not the interruptions that
                // followed.
                Err(next) if failed.as_ref().is_none_or(|first: &Failure| first.kind == FailureKind::Interrupted) => {
                    failed = Some(next);
                }
                Err(_) => {}
            }
        }
        loaded.sort_unstable();
        match failed {
            Some(_) if cancelled.load(Ordering::Relaxed) => Err(stopped(&self.place)),
            Some(failed) => Err(failed),
            None if cancelled.load(Ordering::Relaxed) => Err(stopped(&self.place)),
            None => Ok(loaded),
        }
    }

    fn died(&self, what: &str) -> Failure {
        Failure::new(FailureKind::Internal, what, &self.place, "please report this")
    }

    /// Generates a table's rows in chunks, and passes the chunks to `send`. The text of each chunk begins with `head`.
    /// `send` sends all chunks, and returns the number of rows that the server stored. Returns the table's number of
    /// rows.
    ///
    /// # Errors
    /// The error of `send`; when the server did not store every row, or the thread that generates rows died; an
    /// interruption.
    pub fn write_table(
        &self,
        table: usize,
        name: &str,
        mut encoder: Encoder<'_>,
        head: &str,
        send: impl FnOnce(&Receiver<Chunk>) -> Result<u64, Failure>,
    ) -> Result<u64, Failure> {
        let (sender, chunks) = bounded(CHUNKS_AHEAD);
        let (generated, sent) = std::thread::scope(|scope| {
            let generator = scope.spawn(move || self.generate(table, &mut encoder, head, &sender));
            let sent = send(&chunks);
            // Close the channel: if sending failed, the generator must not wait for a place in it.
            drop(chunks);
            (generator.join(), sent)
        });
        let sent = sent?;
        let generated = generated.map_err(|_| self.died("a thread that generates rows died"))?;
        let Some(rows) = generated else { return Err(stopped(&self.place)) };
        if sent != rows {
            let what = format!("the server took {sent} of {rows} rows of {name}");
            return Err(Failure::new(FailureKind::Data, what, &self.place, "look at the server's log"));
        }
        Ok(rows)
    }

    /// Generates a table's partitions in order; returns the number of rows, or none when the load was stopped.
    fn generate(&self, table: usize, encoder: &mut Encoder<'_>, head: &str, chunks: &Sender<Chunk>) -> Option<u64> {
        let fresh = || {
            let mut text = Vec::with_capacity(CHUNK_BYTES + 4_096);
            text.extend_from_slice(head.as_bytes());
            Chunk { text, rows: 0 }
        };
        let (mut block, mut chunk, mut total) = (RowBlock::new(), fresh(), 0);
        for partition in partitions_of(self.population, table) {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            self.population.generate(partition, &mut block);
            for row in 0..block.rows() {
                encoder.append(&block, row..row + 1, &mut chunk.text);
                chunk.rows += 1;
                if chunk.text.len() >= CHUNK_BYTES {
                    total += chunk.rows;
                    // Sending fails if the connection has failed; then no more rows are needed.
                    chunks.send(std::mem::replace(&mut chunk, fresh())).ok()?;
                }
            }
        }
        total += chunk.rows;
        if chunk.rows > 0 {
            chunks.send(chunk).ok()?;
        }
        Some(total)
    }
}

/// Returns the failure of a cancelled load.
pub fn stopped(place: &str) -> Failure {
    Failure::new(FailureKind::Interrupted, "the load was stopped", place, "run it again")
}

#[cfg(test)]
mod tests {
    use bufferlab_workload::tpcc::TpccConfig;
    use bufferlab_workload::tpcc::population::TpccPopulation;

    use super::*;

    #[test]
    fn the_partitions_of_all_tables_are_all_partitions() {
        let population = TpccPopulation::new(TpccConfig::new(3, 1, 0).expect("the scale is valid"));
        let ranges: Vec<Range<usize>> = (0..9).map(|table| partitions_of(&population, table)).collect();
        assert!(ranges.iter().all(|range| !range.is_empty()));
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start), "{ranges:?}");
        assert_eq!((ranges[0].start, ranges[8].end), (0, population.partitions()));
    }

    #[test]
    fn one_failure_ends_the_other_threads_and_is_the_loads_own() {
        let population = TpccPopulation::new(TpccConfig::new(1, 1, 0).expect("the scale is valid"));
        let bulk = Bulk::new(&population, "here");
        let write = |next: &mut dyn FnMut() -> Option<usize>| {
            let mut written = Vec::new();
            while let Some(table) = next() {
                if table == 3 {
                    return Err(Failure::new(FailureKind::FullDisk, "no space", "here", ""));
                }
                written.push((table, 1));
            }
            Ok(written)
        };
        let outcome = bulk.run(2, &write, &mut || {}, &AtomicBool::new(false), &mut |_| {});
        assert_eq!(outcome.expect_err("one failed").kind, FailureKind::FullDisk);
    }

    #[test]
    fn a_cancellation_after_a_failure_interrupts_the_threads_that_still_write_until_they_end() {
        let population = TpccPopulation::new(TpccConfig::new(1, 1, 0).expect("the scale is valid"));
        let bulk = Bulk::new(&population, "here");
        let (fails, cancelled) = (AtomicBool::new(true), AtomicBool::new(false));
        let (interrupt, interrupts) = bounded::<()>(2);
        let write = |_: &mut dyn FnMut() -> Option<usize>| {
            if fails.swap(false, Ordering::Relaxed) {
                return Err(Failure::new(FailureKind::FullDisk, "no space", "here", ""));
            }
            while !bulk.stop.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            cancelled.store(true, Ordering::Relaxed);
            // This server ignores the first request to interrupt the statement.
            for _ in 0..2 {
                let _ = interrupts.recv_timeout(Duration::from_secs(5));
            }
            Ok(Vec::new())
        };
        let mut asked = 0;
        let mut ask = || {
            asked += 1;
            let _ = interrupt.try_send(());
        };
        let outcome = bulk.run(2, &write, &mut ask, &cancelled, &mut |_| {});
        assert_eq!(outcome.expect_err("it was cancelled").kind, FailureKind::Interrupted);
        assert!(asked >= 2, "a thread that still wrote was interrupted {asked} times");
    }
}
