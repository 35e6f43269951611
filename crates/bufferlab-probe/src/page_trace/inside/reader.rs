//! Moves records into a spool, from the rings of a server that records itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bufferlab_inside::layout::{BEGINS, FREE, RECORD_BYTES, RING_BYTES, SITE_AT, USED};

use super::super::decode::Decoder;
use super::super::recording::Spool;
use super::super::recording::Told;
use super::shared::Shared;
use crate::clock::monotonic_ns;
use crate::process::DriverThread;

/// The pause between two rounds of reading; a shorter pause follows while a ring fills fast.
const PAUSE: Duration = Duration::from_millis(10);
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// A ring that holds this many bytes is filling fast.
const FAST_BYTES: u64 = RING_BYTES as u64 / 8;
/// The number of free slots whose memory the reader allocates in advance, as long as the slots' total is at most
/// `MOST_AHEAD` (8 MiB). The memory of further slots counts as the server's.
const AHEAD: usize = 8;
const MOST_AHEAD: usize = 62;
/// The number of rounds between two searches for processes that ended without freeing their slots.
const ROUNDS_PER_LOOK: u32 = 10;
/// Counts of the time-stamp counter, about a microsecond, by which a record may be older than the previous one in its
/// ring. A processor may read its counter before it has finished earlier instructions. The order of records needs no
/// higher precision.
const NEAR_COUNTS: u64 = 1 << 12;

pub(super) struct Reader {
    shared: Arc<Shared>,
    decoder: Decoder,
    spool: Spool,
    clock: Clock,
    /// The state of each slot that is or was used.
    slots: Vec<Slot>,
    touched: usize,
    round: u32,
    /// The number of records that could not be decoded, because they were malformed.
    unread: u64,
    /// The number of records that are older than the record before them in their ring.
    steps_back: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Bytes of the slot's ring that this reader has read so far.
    read: u64,
    /// The time-stamp counter's value in the record of this slot that was read last.
    count: u64,
    /// The number that records in the spool have for the slot's present thread.
    thread: u32,
    /// Whether the slot lost records, or the server wrote invalid values into it, so that its other records are
    /// useless.
    is_over: bool,
}

impl Reader {
    pub fn new(shared: Arc<Shared>, decoder: Decoder, spool: Spool) -> Self {
        let clock = Clock::new();
        Self { shared, decoder, spool, clock, slots: Vec::new(), touched: 0, round: 0, unread: 0, steps_back: 0 }
    }

    /// Moves records until `stop` is set, and then the remaining records. The reading thread executes only this
    /// function.
    pub fn read_until(mut self, stop: &AtomicBool) -> Told {
        let cpu = DriverThread::current();
        loop {
            let last = stop.load(Ordering::Acquire);
            self.shared.live();
            let fullest = self.drain();
            if last {
                break;
            }
            std::thread::sleep(if fullest > FAST_BYTES { SHORT_PAUSE } else { PAUSE });
        }
        self.shared.close();
        self.told(cpu.cpu_ns().unwrap_or(0))
    }

    fn told(self, reader_cpu_ns: u64) -> Told {
        let mut spooled = self.spool.finish_with(&self.decoder.carried);
        if self.unread > 0 {
            let unread = self.unread;
            spooled.problem.get_or_insert(format!("{unread} records of the page trace cannot be read"));
        }
        let header = self.shared.header();
        let mut told = Told { spooled, ..Told::default() };
        told.lost = header.dropped.load(Ordering::Relaxed);
        told.steps_back = self.steps_back;
        told.set_up_ns = header.set_up_ns.load(Ordering::Relaxed);
        for (number, slot) in self.slots.iter().enumerate() {
            let head = self.shared.slot(number);
            // The server may write any number here, so the sum must not overflow.
            told.waits = told.waits.saturating_add(head.waits.load(Ordering::Relaxed));
            told.wait_ns = told.wait_ns.saturating_add(head.wait_ns.load(Ordering::Relaxed));
            if slot.is_over {
                let missed = head.write.load(Ordering::Relaxed).saturating_sub(slot.read) / RECORD_BYTES as u64;
                told.lost = told.lost.saturating_add(missed.max(1));
            }
        }
        let Decoder { relations, threads, .. } = self.decoder;
        Told { relations, threads, reader_cpu_ns, ..told }
    }

