//! Finds the sites of a build of PostgreSQL at which a page is changed, gets a hint, or is written to its file.
//!
//! A function that changes a page always tests the buffer's state for `BM_DIRTY`. This test is the site. Before the
//! test the code has read the state, and the base register of that read holds the buffer's address.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use iced_x86::{Instruction, Mnemonic, OpKind};

use super::program::{Function, Program, is_call};
use super::rules::Proposal;
use super::values::{Values, entered, goes_on, jumps};

/// The functions that make a shared page dirty (storage/bufmgr.h): the name, whether the function only sets a hint, and
/// whether every version has it. The functions that not every version has are in 19 only.
const CHANGERS: [(&str, bool, bool); 4] = [
    ("MarkBufferDirty", false, true),
    ("MarkBufferDirtyHint", true, true),
    ("BufferSetHintBits16", true, false),
    ("BufferFinishSetHintBits", true, false),
];
/// `BM_DIRTY` and `BM_JUST_DIRTIED` of a buffer's state (storage/buf_internals.h).
const DIRTY: u64 = 1 << 23;
const JUST_DIRTIED: u64 = 1 << 28;

/// Returns the sites of changes, hints and writes of shared pages. `room` says whether a jump has room at an address.
///
/// # Errors
/// If a function has no site, with this function's name, as a phrase: a trace without all changes and writes is
/// useless.
pub fn sites(program: &Program, room: &dyn Fn(u64) -> bool) -> Result<Vec<Proposal>, String> {
    let entered = entered(program);
    let mut sites = Vec::new();
    for (name, is_hint, is_needed) in CHANGERS {
        match program.function_named(name) {
            Some(function) => sites.extend(changes(program, function, is_hint, &entered, room)?),
            None if is_needed => return Err(format!("it names no {name}")),
            None => {}
        }
    }
    sites.extend(flushes(program, room)?);
    Ok(sites)
}

/// Returns the sites in a function that changes pages: on each path the first test of the state.
///
/// `MarkBufferDirty` sets the bit by a compare-and-exchange, which it repeats if another process has changed the state
/// since it was read. After that it tests the old state.
fn changes(
    program: &Program,
    function: &Function,
    is_hint: bool,
    entered: &BTreeSet<u64>,
    room: &dyn Fn(u64) -> bool,
) -> Result<Vec<Proposal>, String> {
    let name = function.name();
    let values = Values::of(program, function, entered);
    let code = values.code();
    let exchanges: Vec<usize> = (0..code.len()).filter(|at| code[*at].mnemonic() == Mnemonic::Cmpxchg).collect();
    let begin = match (is_hint, &exchanges[..]) {
        (true, _) => 0,
        (false, [one]) => one + 1,
        _ => return Err(format!("{name} does not exchange the state of a buffer at one place")),
    };
    let tests = first_tests(code, begin);
    if tests.is_empty() {
        return Err(format!("{name} does not test whether a page is dirty"));
    }
    let site = |test: usize| {
        let place = places(code, test, begin).find_map(|at| {
            let address = code[at].ip();
            let buffer = values.buffers(address).into_iter().next()?;
            room(address).then_some((address, buffer))
        });
        let (address, buffer) = place
            .ok_or_else(|| format!("{name} has no room for a site, or no register with the buffer, at its test"))?;
        let held = if is_hint { "\\1" } else { "\\0" };
        let tag = [0, 4, 8, 12, 16].map(|at| format!("+{at}({buffer})"));
        Ok(Proposal {
            at: name.clone(),
            kinds: vec!["dirty"],
            address,
            fetch: tag.into_iter().chain(rest(held)).collect(),
            why: format!("{name} tests here whether the page is dirty already, by its symbol"),
            ..Proposal::default()
        })
    };
    tests.into_iter().map(site).collect()
}

/// Returns the values that follow the page in a record: one page, no flag, `held`, no strategy and no IOContext.
fn rest(held: &str) -> [String; 6] {
    ["\\1", "\\0", held, "\\1", "\\0", "\\9"].map(str::to_owned)
}

