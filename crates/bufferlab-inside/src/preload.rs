//! The functions that the loader calls when it has mapped the library, and when the process ends.

use core::ffi::{CStr, c_char, c_int, c_void};

use crate::layout::{ALL_BYTES, Header, MAGIC, Segment, State, VARIABLE};
use crate::{install, slow, sys};

const PT_LOAD: u32 = 1;
const PF_X: u32 = 1;

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

#[repr(C)]
struct Loaded {
    base: u64,
    name: *const c_char,
    headers: *const ProgramHeader,
    count: u16,
}

type Visit = extern "C" fn(*const Loaded, usize, *mut c_void) -> c_int;

unsafe extern "C" {
    fn dl_iterate_phdr(visit: Visit, data: *mut c_void) -> c_int;
}

type Start = unsafe extern "C" fn(c_int, *const *const c_char, *mut *mut c_char);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: Start = at_start;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

/// Maps the shared memory and installs the plan. The loader of the GNU C library calls this function with the arguments
/// of `main`.
unsafe extern "C" fn at_start(_: c_int, _: *const *const c_char, environment: *mut *mut c_char) {
    // SAFETY: it is the environment of the process, which has one thread.
    let Some(descriptor) = (unsafe { value(environment, VARIABLE.as_bytes()) }) else { return };
    // SAFETY: values end with a zero.
    let Some(descriptor) = number(unsafe { CStr::from_ptr(descriptor) }.to_bytes()) else { return };
    let Ok(memory) = sys::map_file(descriptor, ALL_BYTES) else { return };
    // SAFETY: the mapping is as large as the file, and pages of a file that we made exist.
    let header = unsafe { &*memory.cast::<Header>() };
    let mut program = Program { base: 0, header, is_it: false };
    if header.magic == MAGIC {
        // SAFETY: the function is called with its own data.
        unsafe { dl_iterate_phdr(first_program, (&raw mut program).cast()) };
    }
    if !program.is_it {
        // This is not the server but a program that will execute it, such as a shell: leave the environment as it is,
        // for the server.
        // SAFETY: no other code knows the mapping.
        unsafe { sys::unmap(memory, ALL_BYTES) };
        return;
    }
    // Remove the library from the environment, so that programs that the server starts do not load it.
    // SAFETY: it is the environment of the process, which has one thread.
    unsafe { clean(environment) };
    sys::close(descriptor);
    // SAFETY: the loader runs one thread, and has mapped the program.
    if unsafe { install::start(header, program.base) } != State::Patched {
        // The installation failed, so no code uses this memory. The header holds the reason. SAFETY: no thread has a
        // slot.
        unsafe { sys::unmap(memory, ALL_BYTES) };
    }
}

extern "C" fn at_end() {
    slow::end_thread();
}

struct Program<'a> {
    base: u64,
    header: &'a Header,
    is_it: bool,
}

/// Checks whether the first loaded object, the program itself, has the segments of the plan.
extern "C" fn first_program(loaded: *const Loaded, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: the loader gives us its description of the object, and our own data.
    let (loaded, program) = unsafe { (&*loaded, &mut *data.cast::<Program<'_>>()) };
    // SAFETY: the loader says how many there are.
    let headers = unsafe { core::slice::from_raw_parts(loaded.headers, usize::from(loaded.count)) };
    // SAFETY: the header begins the memory.
    let Some(plan) = (unsafe { install::Plan::of(program.header) }) else { return 1 };
    let executable = headers.iter().filter(|part| part.kind == PT_LOAD && part.flags & PF_X != 0);
    let same =
        |(part, wanted): (&ProgramHeader, &Segment)| part.address == wanted.address && part.file_bytes == wanted.bytes;
    program.base = loaded.base;
    program.is_it = executable.clone().count() == plan.segments.len() && executable.zip(plan.segments).all(same);
    1
}

/// Returns the value of a variable.
///
/// # Safety
/// The environment is a list of texts that ends with null.
unsafe fn value(environment: *mut *mut c_char, name: &[u8]) -> Option<*mut c_char> {
    // SAFETY: the caller guarantees that the environment is such a list.
    unsafe { place(environment, name).map(|place| (*place).add(name.len() + 1)) }
}

/// # Safety
/// As [`value`].
unsafe fn place(environment: *mut *mut c_char, name: &[u8]) -> Option<*mut *mut c_char> {
    let mut place = environment;
    // SAFETY: the caller guarantees that the environment is such a list.
    unsafe {
        while !(*place).is_null() {
            let text = CStr::from_ptr(*place).to_bytes();
            if text.strip_prefix(name).is_some_and(|rest| rest.first() == Some(&b'=')) {
                return Some(place);
            }
            place = place.add(1);
        }
    }
    None
}

fn number(text: &[u8]) -> Option<usize> {
    text.iter().try_fold(0_usize, |all, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        all.checked_mul(10)?.checked_add(usize::from(digit))
    })
}

/// Removes bufferlab's variable and library from the environment. Other libraries to preload stay.
///
/// # Safety
/// As [`value`].
unsafe fn clean(environment: *mut *mut c_char) {
    const PRELOAD: &[u8] = b"LD_PRELOAD";
    // SAFETY: the caller guarantees that the environment is such a list; its texts become shorter only.
    unsafe {
        if let Some(mut place) = place(environment, VARIABLE.as_bytes()) {
            remove(&mut place);
        }
        let Some(mut place) = place(environment, PRELOAD) else { return };
        let value = (*place).add(PRELOAD.len() + 1);
        // bufferlab's library is the first of the list.
        let text = CStr::from_ptr(value).to_bytes_with_nul();
        match text.iter().position(|byte| *byte == b':') {
            Some(end) => core::ptr::copy(value.add(end + 1), value, text.len() - end - 1),
            None => remove(&mut place),
        }
    }
}

/// # Safety
/// As [`value`].
unsafe fn remove(place: &mut *mut *mut c_char) {
    // SAFETY: the list ends with null, which is moved last.
    unsafe {
        while !(**place).is_null() {
            **place = *(*place).add(1);
            *place = (*place).add(1);
        }
    }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // The library's code never panics. If it did, the server could not go on after half a record, so loop for ever.
    loop {
        core::hint::spin_loop();
    }
}
