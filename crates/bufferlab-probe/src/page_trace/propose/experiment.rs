//! Lists places that may be sites in a build of MariaDB without names of functions. They are near code that refers to
//! the names of InnoDB's source files for the pool, or in code that raises the counter of gets. Only an experiment can
//! show which of them are sites.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use iced_x86::{FlowControl, Instruction, OpKind, Register};
use serde::Serialize;

use super::counter::{self, Counter, raises};
use super::program::{Function, Program, is_call};
use super::rules::{beside, entry_of, is_emulated, is_jump, tries};
use super::values::{self, Values};
use super::{Place, Try, byte_at, mariadb, room};
use crate::tracefs::TraceError;

/// The source files whose functions make and evict pages. Assertions contain the files' names.
const FILES: [&str; 4] = ["buf/buf0buf.cc", "buf/buf0lru.cc", "buf/buf0rea.cc", "buf/buf0flu.cc"];
/// The number of functions to examine before and after one that refers to such a file: the compiler keeps a file's
/// functions together, and most of them have no assertion.
const AROUND: usize = 12;
/// The number of functions before and after one of buf0lru.cc whose calls are examined: the functions of buf0rea.cc
/// (fewer than 20) follow those of buf0lru.cc.
const AROUND_READS: usize = 40;
const READER: &str = "buf/buf0lru.cc";
/// The number of instructions before a call in which to look for the move into the register of its sixth argument.
const BEFORE_CALL: usize = 24;
/// The most bytes of a function that only raises the counter of gets; the functions that call it then get the page.
const SMALL: u64 = 64;
/// The number of instructions after a raise among which an instruction is sought that every get executes, within a
/// transaction or not.
const BEHIND: usize = 64;

/// An entry of a function, or a call.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The place for a probe.
    #[serde(flatten)]
    pub place: Place,
    /// The offset in the file of the function that has the place.
    pub function_offset: u64,
    /// For a call, the address that is called; 0 for an entry.
    pub callee: u64,
}

/// A function that counts a get.
#[derive(Clone, Debug, Serialize)]
pub struct Getter {
    /// The place after the count, at an instruction that is executed as often.
    pub site: Place,
    /// Another place, for recording inside the server, if a jump has no room at `site`.
    pub inside: Option<Place>,
    /// The function's entry, if the kernel emulates its first instruction.
    pub entry: Option<Place>,
    /// Places that are executed with the count, before or after it, and the registers that are sure to hold an address
    /// there.
    pub before: Vec<Try>,
    /// Places after the count. Some of them are also executed by paths without the count.
    pub behind: Vec<Place>,
}

/// The places that an experiment tries.
#[derive(Clone, Debug, Serialize)]
pub struct Experiment {
    /// The fields of the records.
    pub fields: Vec<String>,
    /// The modes of gets that want a page only if it is in the pool.
    pub modes_if_in_pool: Vec<u8>,
    /// Functions that may make or evict a page.
    pub entries: Vec<Candidate>,
    /// Calls that may read a page.
    pub calls: Vec<Candidate>,
    /// Functions that get a page.
    pub getters: Vec<Getter>,
    /// Whether the server counts a get only if a transaction makes it.
    pub counts_transactions: bool,
}

