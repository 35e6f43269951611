//! Finds the counter of page gets in a binary, and the instructions that raise it.
//!
//! PostgreSQL exports its counter by name (`pgBufferUsage`). The search for InnoDB's counter begins at the name of the
//! status variable that shows it. The table of status variables has the counter's address, or the address of a copy,
//! whose source is the counter.

use std::collections::{HashMap, HashSet};

use iced_x86::{Instruction, Mnemonic, OpKind, Register};

use super::program::{Function, Program};

const STATUS_VARIABLE: &str = "buffer_pool_read_requests";
/// Functions of InnoDB that get a page, for builds in which the table of status variables does not lead to the counter.
const GETS: [&str; 4] =
    ["buf_page_optimistic_get", "buf_page_get_known_nowait", "buf_page_try_get", "buf_page_get_gen"];
/// The same functions in MariaDB from 10.5 on.
const GETS_OF_MARIADB: [&str; 5] =
    ["buf_page_get_low", "buf_page_get_gen", "buf_page_try_get", "buf_page_free", "btr_search_guess_on_hash"];
/// The most instructions between the read of a counter and the store into its copy.
const LOOK_BACK: usize = 40;

/// A number counts as the counter of gets if at least this many of InnoDB's functions that get a page raise it.
const FEWEST: usize = 4;

/// A number in memory to which instructions add ("raise" it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// A number at an address, or an array of numbers that begins there.
    At(u64),
    /// A field of objects, by its distance in bytes from an object's beginning.
    Field(u64),
}

/// An instruction that adds to a number in memory.
#[derive(Clone, Copy, Debug)]
pub struct Raise {
    /// The address of the instruction.
    pub at: u64,
    /// The register that is added; none if a constant is added.
    pub by: Option<Register>,
    address: Option<u64>,
    field: Option<u64>,
}

/// Returns InnoDB's counter of gets, and a description of how it was found.
pub fn of_innodb(program: &Program, all: &[Raise]) -> Option<(Counter, String)> {
    if let Some((address, functions)) = common_address(program, all).filter(|(_, functions)| *functions > 1) {
        return Some((
            Counter::At(address),
            format!("{functions} functions that get pages raise what is at {address:#x}"),
        ));
    }
    if let Some((field, functions)) = common_field(program).filter(|(_, functions)| *functions > 1) {
        return Some((
            Counter::Field(field),
            format!("{functions} functions that get pages raise a field at {field:#x}"),
        ));
    }
    let entries = program.texts(STATUS_VARIABLE).into_iter().flat_map(|text| program.pointers_to(text));
    // Other tables, such as that of monitors, contain the variable's name, too.
    let mut shown: Vec<u64> = entries.filter_map(|entry| program.pointer_at(entry + 8)).collect();
    shown.retain(|value| !program.is_code(*value));
    shown.sort_unstable();
    shown.into_iter().find_map(|shown| of_status(program, all, shown))
}

/// Returns the counter that a status variable shows, or whose copy it shows.
fn of_status(program: &Program, all: &[Raise], shown: u64) -> Option<(Counter, String)> {
    let way = format!("status variable {STATUS_VARIABLE} shows {shown:#x}");
    let raised = raises(all, Counter::At(shown));
    if let Some(field) = raised.iter().find_map(|raise| field_added(program, raise)) {
        return Some((Counter::Field(field), format!("{way}, to which transactions add their field at {field:#x}")));
    }
    if !raised.is_empty() {
        return Some((Counter::At(shown), way));
    }
    // Choose the source that most functions raise: more functions raise the counter of gets than any counter near it.
    let functions = |address: &u64| {
        let raised = raises(all, Counter::At(*address));
        raised
            .iter()
            .filter_map(|raise| program.function_at(raise.at))
            .map(|one| one.start)
            .collect::<HashSet<_>>()
            .len()
    };
    let source =
        sources(program, shown).into_iter().filter(|address| functions(address) >= FEWEST).max_by_key(functions)?;
    Some((Counter::At(source), format!("{way}, a copy of what is at {source:#x}")))
}

/// Returns the address of the number that most of MariaDB's functions that get pages raise, and how many raise it. It
/// is for versions from 10.5 on, which have one pool, `buf_pool`, so that the counter has a fixed address.
fn common_address(program: &Program, all: &[Raise]) -> Option<(u64, usize)> {
    let mut raised: HashMap<u64, HashSet<u64>> = HashMap::new();
    for raise in all.iter().filter(|raise| raise.by.is_none()) {
        let function = program.function_at(raise.at).filter(|one| GETS_OF_MARIADB.contains(&&*one.name()));
        if let Some((address, function)) = raise.address.zip(function) {
            raised.entry(address).or_default().insert(function.start);
        }
    }
    raised.into_iter().map(|(address, functions)| (address, functions.len())).max_by_key(|(at, all)| (*all, *at))
}