/// Returns the tests of `BM_DIRTY` that some path from `begin` on reaches before any other such test.
fn first_tests(code: &[Instruction], begin: usize) -> Vec<usize> {
    let (mut seen, mut found, mut waiting) = (BTreeSet::new(), BTreeSet::new(), vec![begin]);
    while let Some(at) = waiting.pop() {
        let Some(one) = code.get(at).filter(|_| seen.insert(at)) else { continue };
        if is_test(one) {
            found.insert(at);
            continue;
        }
        let target = jumps(one).then(|| code.binary_search_by_key(&one.near_branch_target(), Instruction::ip).ok());
        waiting.extend(goes_on(one).then_some(at + 1).into_iter().chain(target.flatten()));
    }
    found.into_iter().collect()
}

/// Returns whether an instruction tests a register for `BM_DIRTY`, perhaps with `BM_JUST_DIRTIED`, for no other bit.
fn is_test(one: &Instruction) -> bool {
    if one.op_count() != 2 || one.op0_kind() != OpKind::Register || one.op0_register().size() < 4 {
        return false;
    }
    let value = match one.op1_kind() {
        OpKind::Immediate8 | OpKind::Immediate32 | OpKind::Immediate32to64 => one.immediate(1),
        _ => return false,
    };
    match one.mnemonic() {
        Mnemonic::Bt => value == u64::from(DIRTY.trailing_zeros()),
        Mnemonic::Test | Mnemonic::And => value & DIRTY != 0 && value & !(DIRTY | JUST_DIRTIED) == 0,
        _ => false,
    }
}

/// Returns the places where a site of a test may be: the test, and the instructions before it that always lead to it.
fn places(code: &[Instruction], test: usize, begin: usize) -> impl Iterator<Item = usize> {
    let targets: BTreeSet<u64> = code.iter().filter(|one| jumps(one)).map(Instruction::near_branch_target).collect();
    let is_before = move |at: &usize| {
        let (one, next) = (&code[*at], &code[*at + 1]);
        !is_call(one) && !jumps(one) && goes_on(one) && !targets.contains(&next.ip())
    };
    std::iter::once(test).chain((begin..test).rev().take_while(is_before))
}

/// Returns the calls by which `FlushBuffer` writes a page. It is static, and few builds keep its name, so it is found
/// by its calls: no other function calls both `XLogFlush` and the storage manager's write.
fn flushes(program: &Program, room: &dyn Fn(u64) -> bool) -> Result<Vec<Proposal>, String> {
    let address = |name: &str| program.symbols.get(name).copied();
    let log = address("XLogFlush").ok_or("it names no XLogFlush")?;
    // From 17 on `smgrwrite` is an inline function.
    let write = address("smgrwritev").or_else(|| address("smgrwrite")).ok_or("it names no smgrwrite")?;
    let mut found = Vec::new();
    for function in &program.functions {
        let code = program.instructions(function);
        let of = |callee: u64| code.iter().filter(move |one| is_call(one) && one.near_branch_target() == callee);
        if of(log).next().is_some() {
            found.extend(of(write).map(Instruction::ip));
        }
    }
    match found[..] {
        [] => Err("none of its functions calls both XLogFlush and smgrwrite".to_owned()),
        [address] if room(address) => {
            let relation = ["+0(%di)", "+4(%di)", "+8(%di)", "%si", "%dx"].map(str::to_owned);
            Ok(vec![Proposal {
                at: "FlushBuffer".to_owned(),
                kinds: vec!["write"],
                address,
                fetch: relation.into_iter().chain(rest("\\0")).collect(),
                why: "this function alone calls XLogFlush and writes a page".to_owned(),
                ..Proposal::default()
            }])
        }
        [_] => Err("the call that writes a page has no room for a site".to_owned()),
        _ => Err(format!("{} calls write a page after XLogFlush, in place of one", found.len())),
    }
}
