//! Moves records from the rings of a server that records itself into a spool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bufferlab_inside::layout::{BEGINS, FREE, RECORD_BYTES, RING_BYTES, SITE_AT, USED};

use super::super::decode::Decoder;
use super::super::recorder::{Method, Told};
use super::super::recording::Spool;
use super::clock::Clock;
use super::shared::Shared;
use crate::process::DriverThread;

/// The pause between two rounds; the shorter one while a ring fills fast.
const PAUSE: Duration = Duration::from_millis(10);
const SHORT_PAUSE: Duration = Duration::from_millis(1);
/// A ring filled to this part is filling fast.
const FAST_BYTES: u64 = RING_BYTES as u64 / 8;
/// Slots that have memory before anybody wants them, and the slots for which that is done: 8 MiB. A server of so many
/// threads that it uses more pays for theirs.
const AHEAD: usize = 8;
const MOST_AHEAD: usize = 62;
/// Rounds between two looks for processes that have gone without a word.
const ROUNDS_PER_LOOK: u32 = 10;

pub(super) struct Reader {
    shared: Arc<Shared>,
    decoder: Decoder,
    spool: Spool,
    clock: Clock,
    /// Of each slot that is or was used.
    slots: Vec<Slot>,
    touched: usize,
    round: u32,
    /// Malformed records.
    unread: u64,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Bytes that were read.
    read: u64,
    /// Our number of the thread.
    thread: u32,
    /// It lost records, so that those that are left belong nowhere.
    is_over: bool,
}

impl Reader {
    pub fn new(shared: Arc<Shared>, decoder: Decoder, spool: Spool) -> Self {
        let clock = Clock::new();
        Self { shared, decoder, spool, clock, slots: Vec::new(), touched: 0, round: 0, unread: 0 }
    }

    /// Moves records until told to stop, and then the rest; the body of the thread.
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
        let mut spooled = self.spool.finish();
        if self.unread > 0 {
            let unread = self.unread;
            spooled.problem.get_or_insert(format!("{unread} records of the page trace cannot be read"));
        }
        let header = self.shared.header();
        let mut told = Told::empty(Method::Inside, spooled);
        told.lost = header.dropped.load(Ordering::Relaxed);
        told.set_up_ns = header.set_up_ns.load(Ordering::Relaxed);
        for (number, slot) in self.slots.iter().enumerate() {
            let head = self.shared.slot(number);
            told.waits += head.waits.load(Ordering::Relaxed);
            told.wait_ns += head.wait_ns.load(Ordering::Relaxed);
            if slot.is_over {
                told.lost += head.write.load(Ordering::Relaxed).saturating_sub(slot.read) / RECORD_BYTES as u64;
            }
        }
        let Decoder { relations, threads, .. } = self.decoder;
        Told { relations, threads, reader_cpu_ns, ..told }
    }

    /// Reads what is in the rings; returns the bytes of the fullest.
    fn drain(&mut self) -> u64 {
        self.grow();
        let looks_for_dead = self.round.is_multiple_of(ROUNDS_PER_LOOK);
        self.round = self.round.wrapping_add(1);
        let gone = if looks_for_dead { self.gone() } else { Vec::new() };
        let ends: Vec<u64> =
            (0..self.slots.len()).map(|slot| self.shared.slot(slot).write.load(Ordering::Acquire)).collect();
        // Records up to these ends were made before this look at the clocks.
        let time = self.clock.look();
        let mut fullest = 0;
        for (number, end) in ends.into_iter().enumerate() {
            let bytes = end.wrapping_sub(self.slots[number].read);
            if bytes == 0 || self.slots[number].is_over {
                continue;
            }
            let gave_up = self.shared.slot(number).given_up.load(Ordering::Acquire) != 0;
            if gave_up || bytes > RING_BYTES as u64 {
                self.slots[number].is_over = true;
                continue;
            }
            fullest = fullest.max(bytes);
            self.read(number, end, &time);
            self.shared.slot(number).read.store(end, Ordering::Release);
        }
        // Their rings have been read to the end now.
        gone.into_iter().for_each(|(slot, process)| self.shared.free(slot, process));
        fullest
    }

    fn read(&mut self, number: usize, end: u64, time: &impl Fn(u64) -> u64) {
        let Self { shared, decoder, spool, slots, unread, .. } = self;
        let slot = &mut slots[number];
        while slot.read != end {
            let record = shared.record(number, slot.read);
            slot.read = slot.read.wrapping_add(RECORD_BYTES as u64);
            let word = |at: usize| u32::from_le_bytes([record[at], record[at + 1], record[at + 2], record[at + 3]]);
            if record[SITE_AT] == BEGINS {
                slot.thread = decoder.thread(word(12));
                continue;
            }
            let t_ns = time(u64::from(word(0)) | u64::from(word(4)) << 32);
            let read = decoder.accesses(slot.thread, t_ns, &record, &mut |access| spool.push_from(number, &access));
            *unread += u64::from(read.is_none());
        }
    }

    /// Looks for slots that came into use, and takes memory for the next. A thread takes the first slot that it can have.
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

    /// Returns the slots of processes that have gone without a word, and these processes.
    fn gone(&self) -> Vec<(usize, u32)> {
        let states = self.shared.states()[..self.slots.len()].iter().enumerate();
        // Threads of one process often have slots in a row.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_is_gone_and_one_that_has_not_said_who_it_is_is_not() {
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        let process = child.id().cast_signed();
        child.wait().expect("our child");
        assert!(is_gone(process));
        assert!(!is_gone(0));
        assert!(!is_gone(std::process::id().cast_signed()));
    }
}