/// Returns the field that most of the functions that get pages raise, and how many raise it. Returns none for MariaDB
/// from 10.5 on, which passes a page_id_t as one number: its functions raise the count of a page's users, too.
fn common_field(program: &Program) -> Option<(u64, usize)> {
    if program.function_named(GETS[3]).and_then(|one| one.symbol.as_deref()).is_some_and(passes_one_number) {
        return None;
    }
    let mut fields: HashMap<u64, usize> = HashMap::new();
    for function in program.functions.iter().filter(|function| GETS.contains(&&*function.name())) {
        let code = program.instructions(function);
        let adds = code.iter().filter(|one| is_raise(one) && one.op1_kind() != OpKind::Register);
        for displacement in adds.map(Instruction::memory_displacement64).filter(|displacement| *displacement > 64) {
            *fields.entry(displacement).or_default() += 1;
        }
    }
    fields.into_iter().max_by_key(|(field, functions)| (*functions, *field))
}

/// Returns every instruction of a program that raises a number in memory, in the order of their addresses.
pub fn all(program: &Program) -> Vec<Raise> {
    let mut found = Vec::new();
    for function in &program.functions {
        each_memory(program, function, |one, address| {
            if is_raise(one) {
                let of_object = !matches!(one.memory_base(), Register::RIP | Register::RSP | Register::None);
                found.push(Raise {
                    at: one.ip(),
                    by: (one.op1_kind() == OpKind::Register).then(|| one.op1_register()),
                    address,
                    field: of_object.then(|| one.memory_displacement64()),
                });
            }
        });
    }
    found
}

/// Returns the instructions that raise a counter.
pub fn raises(all: &[Raise], counter: Counter) -> Vec<Raise> {
    let wanted = |raise: &&Raise| match counter {
        Counter::At(at) => raise.address == Some(at),
        // Exclude instructions that add a register: they raise another object's field at the same offset.
        Counter::Field(field) => raise.field == Some(field) && raise.by.is_none(),
    };
    all.iter().filter(wanted).copied().collect()
}

/// Returns whether an instruction adds to a number in memory.
fn is_raise(one: &Instruction) -> bool {
    matches!(one.mnemonic(), Mnemonic::Add | Mnemonic::Inc | Mnemonic::Xadd) && one.op0_kind() == OpKind::Memory
}

/// Returns the field from which the register was read that a raise adds.
fn field_added(program: &Program, raise: &Raise) -> Option<u64> {
    let function = program.function_at(raise.at)?;
    let code = program.instructions(function);
    let from_field = |one: &&Instruction| {
        one.mnemonic() == Mnemonic::Mov
            && Some(one.op0_register()) == raise.by
            && one.op1_kind() == OpKind::Memory
            && one.memory_displacement64() > 64
            && !matches!(one.memory_base(), Register::RIP | Register::RSP | Register::RBP)
    };
    // The compiler may have moved the addition away from the condition before it. A jump then leads to the addition.
    code.iter().find(from_field).map(Instruction::memory_displacement64)
}

/// Returns the addresses that are read before a number is stored at an address.
fn sources(program: &Program, stored: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for function in &program.functions {
        let mut read: Vec<Option<u64>> = Vec::new();
        each_memory(program, function, |one, address| {
            if one.mnemonic() == Mnemonic::Mov && one.op0_kind() == OpKind::Memory && address == Some(stored) {
                found.extend(read.iter().rev().take(LOOK_BACK).flatten());
            }
            let reads = one.op1_kind() == OpKind::Memory && one.mnemonic() != Mnemonic::Lea;
            read.push(address.filter(|_| reads));
        });
    }
    found
}

/// Passes each instruction of a function to `take`, with the address of its memory if that is known: relative to the
/// code, or to a register that has such an address. Indices are left out, and paths are not followed.
fn each_memory(program: &Program, function: &Function, mut take: impl FnMut(&Instruction, Option<u64>)) {
    let mut known: HashMap<Register, u64> = HashMap::new();
    for one in program.instructions(function) {
        let address = if one.is_ip_rel_memory_operand() {
            Some(one.ip_rel_memory_address())
        } else if one.memory_base() == Register::None {
            // A program that is not position-independent refers to its data by absolute addresses.
            (one.segment_prefix() == Register::None).then(|| one.memory_displacement64())
        } else {
            known.get(&one.memory_base()).map(|base| base.wrapping_add(one.memory_displacement64()))
        };
        take(&one, address);
        let written =
            if one.op0_kind() == OpKind::Register { one.op0_register().full_register() } else { Register::None };
        match (one.mnemonic(), address) {
            (Mnemonic::Lea, Some(address)) if one.memory_index() == Register::None => {
                known.insert(written, address);
            }
            (Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push, _) => (),
            (Mnemonic::Call, _) => {
                use Register::{R8, R9, R10, R11, RAX, RCX, RDI, RDX, RSI};
                known.retain(|register, _| ![RAX, RCX, RDX, RSI, RDI, R8, R9, R10, R11].contains(register));
            }
            _ => {
                known.remove(&written);
            }
        }
    }
}

/// Returns whether a function's symbol shows that it gets a page_id_t as one number.
pub fn passes_one_number(symbol: &str) -> bool {
    symbol.contains("9page_id_t") && !symbol.contains("RK9page_id_t")
}

#[cfg(test)]
mod tests {
    use super::passes_one_number;

    #[test]
    fn a_page_is_one_number_where_a_symbol_has_it_without_a_reference() {
        assert!(passes_one_number("_Z16buf_page_get_gen9page_id_tmm"));
        assert!(!passes_one_number("_Z16buf_page_get_genRK9page_id_tRK11page_size_tm"));
        assert!(!passes_one_number("_Z16buf_page_get_genmmmmP11buf_block_t"));
    }
}
