//! Finds the sites of a build by the names of functions, their calls and the counters that they raise.
//!
//! At an entry or a call, values are in the registers of the calling convention (System V ABI for AMD64, 3.2.3). A
//! question mark means a value that only a person who reads the code can find.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::counter::{Counter, Raise, raises};
use super::program::{Function, Program, is_call, short};
use super::values::Values;

/// A proposed site, and the reason for it.
#[derive(Default)]
pub struct Proposal {
    /// The name of the function, or a question mark.
    pub at: String,
    /// The kinds of accesses that pass the site.
    pub kinds: Vec<&'static str>,
    /// The address of the instruction, without the load address.
    pub address: u64,
    /// Where the probe finds each field's value, in the kernel's notation; a question mark for an unknown place.
    pub fetch: Vec<String>,
    /// The reason, as a phrase.
    pub why: String,
    /// Places at which to look for the page if no argument holds it: the address of an instruction on the site's path,
    /// before or after the site, and the registers that hold an address there.
    pub tries: Vec<(u64, Vec<String>)>,
    /// Whether the server's counter of gets leaves out the accesses at this site.
    pub is_uncounted: bool,
}

/// The proposals for one build.
pub struct Proposals {
    /// The fields of the build's records, as an array in a form that TOML and JSON share.
    pub fields: &'static str,
    /// The modes of gets that want a page only if it is in the pool, where gets have modes.
    pub modes_if_in_pool: &'static [u8],
    /// The proposed sites of the build.
    pub sites: Vec<Proposal>,
}

/// The number of instructions before a raise in which to look for a place where a register holds the page's address.
const INSTRUCTIONS_BEFORE: usize = 24;

/// Returns the sites of a build of PostgreSQL. `usage` is where `pgBufferUsage` is.
pub fn postgres(program: &Program, all: &[Raise], usage: u64) -> Proposals {
    let relation = |register: &str, rest: &[&str]| -> Vec<String> {
        let parts = [0, 4, 8].map(|at| format!("+{at}({register})"));
        parts.into_iter().chain(rest.iter().map(|&one| one.to_owned())).collect()
    };
    let raised = |at: u64| raises(all, Counter::At(usage + at));
    let mut sites = Vec::new();
    // The offsets of the counters in BufferUsage (executor/instrument.h): shared_blks_hit is at 0, shared_blks_read and
    // shared_blks_written follow.
    sites.extend(pin_buffer(program, &raised(0)));
    let reads = |callee: &str| match callee {
        "smgrstartreadv" => relation("%si", &["%dx", "%cx", "%r9", "\\0", "\\0", "?", "?", "\\9"]),
        "smgrreadv" => relation("%di", &["%si", "%dx", "%r8", "\\0", "\\0", "?", "?", "\\9"]),
        _ => relation("%di", &["%si", "%dx", "\\1", "\\0", "\\0", "?", "?", "\\9"]),
    };
    for callee in ["smgrstartreadv", "smgrreadv", "smgrread"] {
        let found = calls_where(program, &raised(8), callee, &["get", "read"], &reads(callee), "shared_blks_read");
        sites.extend(found.into_iter().filter_map(|site| with_ring(program, site)));
    }
    let grown = |blocks| relation("%di", &["%si", "%dx", blocks, "\\0", "\\0", "\\1", "\\0", "\\9"]);
    for (callee, blocks) in [("smgrzeroextend", "%cx"), ("smgrextend", "\\1")] {
        let written = raised(24);
        sites.extend(calls_where(program, &written, callee, &["create"], &grown(blocks), "shared_blks_written"));
    }
    let tag = relation("%di", &["+12(%di)", "+16(%di)", "\\1", "\\0", "\\0", "\\1", "\\0", "\\9"]);
    if let Some(&callee) = program.symbols.get("BufTableDelete") {
        for function in &program.functions {
            let why = "it takes a page out of the table: a site if it is InvalidateVictimBuffer, not InvalidateBuffer";
            sites.extend(calls_to(program, function, callee, &["evict"], &tag, why));
        }
    }
    // From 18 on the enumeration IOContext (pgstat.h) has one more value.
    let fields = if program.symbols.contains_key("smgrstartreadv") {
        r#"["tablespace:u32", "database:u32", "relation:u32", "fork:u32", "page:u32", "blocks:u32", "flag:u8", "held:u64", "strategy:u64", "strategy_type:u32", "io_context_18:u32"]"#
    } else {
        r#"["tablespace:u32", "database:u32", "relation:u32", "fork:u32", "page:u32", "blocks:u32", "flag:u8", "held:u64", "strategy:u64", "strategy_type:u32", "io_context:u32"]"#
    };
    Proposals { fields, modes_if_in_pool: &[], sites }
}