/// Returns the places to try in an experiment on a build of MariaDB.
///
/// # Errors
/// When the file is not a binary of MariaDB, or contains neither the files' names nor the counter of gets.
pub fn experiment(binary: &Path) -> Result<Experiment, TraceError> {
    let program = Program::read(binary)?;
    let raised = counter::all(&program);
    let named = naming(&program);
    let lacks = |what: &str| {
        let what = format!("this binary does not show {what}");
        TraceError::new(what, binary.display().to_string(), "name the program `mariadbd` of a whole installation")
    };
    if named.values().all(Vec::is_empty) {
        return Err(lacks("which functions are those of InnoDB's pool"));
    }
    let (counter, _) = counter::of_innodb(&program, &raised).ok_or_else(|| lacks("its counter of gets"))?;
    let entered = values::entered(&program);
    let of = |address: u64, site: Option<u64>| {
        let function = program.function_at(address)?;
        getter(&program, binary, function, address, site, &Values::of(&program, function, &entered))
    };
    let mut getters = Vec::new();
    for raise in raises(&raised, counter) {
        let Some(function) = program.function_at(raise.at) else { continue };
        let calls = if function.end - function.start <= SMALL { callers(&program, function) } else { Vec::new() };
        if calls.is_empty() {
            getters.extend(of(raise.at, beside(&program, function, &raise, "get").map(|site| site.address)));
        }
        getters.extend(calls.into_iter().filter_map(|call| of(call, Some(call))));
    }
    let counts_transactions = matches!(counter, Counter::Field(_));
    let mut fields: Vec<String> = serde_json::from_str(mariadb::FIELDS).unwrap_or_default();
    if counts_transactions {
        fields.insert(fields.len() - 1, "flag:u64".to_owned());
    }
    Ok(Experiment {
        fields,
        modes_if_in_pool: mariadb::MODES_IF_IN_POOL.to_vec(),
        entries: around(&named, AROUND, FILES.as_slice(), program.functions.len())
            .filter_map(|number| entry_candidate(&program, &program.functions[number]))
            .collect(),
        calls: around(&named, AROUND_READS, &[READER], program.functions.len())
            .flat_map(|number| calls_with_six(&program, &program.functions[number]))
            .collect(),
        getters,
        counts_transactions,
    })
}

/// Returns, for each of [`FILES`], the numbers of the functions that refer to its name. Includes functions that jump to
/// a part that does so, because a compiler moves assertions away from their function.
fn naming(program: &Program) -> BTreeMap<&'static str, Vec<usize>> {
    let texts: BTreeMap<u64, &str> =
        FILES.iter().flat_map(|file| program.texts_ending(file).into_iter().map(|at| (at, *file))).collect();
    let mut of_file: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut leads: Vec<(usize, u64)> = Vec::new();
    for (number, function) in program.functions.iter().enumerate() {
        let own = function.start..function.end;
        for one in program.instructions(function) {
            if one.is_ip_rel_memory_operand()
                && let Some(file) = texts.get(&one.ip_rel_memory_address())
            {
                of_file.entry(file).or_default().insert(number);
            }
            let target = one.near_branch_target();
            if (is_jump(&one) || one.is_jcc_short_or_near()) && !own.contains(&target) {
                leads.push((number, target));
            }
        }
    }
    let mut found = BTreeMap::new();
    for (file, numbers) in of_file {
        let names = |target: u64| {
            let next = program.functions.partition_point(|function| function.start <= target);
            next.checked_sub(1).is_some_and(|number| numbers.contains(&number))
        };
        let leading = leads.iter().filter(|(_, target)| names(*target)).map(|(number, _)| *number);
        found.insert(file, numbers.iter().copied().chain(leading).collect::<BTreeSet<_>>().into_iter().collect());
    }
    found
}

/// Returns the numbers of the functions around those that refer to some files, in their order.
fn around(
    named: &BTreeMap<&'static str, Vec<usize>>,
    distance: usize,
    files: &[&str],
    functions: usize,
) -> impl Iterator<Item = usize> + use<> {
    let anchors = files.iter().filter_map(|file| named.get(file)).flatten();
    let near = |number: &usize| number.saturating_sub(distance)..(number + distance + 1).min(functions);
    anchors.flat_map(near).collect::<BTreeSet<_>>().into_iter()
}

fn place_of(program: &Program, address: u64) -> Place {
    Place { offset: program.offset_of(address), byte: byte_at(program, address) }
}

fn emulated_entry(program: &Program, function: &Function) -> Option<Place> {
    let first = entry_of(program, function)?;
    let code = program.instructions(function);
    code.iter().find(|one| one.ip() == first).filter(|one| is_emulated(one)).map(|one| place_of(program, one.ip()))
}

