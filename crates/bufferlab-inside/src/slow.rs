//! The function that a trampoline calls when its thread has no ring, or its ring is full.
//!
//! The call may come from any place in the server's code. So the assembly around the function preserves every register,
//! including the upper halves of vector registers. The function itself calls only the kernel.

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use crate::layout::{
    BEGINS, ENDED, HEAD_BYTES, Header, PATIENCE_NS, RECORD_BYTES, RING_BYTES, SITE_AT, SLOT_BYTES, SLOTS_AT, STATES_AT,
    Slot, USED,
};
use crate::sys;

/// The pause between two checks of a full ring, in nanoseconds.
const PAUSE_NS: u64 = 100_000;

/// The shared memory; null before it is mapped.
static SHARED: AtomicPtr<Header> = AtomicPtr::new(core::ptr::null_mut());
/// The key of thread-specific data by which the C library calls this library at a thread's end; negative if there is
/// none.
static KEY: AtomicI32 = AtomicI32::new(-1);

// The thread's slot is eight bytes at a fixed distance from the thread's base, which the loader reserves for libraries
// that are loaded from the start. Rust's own thread-locals would need std.
global_asm!(
    ".pushsection .tbss.bufferlab_inside_slot,\"awT\",@nobits",
    ".balign 8",
    ".hidden bufferlab_inside_slot",
    ".globl bufferlab_inside_slot",
    ".type bufferlab_inside_slot,@object",
    ".size bufferlab_inside_slot,8",
    "bufferlab_inside_slot: .zero 8",
    ".popsection",
    ".weak pthread_key_create",
    ".weak pthread_setspecific",
);

// The processor reports the size of the area that xsave writes, whose header must be zero. The trampoline preserves the
// flags.
global_asm!(
    ".pushsection .text.bufferlab_inside_cold,\"ax\",@progbits",
    ".hidden bufferlab_inside_cold",
    ".globl bufferlab_inside_cold",
    ".type bufferlab_inside_cold,@function",
    "bufferlab_inside_cold:",
    "push rbp",
    "mov rbp, rsp",
    "push rcx",
    "push rsi",
    "push rdi",
    "push r8",
    "push r9",
    "mov eax, dword ptr [rip + {bytes}]",
    "sub rsp, rax",
    "and rsp, -64",
    "xor eax, eax",
    "mov qword ptr [rsp + 512], rax",
    "mov qword ptr [rsp + 520], rax",
    "mov qword ptr [rsp + 528], rax",
    "mov qword ptr [rsp + 536], rax",
    "mov qword ptr [rsp + 544], rax",
    "mov qword ptr [rsp + 552], rax",
    "mov qword ptr [rsp + 560], rax",
    "mov qword ptr [rsp + 568], rax",
    "xor edx, edx",
    "mov eax, dword ptr [rip + {mask}]",
    "xsave64 [rsp]",
    "call {slow}",
    "mov r10, rax",
    "xor edx, edx",
    "mov eax, dword ptr [rip + {mask}]",
    "xrstor64 [rsp]",
    "lea rsp, [rbp - 40]",
    "pop r9",
    "pop r8",
    "pop rdi",
    "pop rsi",
    "pop rcx",
    "pop rbp",
    "ret",
    ".size bufferlab_inside_cold, . - bufferlab_inside_cold",
    ".popsection",
    bytes = sym XSAVE_BYTES,
    mask = sym XSAVE_MASK,
    slow = sym slow,
);

static XSAVE_BYTES: AtomicU32 = AtomicU32::new(0);
static XSAVE_MASK: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn bufferlab_inside_cold();
}

/// Returns the address that trampolines call.
pub fn cold_entry() -> u64 {
    bufferlab_inside_cold as *const () as u64
}

/// Returns the distance of a thread's slot from the thread's base.
pub fn slot_offset() -> i64 {
    let offset;
    // SAFETY: the linker has filled in the table that is read.
    unsafe {
        asm!("mov {}, qword ptr [rip + bufferlab_inside_slot@gottpoff]", out(reg) offset, options(nostack, pure, readonly))
    };
    offset
}

fn own_slot() -> *mut Slot {
    let slot;
    // SAFETY: these eight bytes belong to the calling thread and to us.
    unsafe { asm!("mov {0}, qword ptr fs:[{1}]", out(reg) slot, in(reg) slot_offset(), options(nostack, readonly)) };
    slot
}