    /// Reads the rings; returns the number of bytes that the fullest ring had.
    fn drain(&mut self) -> u64 {
        self.grow();
        let looks_for_dead = self.round.is_multiple_of(ROUNDS_PER_LOOK);
        self.round = self.round.wrapping_add(1);
        let gone = if looks_for_dead { self.gone() } else { Vec::new() };
        let ends: Vec<u64> =
            (0..self.slots.len()).map(|slot| self.shared.slot(slot).write.load(Ordering::Acquire)).collect();
        // Records up to these ends were made before this reading of the clocks.
        let time = self.clock.look();
        let mut fullest = 0;
        for (number, end) in ends.into_iter().enumerate() {
            let bytes = end.wrapping_sub(self.slots[number].read);
            if bytes == 0 || self.slots[number].is_over {
                continue;
            }
            let gave_up = self.shared.slot(number).given_up.load(Ordering::Acquire) != 0;
            // A trampoline adds whole records, and no more than there is room for.
            if gave_up || bytes > RING_BYTES as u64 || !bytes.is_multiple_of(RECORD_BYTES as u64) {
                self.slots[number].is_over = true;
                continue;
            }
            fullest = fullest.max(bytes);
            self.read(number, end, &time);
            self.shared.slot(number).read.store(end, Ordering::Release);
        }
        // The rings of these processes have been read to the end now.
        gone.into_iter().for_each(|(slot, process)| self.shared.free(slot, process));
        fullest
    }

    fn read(&mut self, number: usize, end: u64, time: &impl Fn(u64) -> u64) {
        let Self { shared, decoder, spool, slots, unread, steps_back, .. } = self;
        let slot = &mut slots[number];
        while slot.read != end {
            let record = shared.record(number, slot.read);
            slot.read = slot.read.wrapping_add(RECORD_BYTES as u64);
            let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
            let count = u64::from(word(0)) | u64::from(word(4)) << 32;
            // A ring's records are in the order of time, even if a thread moved to another processor.
            *steps_back += u64::from(count.saturating_add(NEAR_COUNTS) < slot.count);
            slot.count = count;
            if record[SITE_AT] == BEGINS {
                slot.thread = decoder.thread(word(12));
                continue;
            }
            let t_ns = time(count);
            let read = decoder.accesses(slot.thread, t_ns, &record, &mut |access| spool.push_from(number, &access));
            *unread += u64::from(read.is_none());
        }
    }

    /// Finds slots that threads have begun to use, and allocates memory for the next slots. A thread takes the first
    /// free slot.
    fn grow(&mut self) {
        let others = &self.shared.states()[self.slots.len()..];
        let new = others.iter().take_while(|state| state.load(Ordering::Acquire) != FREE).count();
        let used = self.slots.len() + new;
        self.slots.resize(used, Slot::default());
        while self.touched < MOST_AHEAD.min(used + AHEAD) {
            self.shared.touch(self.touched);
            self.touched += 1;
        }
    }

    /// Returns the slots that processes had when they ended and did not free, each with the process's ID.
    fn gone(&self) -> Vec<(usize, u32)> {
        let states = self.shared.states()[..self.slots.len()].iter().enumerate();
        // Threads of one process often have consecutive slots.
        let mut asked = (0, false);
        states
            .filter(|(_, state)| state.load(Ordering::Acquire) == USED)
            .map(|(number, _)| (number, self.shared.slot(number).process.load(Ordering::Relaxed)))
            .filter(|(_, process)| {
                if *process != asked.0 {
                    asked = (*process, is_gone(process.cast_signed()));
                }
                asked.1
            })
            .collect()
    }
}