fn entry_candidate(program: &Program, function: &Function) -> Option<Candidate> {
    let place = emulated_entry(program, function)?;
    Some(Candidate { place, function_offset: program.offset_of(function.start), callee: 0 })
}

/// Returns the calls of a function with a sixth argument, as `fil_space_t::io` has one.
fn calls_with_six(program: &Program, function: &Function) -> Vec<Candidate> {
    let code = program.instructions(function);
    let has_six = |at: usize| {
        let before = code[..at].iter().rev().take(BEFORE_CALL).take_while(|one| !is_call(one));
        before
            .clone()
            .any(|one| one.op0_kind() == OpKind::Register && one.op0_register().full_register() == Register::R9)
    };
    let is_tail =
        |one: &Instruction| is_jump(one) && !(function.start..function.end).contains(&one.near_branch_target());
    let calls = || code.iter().enumerate().filter(|(_, one)| is_call(one) || is_tail(one));
    // Include all calls of these functions: at another call the argument may be set before the instructions that are
    // searched.
    let callees: BTreeSet<u64> =
        calls().filter(|(at, _)| has_six(*at)).map(|(_, one)| one.near_branch_target()).collect();
    let found = calls().map(|(_, one)| one).filter(|one| callees.contains(&one.near_branch_target()));
    let found = found.filter(|one| program.is_code(one.near_branch_target()));
    found
        .map(|one| Candidate {
            place: place_of(program, one.ip()),
            function_offset: program.offset_of(function.start),
            callee: one.near_branch_target(),
        })
        .collect()
}

/// Returns the calls of a function, in all functions.
fn callers(program: &Program, callee: &Function) -> Vec<u64> {
    let calls = |function: &Function| {
        let code = program.instructions(function);
        let own = code.into_iter().filter(|one| is_call(one) && one.near_branch_target() == callee.start);
        own.map(|one| one.ip()).collect::<Vec<_>>()
    };
    program.functions.iter().flat_map(calls).collect()
}

/// Returns a function that counts a get at an address, itself or in a function that it calls. The code at its `site` is
/// executed as often as the count.
fn getter(
    program: &Program,
    binary: &Path,
    function: &Function,
    counts_at: u64,
    site: Option<u64>,
    values: &Values,
) -> Option<Getter> {
    let site = site?;
    let before = tries(values, counts_at, site);
    let behind = values.code().iter().skip_while(|one| one.ip() <= counts_at).take(BEHIND);
    let behind = behind.filter(|one| is_emulated(one) && one.flow_control() != FlowControl::Return);
    let inside = room(program, binary, site).is_err().then(|| {
        let code = values.code().iter().rev().skip_while(|one| one.ip() >= site).take(BEFORE_CALL);
        code.map(Instruction::ip).find(|at| *at > counts_at && room(program, binary, *at).is_ok())
    });
    Some(Getter {
        site: place_of(program, site),
        inside: inside.flatten().map(|at| place_of(program, at)),
        entry: emulated_entry(program, function),
        before: before.into_iter().map(|(at, registers)| Try { place: place_of(program, at), registers }).collect(),
        behind: behind.map(|one| place_of(program, one.ip())).collect(),
    })
}

#[cfg(test)]
mod tests {
    use iced_x86::code_asm::registers::gpr64::{r9, r12, rax, rbx, rdi, rdx};
    use iced_x86::code_asm::{CodeAssembler, qword_ptr};
    use iced_x86::{Code, MemoryOperand};

    use super::super::program::Part;
    use super::super::tests::{CODE_AT, Write, program};
    use super::*;

    const TEXT: u64 = 0x20_000;

    /// Returns a program of these functions, with the path of a source file of InnoDB's pool at [`TEXT`].
    fn of_pool(functions: &[&Write]) -> Program {
        let mut made = program(&functions.iter().map(|one| ("", *one)).collect::<Vec<_>>());
        let bytes = b"/src/storage/innobase/buf/buf0lru.cc\0another\0".to_vec();
        made.parts.push(Part { offset: TEXT, address: TEXT, bytes, executable: false });
        made
    }