fn set_own_slot(slot: *mut Slot) {
    // SAFETY: these eight bytes belong to the calling thread and to us.
    unsafe { asm!("mov qword ptr fs:[{1}], {0}", in(reg) slot, in(reg) slot_offset(), options(nostack)) };
}

/// Asks the processor how to save its x87, SSE, AVX and AVX-512 registers. The server may use any of them at a site.
///
/// Returns false when the system has not switched on the instruction xsave.
pub fn prepare_xsave() -> bool {
    use core::arch::x86_64::{__cpuid, __cpuid_count};
    const OSXSAVE: u32 = 1 << 27;
    const WANTED: u32 = 0b1110_0111;
    // Older compilers treat these instructions (cpuid) as unsafe.
    #[allow(unused_unsafe)]
    // SAFETY: every processor of this kind answers; the second question is only asked where it is known.
    let ask = |leaf| unsafe { if leaf == 1 { __cpuid(1).ecx } else { __cpuid_count(leaf, 0).ebx } };
    if ask(1) & OSXSAVE == 0 {
        return false;
    }
    let enabled: u32;
    // SAFETY: the system has switched xgetbv on, as the bit above says.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _, options(nostack, nomem)) };
    // This is the size of all switched-on parts of the area, which is at least that of the parts that are saved.
    XSAVE_BYTES.store(ask(0xd), Ordering::Relaxed);
    XSAVE_MASK.store(enabled & WANTED, Ordering::Relaxed);
    true
}

/// Stores the place of the shared memory. From now on threads may take slots.
///
/// # Safety
/// The memory has [`crate::layout::ALL_BYTES`] and stays mapped.
pub unsafe fn begin(header: *mut Header) {
    SHARED.store(header, Ordering::Release);
}

/// Returns a slot with room for a record. If there is none, counts the access as dropped, and returns null.
extern "C" fn slow() -> *mut Slot {
    let header = SHARED.load(Ordering::Acquire);
    // SAFETY: `begin` was given memory that stays mapped.
    let Some(header) = (unsafe { header.as_ref() }) else { return core::ptr::null_mut() };
    let mut slot = own_slot();
    if slot.is_null() {
        slot = take(header);
        if slot.is_null() {
            header.dropped.fetch_add(1, Ordering::Relaxed);
            return slot;
        }
        set_own_slot(slot);
        note_end();
    }
    // SAFETY: slots stay mapped.
    make_room(header, unsafe { &*slot });
    slot
}

fn states(header: &Header) -> &[AtomicU32] {
    let first = core::ptr::from_ref(header).cast::<u8>();
    // SAFETY: the slots' states lie at this place; they are zero, or only atomic operations have changed them.
    unsafe { core::slice::from_raw_parts(first.add(STATES_AT).cast(), header.slots as usize) }
}

fn slot_of(header: &Header, number: usize) -> *mut Slot {
    // SAFETY: the memory has this many slots.
    unsafe { core::ptr::from_ref(header).cast::<u8>().cast_mut().add(SLOTS_AT + number * SLOT_BYTES).cast() }
}

