//! The reader's side of the memory that the server and its reader share.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

use bufferlab_inside::layout::{
    ALL_BYTES, ENDED, HEAD_BYTES, Header, PLAN_AT, RECORD_BYTES, RING_BYTES, SLOT_BYTES, SLOTS, SLOTS_AT, STATES,
    STATES_AT, Slot, State, USED,
};

use super::plan::Plan;
use crate::clock::monotonic_ns;
use crate::tracefs::TraceError;

const PAGE: usize = 4096;

/// Shared memory of [`ALL_BYTES`] bytes, without a name. It exists as long as a process has it open.
#[derive(Debug)]
pub(super) struct Shared {
    descriptor: OwnedFd,
    place: *mut u8,
}

// SAFETY: all values that change in the memory are atomic, except the records of a ring, which are not written after
// their publication.
unsafe impl Send for Shared {}
// SAFETY: as for `Send`.
unsafe impl Sync for Shared {}

impl Shared {
    /// Makes the shared memory, filled with zeros.
    pub fn new() -> Result<Self, TraceError> {
        let refused = || {
            let error = std::io::Error::last_os_error();
            let hint = "allow memfd_create and mmap to this process, or leave the trace out";
            TraceError::new(format!("no memory can be shared with the server: {error}"), "memfd_create", hint)
        };
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name ends with a zero.
        let descriptor = unsafe { libc::memfd_create(c"bufferlab-page-trace".as_ptr(), flags) };
        if descriptor < 0 {
            return Err(refused());
        }
        // SAFETY: the descriptor is new, and ours.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        // SAFETY: the descriptor is that of a file.
        if unsafe { libc::ftruncate(descriptor.as_raw_fd(), ALL_BYTES as libc::off_t) } != 0 {
            return Err(refused());
        }
        // Seal the size: if a server shortened the file, SIGBUS would end this process at its next access.
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: the call only takes rights away from the file's users.
        if unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(refused());
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let place =
            unsafe { libc::mmap(std::ptr::null_mut(), ALL_BYTES, rights, libc::MAP_SHARED, descriptor.as_raw_fd(), 0) };
        if place == libc::MAP_FAILED {
            return Err(refused());
        }
        Ok(Self { descriptor, place: place.cast() })
    }

    pub fn descriptor(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// Writes the plan. The server must not have begun.
    pub fn put(&self, plan: &Plan) {
        // SAFETY: no other process has the memory yet, and zeros are a header.
        let header = unsafe { &mut *self.place.cast::<Header>() };
        let bytes = plan.put_into(header);
        // SAFETY: a plan fits into the memory from `PLAN_AT` on.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.place.add(PLAN_AT), bytes.len()) };
        self.live();
    }

    pub fn header(&self) -> &Header {
        // SAFETY: the memory is mapped as long as `self` exists; all that the server changes is atomic.
        unsafe { &*self.place.cast::<Header>() }
    }

    /// Updates the reader's sign of life. The server waits only for a reader with a recent one.
    pub fn live(&self) {
        self.header().heartbeat_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// Marks in the shared memory that the reader has left.
    pub fn close(&self) {
        self.header().closed.store(1, Ordering::Release);
    }

    /// Returns the library's state, and the system's error number.
    pub fn state(&self) -> (State, i32) {
        let state = self.header().state.load(Ordering::Acquire);
        let known = STATES.get(state as usize).copied().unwrap_or(State::Absent);
        (known, self.header().errno.load(Ordering::Relaxed).cast_signed())
    }

    /// Returns the state of each slot, free, used or ended.
    pub fn states(&self) -> &[AtomicU32] {
        // SAFETY: zeros are valid states, and states change only by atomic operations.
        unsafe { std::slice::from_raw_parts(self.place.add(STATES_AT).cast(), SLOTS) }
    }

    fn at(&self, slot: usize) -> *mut u8 {
        assert!(slot < SLOTS, "there is no slot {slot}");
        // SAFETY: the mapping is large enough for all SLOTS slots, so the address is inside it.
        unsafe { self.place.add(SLOTS_AT + slot * SLOT_BYTES) }
    }

    pub fn slot(&self, number: usize) -> &Slot {
        // SAFETY: zeros are a valid slot, and a slot's head changes only by atomic operations.
        unsafe { &*self.at(number).cast::<Slot>() }
    }

    /// Returns a slot's record that begins after `written` bytes were written.
    #[inline]
    pub fn record(&self, number: usize, written: u64) -> [u8; RECORD_BYTES] {
        let at = HEAD_BYTES + (written as usize & (RING_BYTES - 1) & !(RECORD_BYTES - 1));
        // SAFETY: the place is inside of the slot. The server has published the record, and does not change it until we
        // have said that it is read. If it changed the record all the same, only the bytes would be wrong.
        let words = unsafe { self.at(number).add(at).cast::<[u64; RECORD_BYTES / 8]>().read_volatile() };
        let mut bytes = [0; RECORD_BYTES];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// Writes a record as the server does.
    #[cfg(test)]
    pub fn put_record(&self, number: usize, record: [u8; RECORD_BYTES]) {
        let slot = self.slot(number);
        let at = HEAD_BYTES + (slot.write.load(Ordering::Relaxed) as usize & (RING_BYTES - 1));
        // SAFETY: the place is inside of the slot, and is not read before its publication.
        unsafe { self.at(number).add(at).cast::<[u8; RECORD_BYTES]>().write_volatile(record) };
        slot.write.fetch_add(RECORD_BYTES as u64, Ordering::Release);
    }

    /// Allocates a slot's memory in this process, so that it does not count as the server's memory, which may be
    /// limited.
    pub fn touch(&self, number: usize) {
        for page in (0..SLOT_BYTES).step_by(PAGE) {
            // SAFETY: the place is inside of the slot.
            unsafe { self.at(number).add(page).read_volatile() };
        }
    }

    /// Frees the slot of a process that has ended, unless another process has taken it meanwhile.
    pub fn free(&self, number: usize, process: u32) {
        let owner = &self.slot(number).process;
        if owner.compare_exchange(process, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            let _ = self.states()[number].compare_exchange(USED, ENDED, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: no reference is left.
        unsafe { libc::munmap(self.place.cast(), ALL_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_who_has_the_memory_can_make_it_shorter_or_longer() {
        let shared = Shared::new().unwrap();
        for bytes in [0, PAGE, ALL_BYTES - 1, ALL_BYTES + 1] {
            // SAFETY: the file is ours; were it cut off, no code would read it.
            let done = unsafe { libc::ftruncate(shared.descriptor(), bytes as libc::off_t) };
            assert_eq!((done, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EPERM)), "{bytes}");
        }
        shared.touch(SLOTS - 1);
    }
}