/// Adds to a site the place of the value that shows the read's ring: the IOContext from 16 on, the strategy up to 15.
/// Returns none for a read of a temporary table.
///
/// `ReadBuffer_common` of 15 has the strategy as its sixth argument. Later versions count a read by
/// `pgstat_count_io_op_time(object, context, ...)`, right after the call. The value that is moved into its second
/// argument after the call was preserved by the call, and so it is at the same place before the call.
fn with_ring(program: &Program, mut site: Proposal) -> Option<Proposal> {
    let code = program.function_at(site.address).map_or_else(Vec::new, |function| program.instructions(function));
    let counts = program.symbols.get("pgstat_count_io_op_time");
    let [.., address, kind, context] = &mut site.fetch[..] else { return Some(site) };
    let Some(&counts) = counts else {
        if let Some(strategy) = kept_of(&code, Register::R9) {
            *kind = format!("+0({strategy})");
            *address = strategy;
        }
        return Some(site);
    };
    let behind = code.iter().position(|one| one.ip() > site.address).unwrap_or(code.len());
    let call = code[behind..].iter().position(|one| is_call(one) && one.near_branch_target() == counts);
    let between = &code[behind..behind + call.unwrap_or(0)];
    // The compiler made a separate path for temporary tables (IOOBJECT_TEMP_RELATION), whose local buffers are not in
    // the pool.
    if moved_into(between, Register::RDI).as_deref() == Some("\\1") {
        return None;
    }
    if let Some(place) = moved_into(between, Register::RSI) {
        (*address, *kind, *context) = ("\\1".to_owned(), "\\0".to_owned(), place);
    }
    Some(site)
}

/// Returns the source of the last move into an argument's register after the last call: a register, a place on the
/// stack, or a constant.
fn moved_into(code: &[Instruction], argument: Register) -> Option<String> {
    let since = code.iter().rev().take_while(|one| !is_call(one));
    let mut into =
        since.filter(|one| one.op0_kind() == OpKind::Register && one.op0_register().full_register() == argument);
    into.next().filter(|one| one.mnemonic() == Mnemonic::Mov).and_then(|one| match one.op1_kind() {
        OpKind::Register => Some(short(one.op1_register())),
        OpKind::Memory => on_stack(one),
        OpKind::Immediate32 => Some(format!("\\{}", one.immediate32())),
        _ => None,
    })
}

/// Returns the place on the stack that an instruction names; none for other memory.
fn on_stack(one: &Instruction) -> Option<String> {
    let base = Some(one.memory_base()).filter(|base| matches!(base, Register::RBP | Register::RSP))?;
    let distance = one.memory_displacement64().cast_signed();
    (one.memory_index() == Register::None).then(|| format!("{distance:+}({})", short(base)))
}

/// Returns where a function keeps an argument that it moves before its first call: a register, or a place on the stack.
fn kept_of(code: &[Instruction], argument: Register) -> Option<String> {
    let before = code.iter().take_while(|one| !is_call(one));
    let mut moved = before.filter(|one| {
        one.mnemonic() == Mnemonic::Mov && one.op1_kind() == OpKind::Register && one.op1_register() == argument
    });
    moved.find_map(|one| match one.op0_kind() {
        OpKind::Register => Some(short(one.op0_register())),
        OpKind::Memory => on_stack(one),
        _ => None,
    })
}