/// Takes a free slot, and writes a record of its new owner; null if no slot is free.
fn take(header: &Header) -> *mut Slot {
    for (number, state) in states(header).iter().enumerate() {
        let found = state.load(Ordering::Relaxed);
        if found == USED || state.compare_exchange(found, USED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        let place = slot_of(header, number);
        // SAFETY: slots stay mapped.
        let slot = unsafe { &*place };
        let (write, read) = (slot.write.load(Ordering::Relaxed), slot.read.load(Ordering::Acquire));
        let given_up = slot.given_up.load(Ordering::Relaxed) != 0;
        if !given_up && write.wrapping_sub(read) >= RING_BYTES as u64 {
            // The slot's previous thread has filled the ring, and the reader has not emptied it yet. Another slot has
            // room at once.
            state.store(found, Ordering::Release);
            continue;
        }
        let (process, thread) = (sys::process(), sys::thread());
        slot.process.store(process, Ordering::Relaxed);
        slot.thread.store(thread, Ordering::Relaxed);
        let mut record = [0_u8; RECORD_BYTES];
        record[..8].copy_from_slice(&sys::counter().to_le_bytes());
        record[8..12].copy_from_slice(&process.to_le_bytes());
        record[12..16].copy_from_slice(&thread.to_le_bytes());
        record[SITE_AT] = BEGINS;
        let at = HEAD_BYTES + (write as usize & (RING_BYTES - 1));
        // SAFETY: the ring follows the head; the slot is ours, and there is room.
        unsafe { place.cast::<u8>().add(at).cast::<[u8; RECORD_BYTES]>().write_volatile(record) };
        slot.write.store(write.wrapping_add(RECORD_BYTES as u64), Ordering::Release);
        return place;
    }
    core::ptr::null_mut()
}

/// Waits until a slot has room. Stops waiting after a second without a sign of life from the reader: the ring then
/// overwrites its oldest records.
fn make_room(header: &Header, slot: &Slot) {
    let write = slot.write.load(Ordering::Relaxed);
    if slot.given_up.load(Ordering::Relaxed) != 0 {
        return slot.limit.store(u64::MAX, Ordering::Relaxed);
    }
    let mut began_ns = 0;
    loop {
        let limit = slot.read.load(Ordering::Acquire).saturating_add(RING_BYTES as u64);
        if write < limit {
            slot.limit.store(limit, Ordering::Relaxed);
            break;
        }
        let now_ns = sys::monotonic_ns();
        let silent_ns = now_ns.saturating_sub(header.heartbeat_ns.load(Ordering::Relaxed));
        if header.closed.load(Ordering::Relaxed) != 0 || silent_ns > PATIENCE_NS {
            slot.given_up.store(write.wrapping_add(1), Ordering::Relaxed);
            slot.limit.store(u64::MAX, Ordering::Relaxed);
            break;
        }
        if began_ns == 0 {
            began_ns = now_ns;
            slot.waits.fetch_add(1, Ordering::Relaxed);
        }
        sys::sleep_ns(PAUSE_NS);
    }
    if began_ns != 0 {
        slot.wait_ns.fetch_add(sys::monotonic_ns().saturating_sub(began_ns), Ordering::Relaxed);
    }
}

/// Frees the calling thread's slot, so that another thread may take it.
pub fn end_thread() {
    let slot = own_slot();
    set_own_slot(core::ptr::null_mut());
    let header = SHARED.load(Ordering::Acquire);
    // SAFETY: `begin` was given memory that stays mapped.
    let Some(header) = (unsafe { header.as_ref() }) else { return };
    if slot.is_null() {
        return;
    }
    // The next owner takes the slot first and stores its process ID later. Between the two the reader must not find
    // this process's ID. SAFETY: slots stay mapped.
    unsafe { &*slot }.process.store(0, Ordering::Relaxed);
    let number = (slot as usize - slot_of(header, 0) as usize) / SLOT_BYTES;
    if let Some(state) = states(header).get(number) {
        state.store(ENDED, Ordering::Release);
    }
}

/// Forgets the parent's slot in a forked child, so that the child takes another slot.
extern "C" fn in_child() {
    set_own_slot(core::ptr::null_mut());
}

extern "C" fn at_thread_end(_: *mut u8) {
    end_thread();
}

type AtFork = Option<extern "C" fn()>;

unsafe extern "C" {
    fn __register_atfork(prepare: AtFork, parent: AtFork, child: AtFork, library: *mut u8) -> i32;
    fn pthread_key_create(key: *mut u32, end: extern "C" fn(*mut u8)) -> i32;
    fn pthread_setspecific(key: u32, value: *const u8) -> i32;
}

/// Returns whether this program's C library has the functions for keys. Old versions have them only in programs with
/// threads.
fn has_keys() -> bool {
    let found: usize;
    // SAFETY: the linker has filled in the table that is read.
    unsafe {
        asm!("mov {}, qword ptr [rip + pthread_key_create@GOTPCREL]", out(reg) found, options(nostack, pure, readonly))
    };
    found != 0
}

/// Asks the C library to call this library at forks and at the ends of threads. Returns false if it has no hook for
/// forks.
pub fn listen() -> bool {
    if has_keys() {
        let mut key = 0;
        // SAFETY: as pthread_key_create(3) wants it.
        if unsafe { pthread_key_create(&raw mut key, at_thread_end) } == 0 {
            KEY.store(key.cast_signed(), Ordering::Relaxed);
        }
    }
    // SAFETY: the function outlives the process: the library is never unloaded.
    unsafe { __register_atfork(None, None, Some(in_child), core::ptr::null_mut()) == 0 }
}

/// Makes the C library call this library at the end of the calling thread. The C library allocates no memory for a key
/// with a number below 32, and this library's key is the first.
fn note_end() {
    let key = KEY.load(Ordering::Relaxed);
    if key >= 0 {
        // SAFETY: the key is ours; any value but null makes the C library call us.
        unsafe { pthread_setspecific(key.cast_unsigned(), core::ptr::dangling()) };
    }
}