fn is_gone(process: libc::pid_t) -> bool {
    // SAFETY: signal 0 asks whether the process is there, and does nothing to it.
    process > 0
        && unsafe { libc::kill(process, 0) } != 0
        && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Converts counts of the processor's time-stamp counter to CLOCK_MONOTONIC, by linear interpolation between two
/// readings of both.
#[derive(Debug)]
struct Clock {
    before: (u64, u64),
    ns_per_count: f64,
}

impl Clock {
    fn new() -> Self {
        Self { before: counter_and_clock(), ns_per_count: 0.0 }
    }

    /// Reads both clocks; returns a function that gives the time of each count since the last reading, in nanoseconds.
    fn look(&mut self) -> impl Fn(u64) -> u64 + use<> {
        let now = counter_and_clock();
        let (counts, ns) = (now.0.saturating_sub(self.before.0), now.1.saturating_sub(self.before.1));
        if counts > 0 && ns > 0 {
            self.ns_per_count = ns as f64 / counts as f64;
        }
        let (first, first_ns) = self.before;
        // The factor is in units of 2^-32 ns: a product of whole numbers takes a third of the time that conversions
        // take.
        let slope = i128::from((self.ns_per_count * 4_294_967_296.0) as i64);
        self.before = now;
        move |count| {
            let counts = count.wrapping_sub(first).cast_signed();
            first_ns.saturating_add_signed(((i128::from(counts) * slope) >> 32) as i64)
        }
    }
}

/// Returns the counter and the clock at one moment, by the quickest of several tries.
fn counter_and_clock() -> (u64, u64) {
    let tries = (0..4).map(|_| {
        let before = counter();
        let ns = monotonic_ns();
        let after = counter();
        (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
    });
    tries.min().map_or((0, 0), |(_, count, ns)| (count, ns))
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    bufferlab_inside::sys::counter()
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use bufferlab_model::trace::Kind;

    use super::super::super::fetch;
    use super::super::super::recording::SpoolAsked;
    use super::super::super::recording::{Settings, Site};
    use super::*;

    /// Returns a reader of one ring, into which the test writes as a server would.
    fn reader(folder: &tempfile::TempDir) -> Reader {
        let site = Site {
            at: "touch".into(),
            kinds: vec![Kind::Get],
            kinds_if_flag: None,
            offset: 0,
            byte: 0x55,
            semaphore: None,
            fetch: vec!["%di".into(), "%si".into()],
        };
        let spool = SpoolAsked { path: folder.path().join("spool"), limit_bytes: 1 << 20 };
        let (binary, fields) = ("server".into(), vec!["space:u32".into(), "page:u32".into()]);
        let settings = Settings { binary, spool, fields, modes_if_in_pool: vec![], sites: vec![site] };
        let format = fetch::format(&fetch::parts(&settings).unwrap());
        let decoder = Decoder::new(&format, &settings).unwrap();
        let shared = Shared::new().unwrap();
        shared.states()[0].store(USED, Ordering::Relaxed);
        Reader::new(Arc::new(shared), decoder, Spool::create(&settings.spool).unwrap())
    }

    /// Writes records with these counts. Each record either begins a thread or is an access.
    fn write(reader: &Reader, records: &[(u64, bool)]) {
        for (count, begins) in records {
            let mut record = [0; RECORD_BYTES];
            record[..8].copy_from_slice(&count.to_le_bytes());
            record[SITE_AT] = if *begins { BEGINS } else { 0 };
            reader.shared.put_record(0, record);
        }
    }

    #[test]
    fn a_server_that_writes_no_whole_records_or_takes_some_back_has_lost_records() {
        for (first, then) in [(33, 33), (1, 1), (64, 32), (64, 65), (0, u64::MAX), (64, 64 + RING_BYTES as u64 + 32)] {
            let folder = tempfile::tempdir().unwrap();
            let mut reader = reader(&folder);
            for written in [first, then, then] {
                reader.shared.slot(0).write.store(written, Ordering::Relaxed);
                reader.drain();
            }
            let told = reader.told(0);
            assert!(told.lost >= 1, "{first}, then {then}");
        }
    }

    #[test]
    fn numbers_of_the_server_that_cannot_be_are_told_as_the_largest() {
        let folder = tempfile::tempdir().unwrap();
        let mut reader = reader(&folder);
        let slot = reader.shared.slot(0);
        for number in [&slot.waits, &slot.wait_ns, &slot.write] {
            number.store(u64::MAX, Ordering::Relaxed);
        }
        reader.shared.states()[1].store(USED, Ordering::Relaxed);
        reader.shared.slot(1).waits.store(2, Ordering::Relaxed);
        reader.shared.slot(1).wait_ns.store(2, Ordering::Relaxed);
        reader.shared.header().dropped.store(u64::MAX, Ordering::Relaxed);
        reader.drain();
        let told = reader.told(0);
        assert_eq!((told.lost, told.waits, told.wait_ns), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn a_record_that_is_older_than_the_one_before_it_is_counted_also_where_a_ring_has_another_thread() {
        let far = 10 * NEAR_COUNTS;
        for (records, steps_back) in [
            (vec![(far, true), (far, false), (far + 1, false), (far + 1, false)], 0),
            (vec![(far, true), (far + 9, false), (far + 9 - NEAR_COUNTS, false)], 0),
            (vec![(far, true), (far + 9, false), (far + 8 - NEAR_COUNTS, false), (far + 9, false)], 1),
            (vec![(2 * far, true), (3 * far, false), (2 * far, true), (far, false)], 2),
            (vec![(u64::MAX, true), (u64::MAX, false), (0, false)], 1),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let mut reader = reader(&folder);
            // The records come in two rounds, as a step back may lie between them.
            for half in records.chunks(2) {
                write(&reader, half);
                reader.drain();
            }
            let told = reader.told(0);
            assert_eq!((told.steps_back, told.lost, told.spooled.problem), (steps_back, 0, None), "{records:?}");
        }
    }

    #[test]
    fn a_process_that_has_ended_is_gone_and_one_that_has_not_said_who_it_is_is_not() {
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        let process = child.id().cast_signed();
        child.wait().expect("our child");
        assert!(is_gone(process));
        assert!(!is_gone(0));
        assert!(!is_gone(std::process::id().cast_signed()));
    }

    #[test]
    fn a_count_between_two_looks_is_a_time_between_them() {
        let mut clock = Clock::new();
        for _ in 0..20 {
            let before = monotonic_ns();
            let count = counter();
            let after = monotonic_ns();
            std::thread::sleep(std::time::Duration::from_millis(2));
            let found = clock.look()(count);
            assert!((before.saturating_sub(20_000)..=after + 20_000).contains(&found), "{before} {found} {after}");
        }
    }
}
