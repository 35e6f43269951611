//! Runs every shape of a patched site in this process, on random states of the processor, and compares the results with
//! those of the code before the patch.

use std::arch::global_asm;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bufferlab_inside::layout::{RECORD_BYTES, RING_BYTES, SITE_AT, State, USED};
use bufferlab_inside::{install, slow};
use bufferlab_model::trace::Kind;
use iced_x86::code_asm::registers::gpr64::{r8, r13, r14, r15, rax, rbp, rcx, rdi, rsp};
use iced_x86::code_asm::{CodeAssembler, CodeLabel, dword_ptr, qword_ptr};

use super::super::fetch::Fetch;
use super::super::recording::SpoolAsked;
use super::super::recording::{Settings, Site};
use super::plan::{Mapped, Plan, Program, branches_into, plan};
use super::shared::Shared;

const PAGE: usize = 4096;
/// The address of the victim's code, without the load address.
const CODE_AT: u64 = 0x40_0000;
/// The parts of the processor's state to save: x87, SSE, AVX and AVX-512, as far as the processor has them.
const PARTS: u64 = 0b1110_0111;
const ARITHMETIC_FLAGS: u64 = 0x8d5;
const STATES_PER_SHAPE: usize = 1_500;
/// The number of states for the test in which a signal follows every instruction. It is smaller, because a cold path
/// has some hundred instructions.
const STEPPED_PER_SHAPE: usize = 120;
/// The flag that makes the processor stop after each instruction; the system then sends SIGTRAP.
const TRAP_FLAG: u64 = 1 << 8;
const REGISTERS: usize = 16;
const NAMES: [&str; REGISTERS] =
    ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];
const SP: usize = 7;

/// A state of the processor, in the order of [`NAMES`].
#[repr(C, align(64))]
#[derive(Clone, PartialEq)]
struct Processor {
    registers: [u64; REGISTERS],
    flags: u64,
    parts: u64,
    unused: [u64; 14],
    saved: [u8; PAGE - 256],
}

static PROCESSOR: AtomicU64 = AtomicU64::new(0);
static ENTRY: AtomicU64 = AtomicU64::new(0);
static OWN_STACK: AtomicU64 = AtomicU64::new(0);
static KEPT: AtomicU64 = AtomicU64::new(0);
/// Only one test at a time may use the statics above and the library's own memory.
static ALONE: Mutex<()> = Mutex::new(());
/// The number of signals, and how many of them came while a trampoline, or code that it calls, was executed.
static SIGNALS: AtomicU64 = AtomicU64::new(0);
static SIGNALS_INSIDE: AtomicU64 = AtomicU64::new(0);

global_asm!(
    ".pushsection .text",
    "bufferlab_test_run:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rip + {own}], rsp",
    "mov [rip + {processor}], rdi",
    "mov eax, [rdi + 136]",
    "xor edx, edx",
    "xrstor64 [rdi + 256]",
    "push qword ptr [rdi + 128]",
    "popfq",
    "mov rsp, [rdi + 56]",
    "mov rax, [rdi]",
    "mov rbx, [rdi + 8]",
    "mov rcx, [rdi + 16]",
    "mov rdx, [rdi + 24]",
    "mov rsi, [rdi + 32]",
    "mov rbp, [rdi + 48]",
    "mov r8, [rdi + 64]",
    "mov r9, [rdi + 72]",
    "mov r10, [rdi + 80]",
    "mov r11, [rdi + 88]",
    "mov r12, [rdi + 96]",
    "mov r13, [rdi + 104]",
    "mov r14, [rdi + 112]",
    "mov r15, [rdi + 120]",
    "mov rdi, [rdi + 40]",
    "jmp qword ptr [rip + {entry}]",
    "bufferlab_test_land:",
    "mov [rip + {kept}], rdi",
    "mov rdi, [rip + {processor}]",
    "mov [rdi], rax",
    "mov [rdi + 8], rbx",
    "mov [rdi + 16], rcx",
    "mov [rdi + 24], rdx",
    "mov [rdi + 32], rsi",
    "mov [rdi + 48], rbp",
    "mov [rdi + 56], rsp",
    "mov [rdi + 64], r8",
    "mov [rdi + 72], r9",
    "mov [rdi + 80], r10",
    "mov [rdi + 88], r11",
    "mov [rdi + 96], r12",
    "mov [rdi + 104], r13",
    "mov [rdi + 112], r14",
    "mov [rdi + 120], r15",
    "mov rax, [rip + {kept}]",
    "mov [rdi + 40], rax",
    "mov rsp, [rip + {own}]",
    "pushfq",
    "pop qword ptr [rdi + 128]",
    "mov eax, [rdi + 136]",
    "xor edx, edx",
    "xsave64 [rdi + 256]",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "cld",
    "ret",
    ".popsection",
    processor = sym PROCESSOR,
    entry = sym ENTRY,
    own = sym OWN_STACK,
    kept = sym KEPT,
);

