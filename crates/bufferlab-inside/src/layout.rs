//! The memory that a traced server and its reader share: a header, the state of each slot, the plan, then the slots.
//!
//! Every part has a fixed size and consists of plain numbers, so that neither side needs a parser. The reader checks
//! all that it reads here, because the server may write anything.

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The number with which the shared memory begins. Each version of the layout has another number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"blinsid1");
/// The most threads or sessions that can record at the same time.
pub const SLOTS: usize = 1024;
/// Bytes of a record. The first eight are the time-stamp counter, the last is the site.
pub const RECORD_BYTES: usize = 32;
/// The place of the site in a record, in bytes.
pub const SITE_AT: usize = RECORD_BYTES - 1;
/// This value in place of a site marks the record of a new owner: the process and the thread that write the slot's
/// later records.
pub const BEGINS: u8 = 255;
/// Bytes of a ring: 4,096 records, which last 2.4 ms at the highest rate that was seen for one session.
pub const RING_BYTES: usize = 128 << 10;
/// Bytes of a slot before its ring.
pub const HEAD_BYTES: usize = 4096;
/// Bytes of a slot: its head and its ring.
pub const SLOT_BYTES: usize = HEAD_BYTES + RING_BYTES;
/// The place of the slots' states in the memory, in bytes.
pub const STATES_AT: usize = 4096;
/// The place of the plan in the memory, in bytes.
pub const PLAN_AT: usize = STATES_AT + 4 * SLOTS;
/// The most bytes of a plan.
pub const PLAN_BYTES: usize = 64 << 10;
/// The place of the first slot in the memory, in bytes.
pub const SLOTS_AT: usize = PLAN_AT + PLAN_BYTES;
/// Bytes of the whole shared memory. The system provides memory only for the parts that are used.
pub const ALL_BYTES: usize = SLOTS_AT + SLOTS * SLOT_BYTES;
/// The time after the reader's last sign of life for which a server still waits for the reader.
pub const PATIENCE_NS: u64 = 1_000_000_000;
/// The environment variable that names the descriptor of the shared memory.
pub const VARIABLE: &str = "BUFFERLAB_INSIDE";

/// Bytes of memory for the trampolines.
pub const CODE_BYTES: usize = 64 << 10;
/// The distance from the program's load address at which a plan expects the trampolines.
pub const CODE_PLANNED_AT: i64 = 1 << 30;
/// The most bytes that a patch covers: a jump takes five, and the fifth may be the first byte of an instruction of 15
/// bytes.
pub const COVER_BYTES: usize = 20;

/// The library's state, as a number that the reader translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// The library was not loaded, or not into the program.
    Absent = 0,
    /// The program's code jumps to the trampolines at its sites, so its accesses are recorded.
    Patched = 1,
    /// The program's code is not the code for which the plan was made.
    OtherText = 2,
    /// No memory near the program's code is free.
    NoRoom = 3,
    /// The system gives no executable memory.
    NoCode = 4,
    /// The system forbids changes of the program's code.
    TextFixed = 5,
    /// The system has not switched on xsave, the instruction that saves the processor's vector registers.
    NoXsave = 6,
    /// The C library has no hook for forks.
    NoFork = 7,
}

/// All states of the library; the number of each is its place here.
pub const STATES: [State; 8] = [
    State::Absent,
    State::Patched,
    State::OtherText,
    State::NoRoom,
    State::NoCode,
    State::TextFixed,
    State::NoXsave,
    State::NoFork,
];

/// The head of the memory that the server and its reader share.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// Always [`MAGIC`].
    pub magic: u64,
    /// The number of a [`State`].
    pub state: AtomicU32,
    /// The system's error number, if an error led to the state.
    pub errno: AtomicU32,
    /// 0 while the reader reads; another number once it has left.
    pub closed: AtomicU32,
    /// The number of slots that may be used.
    pub slots: u32,
    /// The reader's last sign of life, on CLOCK_MONOTONIC.
    pub heartbeat_ns: AtomicU64,
    /// The number of accesses that were lost because their threads found no slot.
    pub dropped: AtomicU64,
    /// How long the library needed before `main`, in nanoseconds.
    pub set_up_ns: AtomicU64,
    /// [`hash`] of the program's executable segments, one after another.
    pub text_hash: u64,
    /// The number of segments of the plan. The counts of its other parts follow in the order of the parts.
    pub segments: u32,
    /// The number of values in the trampolines that depend on where the trampolines are.
    pub fixups: u32,
    /// The number of places in the program that are patched.
    pub patches: u32,
    /// The number of counters in the program that switch its own tracepoints on.
    pub semaphores: u32,
    /// Bytes of the trampolines in the plan.
    pub code_bytes: u32,
}

