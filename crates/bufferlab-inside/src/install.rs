//! Puts a plan into the program: trampolines near its code, and jumps to them.

use core::sync::atomic::Ordering;

use crate::layout::{
    CODE_BYTES, CODE_PLANNED_AT, Fixup, Header, MAGIC, PLAN_AT, PLAN_BYTES, Patch, STATES, Segment, State, hash,
};
use crate::{slow, sys};

const PAGE: usize = 4096;
/// The search for free memory for the trampolines: the bytes from one tried address to the next, and (`STEPS`) the
/// number of tried addresses on each side of the program.
const STEP: i64 = 16 << 20;
const STEPS: i64 = 96;

/// The parts of a plan.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The program's executable segments.
    pub segments: &'a [Segment],
    /// The values in the trampolines that depend on where the trampolines are.
    pub fixups: &'a [Fixup],
    /// The places in the program that are patched.
    pub patches: &'a [Patch],
    /// Addresses of counters that switch the program's own tracepoints on.
    pub semaphores: &'a [u64],
    /// The code of the trampolines. Its first eight bytes receive the address of [`slow::cold_entry`].
    pub code: &'a [u8],
}

impl<'a> Plan<'a> {
    /// Returns the plan that follows the header; none if the memory has another layout, or the plan is too long.
    ///
    /// # Safety
    /// The header begins memory that has the layout, and no code changes this memory.
    pub unsafe fn of(header: &'a Header) -> Option<Self> {
        let counts = [
            header.segments as usize * size_of::<Segment>(),
            header.fixups as usize * size_of::<Fixup>(),
            header.patches as usize * size_of::<Patch>(),
            header.semaphores as usize * size_of::<u64>(),
            header.code_bytes as usize,
        ];
        if header.magic != MAGIC || counts.iter().sum::<usize>() > PLAN_BYTES {
            return None;
        }
        // SAFETY: all parts lie inside the plan and consist of integers, for which any bytes are valid; the sizes of
        // all but the last are multiples of eight.
        unsafe {
            let mut at = core::ptr::from_ref(header).cast::<u8>().add(PLAN_AT);
            let mut next = |bytes: usize| {
                let here = at;
                at = at.add(bytes);
                here
            };
            Some(Self {
                segments: core::slice::from_raw_parts(next(counts[0]).cast(), header.segments as usize),
                fixups: core::slice::from_raw_parts(next(counts[1]).cast(), header.fixups as usize),
                patches: core::slice::from_raw_parts(next(counts[2]).cast(), header.patches as usize),
                semaphores: core::slice::from_raw_parts(next(counts[3]).cast(), header.semaphores as usize),
                code: core::slice::from_raw_parts(next(counts[4]), counts[4]),
            })
        }
    }

    /// Returns whether the program that is loaded at `base` has the code for which the plan was made.
    ///
    /// # Safety
    /// The segments are mapped.
    pub unsafe fn is_of(&self, base: u64, text_hash: u64) -> bool {
        let mut found = 0;
        for segment in self.segments {
            let (place, bytes) = (base.wrapping_add(segment.address) as usize, segment.bytes as usize);
            // SAFETY: the caller guarantees that the segments are mapped.
            found = hash(found, unsafe { core::slice::from_raw_parts(place as *const u8, bytes) });
            // Release the pages that the hash has read: otherwise they would count as the server's memory. SAFETY: they
            // are pages of a file, and no code has changed them yet.
            unsafe { sys::forget(place & !(PAGE - 1), bytes + place % PAGE) };
        }
        found == text_hash
    }

    /// Puts the plan into the program that is loaded at `base`. Changes nothing when it fails.
    ///
    /// # Safety
    /// No other thread runs, and [`Plan::is_of`] was true.
    ///
    /// # Errors
    /// The state that names the reason, and the system's error number.
    pub unsafe fn install(&self, base: u64) -> Result<(), (State, u32)> {
        // SAFETY: the bytes of each place are mapped, as they belong to the segments.
        if self.patches.iter().any(|patch| unsafe { !patch.holds(base, &patch.old) }) {
            return Err((State::OtherText, 0));
        }
        let (code, moved) = self.place_code(base)?;
        let undo = |error| {
            // SAFETY: no jump into this memory exists.
            unsafe { sys::unmap(code, CODE_BYTES) };
            Err(error)
        };
        // SAFETY: the memory is ours.
        if let Err(error) = unsafe { sys::protect(code as usize, CODE_BYTES, sys::READ | sys::EXEC) } {
            return undo((State::NoCode, error));
        }
        for (done, patch) in self.patches.iter().enumerate() {
            let mut new = patch.new;
            let fits = patch.shift(&mut new, moved);
            // SAFETY: no other thread runs, and the bytes to be replaced are the expected ones.
            if let Err(error) = fits.and_then(|()| unsafe { patch.write(base, &new) }) {
                for patch in &self.patches[..done] {
                    // SAFETY: as for the write above. The place was writable a moment ago.
                    let _ = unsafe { patch.write(base, &patch.old) };
                }
                return undo(error);
            }
        }
        for semaphore in self.semaphores {
            let counter = base.wrapping_add(*semaphore) as *mut u16;
            // SAFETY: the program's ELF notes of its tracepoints (systemtap's) say that a writable counter of two bytes
            // is there.
            unsafe { counter.write_volatile(counter.read_volatile().wrapping_add(1)) };
        }
        Ok(())
    }