unsafe extern "C" {
    fn bufferlab_test_run(processor: *mut Processor);
    fn bufferlab_test_land();
}

/// A random generator (SplitMix64; Steele and others, 2014). Equal seeds give equal numbers, so that a failure can be
/// repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

/// The memory to which the victim's registers point, and the victim's stack.
struct Memory {
    words: Vec<u64>,
}

const STACK_WORDS: usize = 8 << 10;

impl Memory {
    fn new() -> Self {
        Self { words: vec![0; STACK_WORDS + 256] }
    }

    /// Returns an address `words` words above the middle of the stack, with room on both sides.
    fn stack(&self, words: usize) -> u64 {
        &raw const self.words[STACK_WORDS / 2 + words] as u64
    }

    fn heap(&self, words: usize) -> u64 {
        &raw const self.words[STACK_WORDS + words] as u64
    }

    /// Fills the memory that a victim may see (red zone, the stack above, and the heap) with addresses and nulls.
    fn fill(&mut self, random: &mut Random) {
        for at in (STACK_WORDS / 2 - 64..STACK_WORDS / 2 + 128).chain(STACK_WORDS..STACK_WORDS + 256) {
            self.words[at] = if random.next() & 3 == 0 { 0 } else { self.heap(random.next() as usize % 128) };
        }
    }

    fn read(&self, address: u64, bytes: usize) -> u64 {
        let at = (address - self.words.as_ptr() as u64) as usize;
        let two = u128::from(self.words[at / 8]) | u128::from(self.words.get(at / 8 + 1).copied().unwrap_or(0)) << 64;
        let value = (two >> (8 * (at % 8))) as u64;
        if bytes == 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
    }
}

type Write = fn(&mut CodeAssembler, CodeLabel) -> Result<(), iced_x86::IcedError>;

/// The shapes of sites in page_sites.toml, and those of other builds. The label is right after the site.
const SHAPES: [(&str, Write); 10] = [
    ("a call", |code, behind| code.call(behind)),
    ("a near jump", |code, behind| {
        code.add_instruction(iced_x86::Instruction::with_branch(iced_x86::Code::Jmp_rel32_64, CODE_AT + 0x200)?)?;
        let _ = behind;
        Ok(())
    }),
    ("an entry", |code, _| {
        code.push(rbp)?;
        code.mov(rbp, rsp)?;
        code.push(r15)
    }),
    ("pushes", |code, _| {
        code.push(r15)?;
        code.push(r14)?;
        code.push(r13)
    }),
    ("a short conditional jump", |code, behind| {
        code.je(behind)?;
        code.lea(rcx, qword_ptr(rcx + 8))
    }),
    ("a near conditional jump", |code, _| {
        let far = iced_x86::Instruction::with_branch(iced_x86::Code::Jne_rel32_64, CODE_AT + 0x200)?;
        code.add_instruction(far)
    }),
    ("a nop and an address from the instruction's own", |code, behind| {
        code.nop()?;
        code.lea(rax, qword_ptr(behind))
    }),
    ("a comparison and a load", |code, behind| {
        code.cmp(dword_ptr(behind), 7)?;
        code.mov(r8, qword_ptr(behind))
    }),
    ("arithmetic with a carry", |code, _| {
        code.adc(rcx, rdi)?;
        code.sbb(r8, rcx)
    }),
    ("a short jump and padding", |code, behind| {
        code.jmp(behind)?;
        code.nop_1(rax)
    }),
];

