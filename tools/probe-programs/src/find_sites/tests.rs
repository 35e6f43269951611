//! Tests how a known build's sites are found in another program, lines of page_sites.toml, and the refusal of files
//! that are not servers.

use std::collections::HashMap;
use std::path::Path;

use iced_x86::code_asm::registers::gpr64::{r12, r13, rax, rbx, rcx, rdi, rdx};
use iced_x86::code_asm::{CodeAssembler, qword_ptr};

use bufferlab_probe::page_trace::propose::program::{Function, Part, Program};

use super::{like, offsets, placed, propose};

const CODE_AT: u64 = 0x1000;
const POOL: u64 = 0x9000;

type Write = dyn Fn(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>;

/// Makes a program of these functions, one after another, without symbols.
fn program(functions: &[&Write]) -> Program {
    let mut code = Vec::new();
    let mut known = Vec::new();
    for write in functions {
        let mut assembler = CodeAssembler::new(64).expect("64 bits");
        write(&mut assembler).expect("it can be written");
        let start = CODE_AT + code.len() as u64;
        code.extend(assembler.assemble(start).expect("it assembles"));
        known.push(Function { start, end: CODE_AT + code.len() as u64, symbol: None });
    }
    let parts = vec![Part { offset: 0, address: CODE_AT, bytes: code, executable: true }];
    Program { parts, functions: known, symbols: HashMap::new(), pointers: HashMap::new() }
}

fn get(code: &mut CodeAssembler) -> Result<(), iced_x86::IcedError> {
    code.mov(r12, rdi)?;
    code.lea(rdx, qword_ptr(POOL))?;
    code.and(rax, 0x7f)?;
    code.add(qword_ptr(rdx + rax + 0x80), 1)?;
    code.ret()
}

#[test]
fn a_place_is_carried_to_the_function_that_is_most_like_its_own() {
    let known = program(&[&get]);
    let same_in_other_registers = |code: &mut CodeAssembler| {
        code.mov(r13, rdi)?;
        code.lea(rcx, qword_ptr(POOL))?;
        code.and(rax, 0x7f)?;
        code.add(qword_ptr(rcx + rax + 0x80), 1)?;
        code.ret()
    };
    let unlike = |code: &mut CodeAssembler| {
        (0..5).try_for_each(|_| code.push(rbx))?;
        code.ret()
    };
    let other = program(&[&unlike, &same_in_other_registers]);
    let site = known.instructions(&known.functions[0])[3].ip();
    let alike = like::find(&known, site, &other).expect("found");
    assert_eq!(alike.address, other.instructions(&other.functions[1])[3].ip());
    assert!((alike.function - 1.0).abs() < 1e-9);
    assert_eq!(alike.around, 17);
    assert!(alike.registers < 17);
}

#[test]
fn a_place_in_a_line_is_replaced_and_a_program_that_is_no_server_is_refused() {
    assert_eq!(offsets("{ offset = 0x1f, byte = 0x55, inside = { offset = 0x20 } }"), [0x1f, 0x20]);
    let line = "{ offset = 0x1f, byte = 0x55, fetch = [], inside = { offset = 0x20, byte = 0x49 } }";
    let moved = "{ offset = 0x1f, byte = 0x55, fetch = [], inside = { offset = 0xa0, byte = 0x0f } }";
    assert_eq!(placed(line, 0x20, 0xa0, 0x0f), moved);
    let refused = propose(&std::env::current_exe().expect("a program"), None).expect_err("no server");
    assert!(refused.contains("neither a counter of gets nor a name"), "{refused}");
    let missing = propose(Path::new("/nowhere"), None).expect_err("no file");
    assert!(missing.contains("(/nowhere)"), "{missing}");
}