/// A part of the program that is mapped from its file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// The segment's address, without the load address.
    pub address: u64,
    /// The segment's length in the file, in bytes.
    pub bytes: u64,
}

/// A value of four bytes in the trampolines that is completed when they are copied into the server.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fixup {
    /// The value's place in the trampolines, in bytes.
    pub at: u32,
    /// Which number is added to the value. 0: the distance from the trampolines to the program; 1: the distance of the
    /// thread's slot from the thread's base address.
    pub of_thread: u32,
}

/// A place in the program that is patched, with its bytes before and after the patch.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// The place's address, without the load address.
    pub address: u64,
    /// The number of bytes that the patch covers.
    pub bytes: u32,
    /// The offset, in the new bytes, of the distance to the trampoline.
    pub distance_at: u32,
    /// The program's own bytes at the place, before the patch.
    pub old: [u8; COVER_BYTES],
    /// The bytes that the patch writes over the place.
    pub new: [u8; COVER_BYTES],
}

/// The head of a slot; its ring follows after [`HEAD_BYTES`].
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// Bytes that the thread has written so far. The trampoline increases this after it has written a record.
    pub write: AtomicU64,
    /// The value of `write` at which the trampoline calls [`crate::slow`].
    pub limit: AtomicU64,
    /// How often the thread had to wait because the reader had not emptied its ring.
    pub waits: AtomicU64,
    /// How long the thread waited for the reader, in nanoseconds.
    pub wait_ns: AtomicU64,
    /// The value of `write` when the thread stopped waiting for the reader, plus one; 0 before. Later records may be
    /// overwritten.
    pub given_up: AtomicU64,
    /// The ID of the thread's process; 0 while the slot is free, and until its new owner has stored the ID.
    pub process: AtomicU32,
    /// The kernel's ID of the thread.
    pub thread: AtomicU32,
    unused: [u64; 10],
    /// Bytes that the reader has read so far. The field is on a cache line to which the server does not write.
    pub read: AtomicU64,
}

/// State of a slot: not used so far.
pub const FREE: u32 = 0;
/// State of a slot: a thread records into it.
pub const USED: u32 = 1;
/// State of a slot: its thread has ended, and another thread may take the slot.
pub const ENDED: u32 = 2;

/// Returns a hash that distinguishes the code of different programs. It is not safe against attackers, who could change
/// this library as well.
pub fn hash(before: u64, bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = |all: u64, word: u64| (all.rotate_left(23) ^ word).wrapping_mul(ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    let all = words.iter().fold(before, |all, word| mixed(all, u64::from_le_bytes(*word)));
    mixed(rest.iter().fold(all, |all, byte| mixed(all, u64::from(*byte))), bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_overlap() {
        assert!(size_of::<Header>() <= STATES_AT);
        assert!(size_of::<Slot>() <= HEAD_BYTES);
        assert_eq!(core::mem::offset_of!(Slot, read) % 64, 0);
        assert_eq!((core::mem::offset_of!(Slot, write), core::mem::offset_of!(Slot, limit)), (0, 8));
        assert_eq!((PLAN_AT % 4096, SLOTS_AT % 4096, RING_BYTES % RECORD_BYTES), (0, 0, 0));
        assert!(RING_BYTES.is_power_of_two());
    }

    #[test]
    fn one_changed_byte_changes_the_hash() {
        let mut bytes = [7_u8; 45];
        let before = hash(0, &bytes);
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert_ne!(hash(0, &bytes), before, "at {at}");
            bytes[at] ^= 1;
        }
        assert_ne!(hash(0, &bytes[..44]), before);
        assert_eq!(STATES.map(|state| state as u32), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