/// Returns a page of code: the site, and jumps to the code that saves the state, right after the site and at 0x200.
fn victims_code(write: Write) -> Result<Vec<u8>, iced_x86::IcedError> {
    let land = bufferlab_test_land as *const () as u64;
    let mut code = CodeAssembler::new(64)?;
    let (mut behind, mut landing) = (code.create_label(), code.create_label());
    write(&mut code, behind)?;
    code.jmp(qword_ptr(landing))?;
    code.set_label(&mut behind)?;
    code.jmp(qword_ptr(landing))?;
    code.set_label(&mut landing)?;
    code.dq(&[land])?;
    let mut bytes = code.assemble(CODE_AT)?;
    assert!(bytes.len() < 0x200);
    bytes.resize(0x200, 0xcc);
    let mut far = CodeAssembler::new(64)?;
    let mut landing = far.create_label();
    far.jmp(qword_ptr(landing))?;
    far.set_label(&mut landing)?;
    far.dq(&[land])?;
    bytes.extend(far.assemble(CODE_AT + 0x200)?);
    bytes.resize(PAGE, 0xcc);
    Ok(bytes)
}

/// A victim in memory: its code is mapped from a file, as a program's is.
struct Victim {
    base: u64,
    program: Program,
}

impl Victim {
    fn new(write: Write) -> Self {
        let bytes = victims_code(write).expect("the shape assembles");
        // SAFETY: the name ends with a zero; the mapping is new.
        let place = unsafe {
            let file = libc::memfd_create(c"victim".as_ptr(), libc::MFD_CLOEXEC);
            assert_eq!(libc::write(file, bytes.as_ptr().cast(), PAGE), PAGE as isize);
            let place =
                libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, file, 0);
            libc::close(file);
            place
        };
        assert_ne!(place, libc::MAP_FAILED);
        let code = vec![Mapped { offset: 0, address: CODE_AT, bytes }];
        Self { base: place as u64 - CODE_AT, program: Program { code, data: Vec::new() } }
    }

    fn run(&self, before: &Processor) -> Box<Processor> {
        let mut state = Box::new(before.clone());
        ENTRY.store(self.base + CODE_AT, Ordering::Relaxed);
        // SAFETY: with any values of registers, the code jumps to the code that saves the state.
        unsafe { bufferlab_test_run(&raw mut *state) };
        state.flags &= ARITHMETIC_FLAGS;
        state
    }
}

fn settings(site_byte: u8, fetch: &[String]) -> Settings {
    let types = ["u32", "u8", "u64", "u32", "u16"];
    let fields = (0..fetch.len()).map(|at| format!("f{at}:{}", types[at % types.len()])).collect();
    let site = Site {
        at: "victim".into(),
        kinds: vec![Kind::Get],
        kinds_if_flag: None,
        offset: 0,
        byte: site_byte,
        semaphore: None,
        fetch: fetch.to_vec(),
    };
    let (binary, spool) = ("victim".into(), SpoolAsked::default());
    Settings { binary, spool, fields, modes_if_in_pool: vec![], sites: vec![site] }
}

/// Returns four fetches for a plan, in random forms: a record has no room for more.
fn fetches(random: &mut Random) -> Vec<String> {
    let one = |random: &mut Random| {
        let register = NAMES[random.next() as usize % REGISTERS];
        let distance = 8 * (random.next() % 16) as i64;
        match random.next() % 6 {
            0 => format!("\\{}", random.next() % 100 + 2),
            1 | 2 => format!("%{register}"),
            3 => format!("+{distance}(%{register})"),
            4 => format!("-{distance}(%bp)"),
            _ => format!("+{distance}(+{}(%{register}))", distance / 2 * 8 % 128),
        }
    };
    (0..4).map(|_| one(random)).collect()
}