    /// Copies the trampolines to a free place near the program; returns this place, and its distance from the planned
    /// one.
    fn place_code(&self, base: u64) -> Result<(*mut u8, i64), (State, u32)> {
        let mut last = (State::NoRoom, 0);
        for step in 1..STEPS * 2 {
            // Try below the program first, because its heap grows above it; above it, try far from the heap.
            let moved = if step < STEPS { -STEP * step } else { CODE_PLANNED_AT + STEP * (step - STEPS) };
            let place = base.wrapping_add_signed(self.lowest().cast_signed()).checked_add_signed(moved);
            let Some(place) = place.filter(|place| *place >= 1 << 20) else { continue };
            let place = place as usize & !(PAGE - 1);
            match sys::map_at(place, CODE_BYTES) {
                Ok(code) => {
                    let planned = base.wrapping_add_signed(CODE_PLANNED_AT);
                    let moved = (place as u64).wrapping_sub(planned).cast_signed();
                    if let Err(error) = self.copy_code(code, moved) {
                        // SAFETY: the copy is not in use yet.
                        unsafe { sys::unmap(code, CODE_BYTES) };
                        last = error;
                        continue;
                    }
                    return Ok((code, moved));
                }
                Err(error) => last.1 = error,
            }
        }
        Err(last)
    }

    fn copy_code(&self, code: *mut u8, moved: i64) -> Result<(), (State, u32)> {
        // SAFETY: the memory is new, larger than any plan's code, and ours.
        let there = unsafe { core::slice::from_raw_parts_mut(code, CODE_BYTES) };
        there[..self.code.len()].copy_from_slice(self.code);
        there[..8].copy_from_slice(&slow::cold_entry().to_le_bytes());
        for fixup in self.fixups {
            let by = if fixup.of_thread == 0 { -moved } else { slow::slot_offset() };
            add(there, fixup.at as usize, by).ok_or((State::NoRoom, 0))?;
        }
        Ok(())
    }

    fn lowest(&self) -> u64 {
        self.segments.iter().map(|segment| segment.address).min().unwrap_or(0)
    }
}

/// Adds `by` to the number in the four bytes from `at` on; returns none when the sum does not fit into them.
fn add(bytes: &mut [u8], at: usize, by: i64) -> Option<()> {
    let place = bytes.get_mut(at..)?.first_chunk_mut::<4>()?;
    *place = i32::try_from(i64::from(i32::from_le_bytes(*place)) + by).ok()?.to_le_bytes();
    Some(())
}

impl Patch {
    fn bytes(&self) -> usize {
        (self.bytes as usize).min(self.old.len())
    }

    /// # Safety
    /// The place is mapped.
    unsafe fn holds(&self, base: u64, bytes: &[u8]) -> bool {
        let place = base.wrapping_add(self.address) as *const u8;
        // SAFETY: the caller guarantees that the place is mapped.
        let found = unsafe { core::slice::from_raw_parts(place, self.bytes()) };
        found == &bytes[..self.bytes()]
    }

    fn shift(&self, new: &mut [u8], moved: i64) -> Result<(), (State, u32)> {
        add(new, self.distance_at as usize, moved).ok_or((State::NoRoom, 0))
    }

    /// # Safety
    /// No other thread runs, and the place is the program's code.
    unsafe fn write(&self, base: u64, bytes: &[u8]) -> Result<(), (State, u32)> {
        let place = base.wrapping_add(self.address) as usize;
        let (first, end) = (place & !(PAGE - 1), (place + self.bytes() + PAGE - 1) & !(PAGE - 1));
        let fixed = |error| (State::TextFixed, error);
        // Ask for all rights at once: if the system forbids this (SELinux's execmem, PR_SET_MDWE), the call fails
        // before any byte has changed. Every system allows a process to drop the right to write afterwards.
        // SAFETY: the code stays executable all the time.
        unsafe {
            sys::protect(first, end - first, sys::READ | sys::WRITE | sys::EXEC).map_err(fixed)?;
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), place as *mut u8, self.bytes());
            sys::protect(first, end - first, sys::READ | sys::EXEC).map_err(fixed)
        }
    }
}

/// Installs the plan that follows the header, if it was made for the program at `base`. Stores the resulting state in
/// the header, and returns it.
///
/// # Safety
/// No other thread runs; the memory has the layout and stays mapped; the plan's segments are mapped at `base`.
pub unsafe fn start(header: &Header, base: u64) -> State {
    let began_ns = sys::monotonic_ns();
    // SAFETY: the caller guarantees the conditions of `start`.
    let (state, error) = match unsafe { begin(header, base) } {
        Ok(()) => (State::Patched, 0),
        Err(refused) => refused,
    };
    header.errno.store(error, Ordering::Relaxed);
    header.set_up_ns.store(sys::monotonic_ns().saturating_sub(began_ns), Ordering::Relaxed);
    header.state.store(state as u32, Ordering::Release);
    debug_assert!(STATES.contains(&state));
    state
}

/// # Safety
/// As [`start`].
unsafe fn begin(header: &Header, base: u64) -> Result<(), (State, u32)> {
    // SAFETY: the caller guarantees the conditions of `start`.
    unsafe {
        let plan = Plan::of(header).ok_or((State::OtherText, 0))?;
        if !plan.is_of(base, header.text_hash) {
            return Err((State::OtherText, 0));
        }
        if !slow::prepare_xsave() {
            return Err((State::NoXsave, 0));
        }
        if !slow::listen() {
            return Err((State::NoFork, 0));
        }
        plan.install(base)?;
        slow::begin(core::ptr::from_ref(header).cast_mut());
    }
    Ok(())
}
