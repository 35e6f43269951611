//! Finds the sites of a known build in another build: it compares the instructions of functions, and in the most
//! similar function the instructions around each place.

use std::collections::HashSet;

use iced_x86::{Instruction, OpKind};

use bufferlab_probe::page_trace::propose::program::{Function, Program};

/// The number of instructions before a site, and after it, that are compared.
const AROUND: usize = 8;
/// The number of successive instructions that are compared as one sequence.
const IN_A_ROW: usize = 3;

/// A place that is similar to a site, and how similar it is.
pub struct Alike {
    pub address: u64,
    /// The share of short sequences of instructions that both functions have.
    pub function: f64,
    /// The number of equal instructions among the 2 x [`AROUND`] + 1 around the place, if operands are ignored.
    pub around: usize,
    /// The number of these equal instructions that also have the same registers and distances.
    pub registers: usize,
    pub named: bool,
}

/// Returns the place in `program` that is most similar to an address in `known`; none if no function is similar.
pub fn find(known: &Program, at: u64, program: &Program) -> Option<Alike> {
    let site_function = known.function_at(at)?;
    let site_code = known.instructions(site_function);
    let index = site_code.iter().position(|one| one.ip() == at)?;
    let wanted = sequences(&site_code);
    let named = site_function.symbol.as_ref().and_then(|_| program.function_named(&site_function.name()));
    let sizes = |function: &&Function| {
        let (own, other) = (function.end - function.start, site_function.end - site_function.start);
        own <= 2 * other && other <= 2 * own
    };
    let score = |function: &Function| share(&wanted, &sequences(&program.instructions(function)));
    let (function, alike) = match named {
        Some(function) => (function, score(function)),
        None => {
            let scored = program.functions.iter().filter(sizes).map(|function| (function, score(function)));
            scored.max_by(|(_, one), (_, other)| one.total_cmp(other))?
        }
    };
    let code = program.instructions(function);
    let same = |by: &dyn Fn(&Instruction) -> u64, place: usize| {
        let near = |step: &i64| {
            let one = index.checked_add_signed(*step as isize).and_then(|at| site_code.get(at));
            let other = place.checked_add_signed(*step as isize).and_then(|at| code.get(at));
            one.map(by) == other.map(by)
        };
        (-(AROUND as i64)..=AROUND as i64).filter(near).count()
    };
    let places = (0..code.len()).filter(|place| code[*place].code() == site_code[index].code());
    let place = places.max_by_key(|place| (same(&shape, *place), same(&registers, *place)))?;
    let (around, registers) = (same(&shape, place), same(&registers, place));
    Some(Alike { address: code[place].ip(), function: alike, around, registers, named: named.is_some() })
}

/// Returns the number of an instruction's mnemonic: the instruction without its operands.
fn shape(one: &Instruction) -> u64 {
    one.mnemonic() as u64
}

/// Returns a number for an instruction with its registers and its distances from them.
fn registers(one: &Instruction) -> u64 {
    let parts = [one.op0_register(), one.op1_register(), one.memory_base(), one.memory_index()].map(|part| part as u64);
    let is_near = (0..one.op_count()).any(|at| one.op_kind(at) == OpKind::Memory) && !one.is_ip_rel_memory_operand();
    let distance = if is_near { one.memory_displacement64() } else { 0 };
    parts.iter().chain([&distance]).fold(one.code() as u64, |all, part| all.wrapping_mul(1_000_003).wrapping_add(*part))
}

fn sequences(code: &[Instruction]) -> HashSet<u64> {
    code.windows(IN_A_ROW).map(|row| row.iter().fold(0, |all, one| all << 16 | shape(one))).collect()
}

/// Returns the share of elements that two sets have in common (Jaccard).
fn share(one: &HashSet<u64>, other: &HashSet<u64>) -> f64 {
    let both = one.intersection(other).count();
    both as f64 / (one.len() + other.len() - both).max(1) as f64
}