/// Returns the value that a site fetches in a state.
fn expected(fetch: &Fetch, before: &Processor, memory: &Memory, bytes: usize) -> u64 {
    let mask = if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
    mask & match fetch {
        Fetch::Constant(number) => *number,
        Fetch::ZeroFlag => unreachable!("the plan refuses it"),
        Fetch::Register(register) => {
            let name = format!("{register:?}").to_lowercase();
            let at = NAMES.iter().position(|known| *known == name.trim_start_matches('r') || *known == name);
            before.registers[at.expect("a register")]
        }
        Fetch::Memory(distance, inner) => match expected(inner, before, memory, 8) {
            0 => 0,
            address => memory.read(address.wrapping_add_signed(i64::from(*distance)), bytes),
        },
    }
}

fn random_state(random: &mut Random, memory: &Memory) -> Processor {
    let mut state = Processor {
        registers: [0; REGISTERS],
        flags: random.next() & ARITHMETIC_FLAGS | 0x202,
        parts: PARTS & enabled_parts(),
        unused: [0; 14],
        saved: [0; PAGE - 256],
    };
    for register in &mut state.registers {
        *register = if random.next() & 7 == 0 { 0 } else { memory.heap(random.next() as usize % 64) };
    }
    state.registers[6] = memory.stack(random.next() as usize % 16 + 24);
    state.registers[SP] = memory.stack(random.next() as usize % 8);
    for byte in &mut state.saved {
        *byte = random.next() as u8;
    }
    // The control words and the header must be valid; bytes that the processor reserves must be zero.
    let word =
        |state: &mut Processor, at: usize, bytes: &[u8]| state.saved[at..at + bytes.len()].copy_from_slice(bytes);
    word(&mut state, 0, &0x37f_u64.to_le_bytes());
    word(&mut state, 8, &[0; 16]);
    word(&mut state, 24, &[0x80, 0x1f, 0, 0, 0xff, 0xff, 0, 0]);
    for register in 0..8 {
        word(&mut state, 32 + 16 * register + 10, &[0; 6]);
    }
    word(&mut state, 416, &[0; 96]);
    word(&mut state, 512, &[0; 64]);
    let parts = state.parts;
    word(&mut state, 512, &parts.to_le_bytes());
    state
}

fn enabled_parts() -> u64 {
    let enabled: u32;
    // SAFETY: `prepare_xsave` has found that the system has switched it on.
    unsafe { std::arch::asm!("xgetbv", in("ecx") 0, out("eax") enabled, out("edx") _, options(nomem, nostack)) };
    u64::from(enabled)
}

/// The processor's state after a victim has run, and the part of the stack that the victim may not change.
type Ran = (Box<Processor>, Vec<u64>);

fn ran(victim: &Victim, before: &Processor, memory: &mut Memory, is_call: bool) -> Ran {
    let kept = memory.words.clone();
    let after = victim.run(before);
    let at = (before.registers[SP] - memory.words.as_ptr() as u64) as usize / 8;
    // The stack below a call's return address is unused.
    let seen = memory.words[at - if is_call { 1 } else { 16 }..].to_vec();
    memory.words.copy_from_slice(&kept);
    (after, seen)
}

fn planned(victim: &Victim, random: &mut Random) -> (Settings, Plan) {
    loop {
        let settings = settings(victim.program.code[0].bytes[0], &fetches(random));
        match plan(&victim.program, &settings) {
            Ok(plan) => return (settings, plan),
            Err(why) => assert!(why.contains("bytes, and there are"), "{why}"),
        }
    }
}