    fn quiet(code: &mut CodeAssembler) -> Result<(), iced_x86::IcedError> {
        code.push(rbx)?;
        code.pop(rbx)?;
        code.ret()
    }

    fn names(code: &mut CodeAssembler) -> Result<(), iced_x86::IcedError> {
        let text = MemoryOperand::with_base_displ(Register::RIP, TEXT.cast_signed());
        code.add_instruction(Instruction::with2(Code::Lea_r64_m, Register::RDI, text)?)?;
        code.ret()
    }

    #[test]
    fn functions_that_name_a_file_and_those_that_jump_to_its_assertions_are_found_with_their_neighbours() {
        let asserts = |code: &mut CodeAssembler| {
            code.push(rbx)?;
            code.test(rdi, rdi)?;
            // The first function, which refers to the file's name, is a part of this function that the compiler moved
            // away.
            code.jne(CODE_AT)?;
            code.ret()
        };
        let all: Vec<&Write> = vec![&names, &quiet, &quiet, &quiet, &asserts, &quiet, &quiet];
        let program = of_pool(&all);
        let named = naming(&program);
        assert_eq!(named, BTreeMap::from([("buf/buf0lru.cc", vec![0, 4])]));
        let near = |distance, files: &[&str]| around(&named, distance, files, all.len()).collect::<Vec<_>>();
        assert_eq!(near(1, &FILES), [0, 1, 3, 4, 5]);
        assert_eq!(near(0, &["buf/buf0buf.cc"]), [0; 0]);
        assert_eq!(near(99, &FILES), (0..all.len()).collect::<Vec<_>>());
        assert!(entry_candidate(&program, &program.functions[0]).is_none(), "the kernel emulates no lea");
        assert!(entry_candidate(&program, &program.functions[1]).is_some());
    }

    #[test]
    fn calls_with_a_sixth_argument_of_their_own_are_found() {
        let reads = |code: &mut CodeAssembler| {
            code.mov(r9, r12)?;
            code.mov(rdi, rdx)?;
            code.call(CODE_AT)?;
            code.mov(rdi, rdx)?;
            code.call(CODE_AT)?;
            code.lea(r9, qword_ptr(rdi + 8))?;
            code.call(CODE_AT)?;
            code.call(CODE_AT + 1)?;
            code.ret()
        };
        let program = of_pool(&[&quiet, &reads]);
        let found = calls_with_six(&program, &program.functions[1]);
        let code = program.instructions(&program.functions[1]);
        let calls: Vec<u64> = code.iter().filter(|one| is_call(one)).map(|one| program.offset_of(one.ip())).collect();
        assert_eq!(found.iter().map(|one| one.place.offset).collect::<Vec<_>>(), calls[..3]);
        assert!(found.iter().all(|one| one.callee == CODE_AT && one.place.byte == 0xe8));
    }

    #[test]
    fn a_function_that_only_counts_is_got_by_those_that_call_it() {
        let counts = |code: &mut CodeAssembler| {
            code.add(qword_ptr(rdi + 0x8d0), 1)?;
            code.ret()
        };
        let gets = |code: &mut CodeAssembler| {
            code.mov(rax, qword_ptr(rbx))?;
            code.call(CODE_AT)?;
            code.call(CODE_AT)?;
            code.ret()
        };
        let program = of_pool(&[&counts, &gets]);
        let calls = callers(&program, &program.functions[0]);
        assert_eq!(calls.len(), 2);
        let values = Values::of(&program, &program.functions[1], &BTreeSet::new());
        let path = Path::new("/bin/true");
        let found = getter(&program, path, &program.functions[1], calls[0], Some(calls[0]), &values).expect("a getter");
        assert_eq!(found.site.byte, 0xe8);
        assert_eq!(found.before[0].registers, ["%bx"]);
        assert_eq!(found.behind.len(), 1, "the other call");
        assert!(getter(&program, path, &program.functions[1], calls[0], None, &values).is_none());
    }
}