/// Returns a site at the jump after `PinBuffer` tests whether the session has pinned the page. If the build lacks the
/// name, `PinBuffer` is sought among the functions that begin with such a test: most functions that count a hit call
/// it.
fn pin_buffer(program: &Program, hits: &[Raise]) -> Option<Proposal> {
    let mut called: BTreeMap<u64, usize> = BTreeMap::new();
    let mut counting: Vec<&Function> = hits.iter().filter_map(|raise| program.function_at(raise.at)).collect();
    counting.dedup_by_key(|function| function.start);
    for function in &counting {
        let code = program.instructions(function);
        let callees: BTreeSet<u64> =
            code.iter().filter(|one| is_call(one)).map(Instruction::near_branch_target).collect();
        callees.into_iter().for_each(|callee| *called.entry(callee).or_default() += 1);
    }
    let asks = |callee: u64| {
        let function = program.function_at(callee).filter(|function| function.symbol.is_none())?;
        question(&program.instructions(function)).map(|_| function)
    };
    let voted =
        called.iter().filter_map(|(callee, votes)| Some((asks(*callee)?, votes))).max_by_key(|(_, votes)| **votes);
    let named = program.function_named("PinBuffer").map(|function| (function, "its name".to_owned()));
    let (function, why) = named.or_else(|| {
        let (function, votes) = voted?;
        Some((function, format!("{votes} of {} functions that count a hit call {:#x}", counting.len(), function.start)))
    })?;
    let code = program.instructions(function);
    let jump = question(&code)?;
    let kept = |argument| kept_of(&code, argument).unwrap_or_else(|| "?".to_owned());
    let (page, strategy) = (kept(Register::RDI), kept(Register::RSI));
    let mut fetch: Vec<String> = [0, 4, 8, 12, 16].iter().map(|at| format!("+{at}({page})")).collect();
    fetch.extend(["\\1".to_owned(), "\\0".to_owned(), "%ax".to_owned(), strategy.clone(), format!("+0({strategy})")]);
    fetch.push("\\9".to_owned());
    let why = format!("{why}; the jump behind its first call, which returns the session's note of the page");
    Some(Proposal {
        at: "PinBuffer".to_owned(),
        kinds: vec!["get"],
        address: jump.ip(),
        fetch,
        why,
        ..Proposal::default()
    })
}

/// Returns the jump that follows a function's first call, if the jump depends on whether the call returned a null
/// value.
fn question(code: &[Instruction]) -> Option<&Instruction> {
    let call = code.iter().position(is_call)?;
    let soon = code.get(call + 1..call + 5)?;
    let test = soon.iter().position(|one| one.mnemonic() == Mnemonic::Test && one.op0_register() == Register::RAX)?;
    // Moves change no flags, so they may be between the test and the jump.
    let mut behind = code[call + 2 + test..].iter().skip_while(|one| one.mnemonic() == Mnemonic::Mov);
    behind.next().filter(|one| one.flow_control() == FlowControl::ConditionalBranch)
}