/// Runs every shape on random states, before and after it is patched; returns the number of states.
///
/// If `stepped` is true, a signal follows each instruction of the patched code.
fn compare_all_shapes(states_per_shape: usize, stepped: bool) -> usize {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!(slow::prepare_xsave());
    let mut random = Random(1);
    let mut memory = Memory::new();
    let mut states = 0;
    for (name, write) in SHAPES {
        for round in 0..6 {
            let victim = Victim::new(write);
            let is_call = name == "a call";
            let (settings, plan) = planned(&victim, &mut random);
            assert_eq!(branches_into(&victim.program, &plan), []);
            let shared = Box::leak(Box::new(Shared::new().expect("memory")));
            shared.put(&plan);
            let (mut befores, memories): (Vec<_>, Vec<_>) = (0..states_per_shape / 6)
                .map(|_| {
                    memory.fill(&mut random);
                    (random_state(&mut random, &memory), memory.words.clone())
                })
                .unzip();
            let run_all =
                |befores: &[Processor], memory: &mut Memory, seen: &mut dyn FnMut(usize, &Processor, &Memory)| {
                    let one = |(number, before): (usize, &Processor)| {
                        memory.words.copy_from_slice(&memories[number]);
                        let done = ran(&victim, before, memory, is_call);
                        seen(number, before, memory);
                        done
                    };
                    befores.iter().enumerate().map(one).collect::<Vec<Ran>>()
                };
            let without = run_all(&befores, &mut memory, &mut |_, _, _| ());
            // SAFETY: no other thread runs this victim's code.
            let state = unsafe { install::start(shared.header(), victim.base) };
            assert_eq!(state, State::Patched, "{name}");
            let parts = super::super::fetch::parts(&settings).expect("they can be fetched");
            let fetched = super::super::fetch::fetches(&settings, 0, &parts).expect("they can be fetched");
            let mut cold = Random(round);
            befores.iter_mut().for_each(|before| before.flags |= if stepped { TRAP_FLAG } else { 0 });
            let with = run_all(&befores, &mut memory, &mut |number, before, memory| {
                let slot = shared.slot(0);
                let written = slot.write.load(Ordering::Relaxed);
                let record = shared.record(0, written - RECORD_BYTES as u64);
                assert_eq!(record[SITE_AT], 0, "{name}, state {number}");
                for (part, fetch) in parts.iter().zip(&fetched) {
                    let mut value = [0; 8];
                    value[..part.kept.bytes()].copy_from_slice(&record[part.at..part.at + part.kept.bytes()]);
                    let wanted = expected(fetch, before, memory, part.kept.bytes());
                    assert_eq!(u64::from_le_bytes(value), wanted, "{name}: {fetch:?} of {}", part.name);
                }
                slot.read.store(written, Ordering::Relaxed);
                match cold.next() % 3 {
                    // The ring is full, or another thread's, or neither.
                    0 => slot.limit.store(written, Ordering::Relaxed),
                    1 => slow::end_thread(),
                    _ => (),
                }
            });
            for (number, (without, with)) in without.iter().zip(&with).enumerate() {
                assert_eq!(
                    without.0.registers, with.0.registers,
                    "{name}, state {number}: {:?}",
                    settings.sites[0].fetch
                );
                // No function may rely on the flags that its caller left (System V ABI for AMD64, 3.2.1).
                assert!(is_call || without.0.flags == with.0.flags, "{name}, state {number}: the flags");
                assert!(without.0.saved == with.0.saved, "{name}, state {number}: vector registers");
                assert!(without.1 == with.1, "{name}, state {number}: the stack");
            }
            states += with.len();
            slow::end_thread();
        }
    }
    states
}

#[test]
fn a_patched_site_leaves_every_state_as_it_was_and_records_what_it_fetches() {
    assert!(compare_all_shapes(STATES_PER_SHAPE, false) >= 10_000);
}

