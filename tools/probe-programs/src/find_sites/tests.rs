//! Small programs with the shapes that servers have: the tool finds what they count, and where.

use std::collections::HashMap;
use std::path::Path;

use iced_x86::code_asm::registers::gpr8::al;
use iced_x86::code_asm::registers::gpr64::{r12, r13, r14, rax, rbx, rcx, rdi, rdx, rsi};
use iced_x86::code_asm::{CodeAssembler, qword_ptr};

use bufferlab_probe::page_trace::propose::counter::{Counter, all, of_innodb, raises};
use bufferlab_probe::page_trace::propose::program::{Function, Part, Program, name_of};

use super::{like, offsets, placed, propose, rules};

const CODE_AT: u64 = 0x1000;
const POOL: u64 = 0x9000;
const ARRAY: u64 = POOL + 0x80;
const SHOWN: u64 = 0xa000;
const TABLE: u64 = 0x8100;
const TEXT: u64 = 0x8001;

type Write = dyn Fn(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>;

/// A program of these functions, one after another, whose status table shows the number at [`SHOWN`].
fn program(functions: &[(&str, &Write)]) -> Program {
    let mut code = Vec::new();
    let mut known = Vec::new();
    for (symbol, write) in functions {
        let mut assembler = CodeAssembler::new(64).expect("64 bits");
        write(&mut assembler).expect("it can be written");
        let start = CODE_AT + code.len() as u64;
        code.extend(assembler.assemble(start).expect("it assembles"));
        let symbol = (!symbol.is_empty()).then(|| (*symbol).to_owned());
        known.push(Function { start, end: CODE_AT + code.len() as u64, symbol });
    }
    let mut data = b"\0buffer_pool_read_requests\0".to_vec();
    data.resize(0x4000, 0);
    let parts = vec![
        Part { offset: 0, address: CODE_AT, bytes: code, executable: true },
        Part { offset: 0x8000, address: 0x8000, bytes: data, executable: false },
    ];
    let symbols = known.iter().filter_map(|one| Some((one.symbol.clone()?, one.start))).collect();
    Program { parts, functions: known, symbols, pointers: HashMap::from([(TABLE, TEXT), (TABLE + 8, SHOWN)]) }
}

fn get(code: &mut CodeAssembler) -> Result<(), iced_x86::IcedError> {
    code.mov(r12, rdi)?;
    code.lea(rdx, qword_ptr(POOL))?;
    code.and(rax, 0x7f)?;
    code.add(qword_ptr(rdx + rax + 0x80), 1)?;
    code.ret()
}

#[test]
fn the_counter_that_a_status_variable_is_summed_from_is_found_with_all_that_raise_it() {
    let copy = |code: &mut CodeAssembler| {
        code.lea(r12, qword_ptr(POOL))?;
        code.lea(rcx, qword_ptr(r12 + 0x80))?;
        code.add(rdx, qword_ptr(rcx))?;
        code.mov(qword_ptr(SHOWN), rdx)?;
        code.ret()
    };
    let other = |code: &mut CodeAssembler| {
        code.lea(rdx, qword_ptr(POOL))?;
        code.add(qword_ptr(rdx + 0x90), 1)?;
        code.ret()
    };
    let program = program(&[("", &get), ("", &get), ("", &other), ("", &get), ("", &get), ("", &copy)]);
    let raised = all(&program);
    let (counter, way) = of_innodb(&program, &raised).expect("found");
    assert_eq!(counter, Counter::At(ARRAY), "{way}");
    let functions: Vec<u64> = raises(&raised, counter).iter().map(|raise| raise.at).collect();
    let inside = |number: usize| program.functions[number].start..program.functions[number].end;
    assert_eq!(functions.len(), 4);
    assert!([0, 1, 3, 4].iter().zip(&functions).all(|(number, at)| inside(*number).contains(at)));
}

#[test]
fn a_counter_to_which_transactions_add_their_own_leads_to_that_field() {
    let counts = |code: &mut CodeAssembler| {
        code.add(qword_ptr(rdi + 0x8d0), 1)?;
        code.ret()
    };
    let commits = |code: &mut CodeAssembler| {
        code.mov(rax, qword_ptr(rbx + 0x8d0))?;
        code.lea(rdx, qword_ptr(POOL))?;
        code.lock().add(qword_ptr(rdx + 0x1000), rax)?;
        code.ret()
    };
    let program = program(&[("", &counts), ("", &commits)]);
    let raised = all(&program);
    let (counter, _) = of_innodb(&program, &raised).expect("found");
    assert_eq!(counter, Counter::Field(0x8d0));
    assert_eq!(raises(&raised, counter).iter().map(|raise| raise.at).collect::<Vec<_>>(), [CODE_AT]);
}

#[test]
fn named_functions_have_their_sites_at_entries_and_calls_and_the_others_behind_their_count() {
    let gen_name = "_Z16buf_page_get_genRK9page_id_tRK11page_size_tm";
    let entry = |code: &mut CodeAssembler| {
        code.endbr64()?;
        code.push(rbx)?;
        code.ret()
    };
    let tries = |code: &mut CodeAssembler| {
        code.add(qword_ptr(rdi + 0x198), 1)?;
        code.call(CODE_AT)?;
        code.ret()
    };
    let program =
        program(&[(gen_name, &entry), ("_Z16buf_page_try_getv", &tries), ("buf_page_optimistic_get", &tries)]);
    let raised = all(&program);
    let counter = of_innodb(&program, &raised).map(|(counter, _)| counter);
    assert_eq!(counter, Some(Counter::Field(0x198)));
    let sites = rules::innodb(&program, &raised, counter).sites;
    let told: Vec<_> =
        sites.iter().map(|site| (site.at.as_str(), site.address - CODE_AT, site.fetch.join(" "))).collect();
    assert_eq!(told[0], ("buf_page_get_gen", 4, "+0(%di) +4(%di) %r8 %dx".to_owned()));
    let length = program.functions[0].end - CODE_AT;
    assert_eq!(told[1], ("buf_page_try_get", length + 8, "? ? \\0 ?".to_owned()));
    assert_eq!(told.len(), 3);
}

#[test]
fn a_page_leaves_where_the_function_that_frees_it_asks_one_without_a_name() {
    let removes = |code: &mut CodeAssembler| {
        code.push(rbx)?;
        code.ret()
    };
    let frees = |code: &mut CodeAssembler| {
        code.mov(rbx, rdi)?;
        // A named function that answers too, and one without a name whose answer nobody wants.
        for (callee, is_asked) in [(CODE_AT, true), (CODE_AT + 2, false), (CODE_AT + 2, true)] {
            code.call(callee)?;
            if is_asked {
                code.test(al, al)?;
            }
            let mut on = code.create_label();
            code.je(on)?;
            code.mov(rax, rbx)?;
            code.set_label(&mut on)?;
        }
        code.ret()
    };
    let named = program(&[("_Z4lockv", &removes), ("", &removes), ("_Z17buf_LRU_free_pageP10buf_page_tb", &frees)]);
    let sites = rules::innodb(&named, &all(&named), None).sites;
    assert_eq!(sites.len(), 1);
    assert_eq!((sites[0].at.as_str(), sites[0].address), ("buf_LRU_block_remove_hashed", CODE_AT + 2));
    assert_eq!(
        (sites[0].kinds.as_slice(), sites[0].fetch.join(" ")),
        (["evict"].as_slice(), "+0(%di) \\0 \\0".to_owned())
    );
    let inlined = program(&[("_Z4lockv", &removes), ("_Z17buf_LRU_free_pageP10buf_page_tb", &removes)]);
    assert!(rules::innodb(&inlined, &all(&inlined), None).sites.is_empty(), "an attempt is no site");
}

#[test]
fn the_pin_of_postgresql_is_the_function_that_asks_first_and_its_values_are_where_it_keeps_them() {
    let hit = 0x9000;
    let asked = |code: &mut CodeAssembler| code.ret();
    let pins = |code: &mut CodeAssembler| {
        code.mov(r13, rdi)?;
        code.mov(r14, rsi)?;
        code.call(CODE_AT)?;
        code.test(rax, rax)?;
        let mut end = code.create_label();
        code.je(end)?;
        code.mov(rbx, rax)?;
        code.set_label(&mut end)?;
        code.ret()
    };
    let pin_at = CODE_AT + 1;
    let reads = move |code: &mut CodeAssembler| {
        code.call(pin_at)?;
        code.add(qword_ptr(hit), 1)?;
        code.ret()
    };
    let program = program(&[("", &asked), ("", &pins), ("ReadBuffer", &reads)]);
    let sites = rules::postgres(&program, &all(&program), hit).sites;
    assert_eq!(sites.len(), 1);
    assert_eq!(program.bytes_at(sites[0].address).map(|code| code[0]), Some(0x74));
    assert_eq!(sites[0].fetch[4..], ["+16(%r13)", "\\1", "\\0", "%ax", "%r14", "+0(%r14)"]);
}

#[test]
fn a_place_is_carried_to_the_function_that_is_most_like_its_own() {
    let known = program(&[("", &get)]);
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
    let other = program(&[("", &unlike), ("", &same_in_other_registers)]);
    let site = known.instructions(&known.functions[0])[3].ip();
    let alike = like::find(&known, site, &other).expect("found");
    assert_eq!(alike.address, other.instructions(&other.functions[1])[3].ip());
    assert!((alike.function - 1.0).abs() < 1e-9);
    assert_eq!(alike.around, 17);
    assert!(alike.registers < 17);
}

#[test]
fn names_are_those_for_people_and_a_program_that_is_no_server_is_refused() {
    assert_eq!(name_of("_ZN11fil_space_t2ioERK9IORequestmm"), "fil_space_t::io");
    assert_eq!(name_of("_ZL22buf_page_init_for_read9page_id_tm"), "buf_page_init_for_read");
    assert_eq!(name_of("PinBuffer"), "PinBuffer");
    assert_eq!(offsets("{ offset = 0x1f, byte = 0x55, inside = { offset = 0x20 } }"), [0x1f, 0x20]);
    let line = "{ offset = 0x1f, byte = 0x55, fetch = [], inside = { offset = 0x20, byte = 0x49 } }";
    let moved = "{ offset = 0x1f, byte = 0x55, fetch = [], inside = { offset = 0xa0, byte = 0x0f } }";
    assert_eq!(placed(line, 0x20, 0xa0, 0x0f), moved);
    let refused = propose(&std::env::current_exe().expect("a program"), None).expect_err("no server");
    assert!(refused.contains("neither a counter of gets nor a name"), "{refused}");
    let missing = propose(Path::new("/nowhere"), None).expect_err("no file");
    assert!(missing.starts_with("/nowhere: "), "{missing}");
}