/// Returns a site at the entry of the first of these functions that the build names.
pub(super) fn entry(
    program: &Program,
    names: &[&'static str],
    kind: &'static str,
    fetch: Vec<String>,
) -> Option<Proposal> {
    let (name, function) = names.iter().find_map(|name| Some((*name, program.function_named(name)?)))?;
    let why = format!("the entry of {name}, by its symbol");
    Some(Proposal {
        at: name.to_owned(),
        kinds: vec![kind],
        address: entry_of(program, function)?,
        fetch,
        why,
        ..Proposal::default()
    })
}

/// Returns the address of a function's first instruction after `endbr64`, if there is one: the kernel does not emulate
/// `endbr64`, which changes nothing.
pub(super) fn entry_of(program: &Program, function: &Function) -> Option<u64> {
    program.instructions(function).iter().find(|one| one.mnemonic() != Mnemonic::Endbr64).map(Instruction::ip)
}

pub(super) fn calls(
    program: &Program,
    name: &str,
    callees: &[&str],
    kinds: &[&'static str],
    fetch: &[String],
) -> Vec<Proposal> {
    let Some(function) = program.function_named(name) else { return Vec::new() };
    let found = callees.iter().filter_map(|callee| program.function_named(callee));
    let to = |callee: &Function| {
        let why = format!("{name} calls {} here, by their symbols", callee.name());
        calls_to(program, function, callee.start, kinds, fetch, &why)
    };
    found.flat_map(to).collect()
}

/// Returns the calls of `callee` in the functions that raise a counter.
fn calls_where(
    program: &Program,
    raised: &[Raise],
    callee: &str,
    kinds: &[&'static str],
    fetch: &[String],
    counter: &str,
) -> Vec<Proposal> {
    let Some(&target) = program.symbols.get(callee) else { return Vec::new() };
    let mut functions: Vec<&Function> = raised.iter().filter_map(|raise| program.function_at(raise.at)).collect();
    functions.dedup_by_key(|function| function.start);
    let why = format!("this function calls {callee} and raises {counter}");
    functions.iter().flat_map(|function| calls_to(program, function, target, kinds, fetch, &why)).collect()
}

pub(super) fn calls_to(
    program: &Program,
    function: &Function,
    callee: u64,
    kinds: &[&'static str],
    fetch: &[String],
    why: &str,
) -> Vec<Proposal> {
    let code = program.instructions(function);
    let to = |one: &&Instruction| one.near_branch_target() == callee && (is_call(one) || is_jump(one));
    let site = |one: &Instruction| {
        let (fetch, why, kinds) = (fetch.to_vec(), why.to_owned(), kinds.to_vec());
        Proposal { at: function.name(), kinds, address: one.ip(), fetch, why, ..Proposal::default() }
    };
    code.iter().filter(to).map(site).collect()
}

/// Returns a site on the path of a raise: the next instruction that the kernel emulates. If the function returns before
/// such an instruction, the site is the last one before the raise that is on all paths to it. Returns none if there is
/// neither.
pub(super) fn beside(program: &Program, function: &Function, raise: &Raise, kind: &'static str) -> Option<Proposal> {
    let code = program.instructions(function);
    let (before, from) = code.split_at(code.partition_point(|one| one.ip() < raise.at));
    let mut way = from.iter().skip(1).take_while(|one| one.flow_control() != FlowControl::Return);
    let targets =
        code.iter().filter(|one| is_jump(one) || one.is_jcc_short_or_near()).map(Instruction::near_branch_target);
    let joined = targets.filter(|at| (function.start..=raise.at).contains(at)).max().unwrap_or(function.start);
    let mut back = before.iter().rev().take_while(|one| one.ip() >= joined).take_while(|one| {
        !matches!(
            one.flow_control(),
            FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
        )
    });
    let site = way.find(|one| is_emulated(one)).or_else(|| back.find(|one| is_emulated(one)))?;
    let bytes = function.end - function.start;
    let why = format!("a function of {bytes} bytes at {:#x} raises the counter at {:#x}", function.start, raise.at);
    Some(Proposal { at: function.name(), kinds: vec![kind], address: site.ip(), why, ..Proposal::default() })
}

/// Returns the places around a raise where a register may hold the page's address: the site, and the instructions
/// before the raise that the kernel emulates.
pub(super) fn tries(values: &Values, raise: u64, site: u64) -> Vec<(u64, Vec<String>)> {
    let before = values.code().iter().rev().skip_while(|one| one.ip() >= raise).take(INSTRUCTIONS_BEFORE);
    let places = before.filter(|one| is_emulated(one)).map(Instruction::ip);
    let with_registers = std::iter::once(site).chain(places).map(|at| (at, values.addresses(at)));
    with_registers.filter(|(_, registers)| !registers.is_empty()).collect()
}

/// Returns whether the kernel emulates an instruction at a probe; see `is_emulated` of page_trace/live.rs.
pub(super) fn is_emulated(one: &Instruction) -> bool {
    one.mnemonic() == Mnemonic::Push || is_call(one) || is_jump(one) || one.is_jcc_short_or_near()
}

pub(super) fn is_jump(one: &Instruction) -> bool {
    one.is_jmp_short_or_near()
}