/// Counts signals. Overwrites all of the stack that a handler may overwrite: everything below the red zone of 128 bytes
/// and the saved state.
extern "C" fn at_signal(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let mut own = [0xa5_u8; 1024];
    std::hint::black_box(&mut own);
    SIGNALS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the system gives this handler the state that it interrupted.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let (at, victim) = (registers[libc::REG_RIP as usize].cast_unsigned(), ENTRY.load(Ordering::Relaxed));
    let (run, land) = (bufferlab_test_run as *const () as u64, bufferlab_test_land as *const () as u64);
    if at == land {
        registers[libc::REG_EFL as usize] &= !TRAP_FLAG.cast_signed();
    } else if !(victim..victim + PAGE as u64).contains(&at) && !(run..land).contains(&at) {
        SIGNALS_INSIDE.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_signal_behind_every_instruction_of_a_trampoline_changes_no_state_and_no_record() {
    // SAFETY: zeros are a set of signals without any; the handler touches nothing but atomics and its own frame.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = at_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
    let states = compare_all_shapes(STEPPED_PER_SHAPE, true) as u64;
    let (all, inside) = (SIGNALS.load(Ordering::Relaxed), SIGNALS_INSIDE.load(Ordering::Relaxed));
    assert!(states >= 1_000, "{states}");
    // A trampoline has more than 20 instructions.
    assert!(inside > 20 * states, "{inside} of {all} signals came into the trampolines of {states} states");
    eprintln!("{inside} of {all} signals came into the trampolines of {states} states");
}

#[test]
fn a_thread_whose_reader_is_gone_waits_once_and_never_again() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert!(slow::prepare_xsave());
    let (mut random, mut memory) = (Random(2), Memory::new());
    let victim = Victim::new(SHAPES[2].1);
    let (_, plan) = planned(&victim, &mut random);
    let shared = Box::leak(Box::new(Shared::new().unwrap()));
    shared.put(&plan);
    // SAFETY: no other thread runs this victim's code.
    assert_eq!(unsafe { install::start(shared.header(), victim.base) }, State::Patched);
    memory.fill(&mut random);
    let (before, accesses) = (random_state(&mut random, &memory), 3 * RING_BYTES / RECORD_BYTES);
    for _ in 0..accesses {
        ran(&victim, &before, &mut memory, false);
    }
    let slot = shared.slot(0);
    let [waits, limit, written, given_up] =
        [&slot.waits, &slot.limit, &slot.write, &slot.given_up].map(|number| number.load(Ordering::Relaxed));
    // The first record says whose ring it is.
    assert_eq!(written, ((1 + accesses) * RECORD_BYTES) as u64);
    assert_eq!((waits, limit, given_up), (1, u64::MAX, RING_BYTES as u64 + 1));
    assert_eq!(slot.process.load(Ordering::Relaxed), std::process::id());
    // A process that does not own the slot cannot free it.
    shared.free(0, std::process::id() + 1);
    assert_eq!(shared.states()[0].load(Ordering::Relaxed), USED);
    slow::end_thread();
    // Until the slot's next owner has stored its process ID, the slot must not seem to be this process's.
    assert_eq!(slot.process.load(Ordering::Relaxed), 0);
}

#[test]
fn a_processor_without_a_library_is_refused_by_name() {
    super::require_library(super::LIBRARY, "x86_64").expect("this one has its library");
    let refused = super::require_library(&[], "aarch64").expect_err("nothing was built for it");
    assert_eq!(refused.what, "servers on this processor cannot record themselves");
    assert_eq!(refused.place, "aarch64");
    assert!(refused.hint.contains("x86-64"), "{refused}");
}

#[test]
fn a_site_that_has_no_room_is_refused_by_name() {
    let refused = |bytes: &[u8]| {
        let mut code = bytes.to_vec();
        code.resize(64, 0x90);
        let program = Program { code: vec![Mapped { offset: 0, address: CODE_AT, bytes: code }], data: Vec::new() };
        plan(&program, &settings(bytes[0], &["%di".to_owned()])).expect_err("refused")
    };
    // The refused cases: a return with a function after it; a call in the moved bytes; the stack protector's load,
    // alone and after another instruction; another instruction than the expected one.
    assert!(refused(&[0x5d, 0xc3, 0x55, 0x48, 0x89, 0xe5]).contains("belongs to another path"));
    assert!(refused(&[0x90, 0xe8, 1, 2, 3, 4]).contains("Call cannot be moved"));
    let canary = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0];
    assert!(refused(&canary).contains("its instructions cannot be moved"));
    assert!(refused(&[&[0x55][..], &canary[..]].concat()).contains("its instructions cannot be moved"));
    let program = Program { code: vec![Mapped { offset: 0, address: CODE_AT, bytes: vec![0x90; 64] }], data: vec![] };
    let wrong = plan(&program, &settings(0x55, &["%di".to_owned()])).expect_err("refused");
    assert_eq!(wrong, "victim at 0x0: the instruction is not the expected one");
    let flags = plan(&program, &settings(0x90, &["%zf".to_owned()])).expect_err("refused");
    assert_eq!(flags, "victim at 0x0: only the kernel has the processor's flags of that moment");
    let strange = plan(&program, &settings(0x90, &["@stack".to_owned()])).expect_err("refused");
    assert!(strange.contains("`@stack` for f0 cannot be fetched"), "{strange}");
}
