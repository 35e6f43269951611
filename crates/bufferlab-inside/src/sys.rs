//! System calls, made without the C library: this library must load with every C library, and must not change `errno`.

use core::arch::asm;

/// `PROT_READ` of mmap(2).
pub const READ: usize = 1;
/// `PROT_WRITE` of mmap(2).
pub const WRITE: usize = 2;
/// `PROT_EXEC` of mmap(2).
pub const EXEC: usize = 4;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const MADV_DONTNEED: usize = 4;
const CLOCK_MONOTONIC: usize = 1;

/// Makes a system call of up to six arguments; returns its result, or a negative error.
///
/// # Safety
/// The call's effect must be sound.
unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: the kernel keeps all registers but these three; the caller guarantees that the call is sound.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c,
            in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

fn done(result: isize) -> Result<usize, u32> {
    if result < 0 { Err(result.unsigned_abs() as u32) } else { Ok(result.cast_unsigned()) }
}

/// Maps a file's first bytes, shared with all its users.
///
/// # Errors
/// The system's error number.
pub fn map_file(descriptor: usize, bytes: usize) -> Result<*mut u8, u32> {
    // SAFETY: a new mapping at a place of the kernel's choice changes no memory that is in use.
    done(unsafe { call(9, [0, bytes, READ | WRITE, MAP_SHARED, descriptor, 0]) }).map(|at| at as *mut u8)
}

/// Maps fresh memory at exactly this place, which must be unused.
///
/// # Errors
/// The system's error number.
pub fn map_at(place: usize, bytes: usize) -> Result<*mut u8, u32> {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    // SAFETY: the flag forbids to replace a mapping.
    let found = done(unsafe { call(9, [place, bytes, READ | WRITE, flags, usize::MAX, 0]) })?;
    if found != place {
        // Kernels before 4.17 do not know the flag, and treat the address as a hint. SAFETY: no other code knows this
        // new mapping.
        unsafe { unmap(found as *mut u8, bytes) };
        return Err(17);
    }
    Ok(found as *mut u8)
}

/// Unmaps memory.
///
/// # Safety
/// The mapping is not in use any more.
pub unsafe fn unmap(place: *mut u8, bytes: usize) {
    // SAFETY: the caller guarantees that the mapping is not in use.
    unsafe { call(11, [place as usize, bytes, 0, 0, 0, 0]) };
}

/// Changes the access rights of whole pages.
///
/// # Safety
/// Code there must stay executable.
///
/// # Errors
/// The system's error number.
pub unsafe fn protect(place: usize, bytes: usize, how: usize) -> Result<(), u32> {
    // SAFETY: the caller guarantees that code there stays executable.
    done(unsafe { call(10, [place, bytes, how, 0, 0, 0]) }).map(drop)
}

/// Releases mapped pages of a file that this process has only read. The next access maps them again.
///
/// # Safety
/// The pages were not written to.
pub unsafe fn forget(place: usize, bytes: usize) {
    // SAFETY: the caller guarantees that the pages were not written to.
    unsafe { call(28, [place, bytes, MADV_DONTNEED, 0, 0, 0]) };
}

/// Closes a descriptor.
pub fn close(descriptor: usize) {
    // SAFETY: the descriptor was made for us, and no other code uses it.
    unsafe { call(3, [descriptor, 0, 0, 0, 0, 0]) };
}

/// Returns the ID of this process.
pub fn process() -> u32 {
    // SAFETY: the call only returns a number.
    unsafe { call(39, [0; 6]) as u32 }
}

/// Returns the kernel's ID of this thread.
pub fn thread() -> u32 {
    // SAFETY: the call only returns a number.
    unsafe { call(186, [0; 6]) as u32 }
}

/// Returns nanoseconds on CLOCK_MONOTONIC.
pub fn monotonic_ns() -> u64 {
    let mut time = [0_u64; 2];
    // SAFETY: `time` has the form of a timespec.
    unsafe { call(228, [CLOCK_MONOTONIC, (&raw mut time) as usize, 0, 0, 0, 0]) };
    time[0] * 1_000_000_000 + time[1]
}

/// Sleeps for this time, or until a signal arrives.
pub fn sleep_ns(nanoseconds: u64) {
    let time = [0, nanoseconds];
    // SAFETY: `time` has the form of a timespec.
    unsafe { call(35, [(&raw const time) as usize, 0, 0, 0, 0, 0]) };
}

/// Returns the processor's time-stamp counter.
pub fn counter() -> u64 {
    // SAFETY: every processor of this kind has it.
    unsafe { core::arch::x86_64::_rdtsc() }
}
