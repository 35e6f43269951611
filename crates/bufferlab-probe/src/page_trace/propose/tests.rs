//! Tests on small programs with the code patterns of servers: the search finds their counters and sites, and refuses
//! wrong sites.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use iced_x86::code_asm::registers::gpr8::{al, bl};
use iced_x86::code_asm::registers::gpr32::{eax, edi, esi, r13d, r14d};
use iced_x86::code_asm::registers::gpr64::{r9, r12, r13, r14, rax, rbp, rbx, rcx, rdi, rdx, rsi, rsp};
use iced_x86::code_asm::{AsmMemoryOperand, CodeAssembler, dword_ptr, qword_ptr};
use iced_x86::{Instruction, Mnemonic, Register};

use super::counter::{Counter, all, of_innodb, raises};
use super::program::{Function, Part, Program, name_of};
use super::values::{Values, entered};
use super::{innodb, require_instructions, rules, sites};
use crate::page_trace::recording::{Settings, Site, SpoolAsked};

pub(super) const CODE_AT: u64 = 0x1000;
const POOL: u64 = 0x9000;
const ARRAY: u64 = POOL + 0x80;
const SHOWN: u64 = 0xa000;
const TABLE: u64 = 0x8100;
const TEXT: u64 = 0x8001;

pub(super) type Write = dyn Fn(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>;

/// Returns a program of these functions, one after another, whose status table shows the number at [`SHOWN`].
pub(super) fn program(functions: &[(&str, &Write)]) -> Program {
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
    let sites = innodb::innodb(&program, &raised, counter).sites;
    let told: Vec<_> =
        sites.iter().map(|site| (site.at.as_str(), site.address - CODE_AT, site.fetch.join(" "))).collect();
    assert_eq!(told[0], ("buf_page_get_gen", 4, "+0(%di) +4(%di) %r8 %dx".to_owned()));
    let length = program.functions[0].end - CODE_AT;
    assert_eq!(told[1], ("buf_page_try_get", length + 8, "+0(%di) +4(%di) \\0 \\0".to_owned()));
    let third = program.functions[2].start - CODE_AT + 8;
    assert_eq!(told[2], ("buf_page_optimistic_get", third, "+0(%si) +4(%si) \\0 %di".to_owned()));
    assert_eq!(told.len(), 3);
}

#[test]
fn a_place_before_a_count_is_a_site_only_if_no_way_around_it_leads_to_the_count() {
    let sites = |leads_around: bool| {
        let nowait = move |code: &mut CodeAssembler| {
            let (mut around, mut end) = (code.create_label(), code.create_label());
            code.push(rbx)?;
            code.mov(rbx, rsi)?;
            code.test(rdx, rdx)?;
            code.je(if leads_around { around } else { end })?;
            code.call(CODE_AT)?;
            code.set_label(&mut around)?;
            code.add(qword_ptr(rcx + 0x198), 1)?;
            code.ret()?;
            code.set_label(&mut end)?;
            code.ret()
        };
        let get = |code: &mut CodeAssembler| code.ret();
        let gets = "_Z16buf_page_get_genRK9page_id_tRK11page_size_tm";
        let program =
            program(&[(gets, &get), ("_Z25buf_page_get_known_nowaitmP11buf_block_t", Box::leak(Box::new(nowait)))]);
        let sites = innodb::innodb(&program, &all(&program), Some(Counter::Field(0x198))).sites;
        assert_eq!(sites.len(), 2);
        (program.bytes_at(sites[1].address).expect("code")[0], sites[1].fetch.join(" "))
    };
    assert_eq!(sites(false), (0xe8, "+0(%si) +4(%si) \\0 %di".to_owned()), "the call");
    assert_eq!(sites(true), (0x53, "+0(%si) +4(%si) \\0 %di".to_owned()), "the entry");
}

#[test]
fn a_page_leaves_where_the_function_that_frees_it_asks_one_without_a_name() {
    let removes = |code: &mut CodeAssembler| {
        code.push(rbx)?;
        code.ret()
    };
    let frees = |code: &mut CodeAssembler| {
        code.mov(rbx, rdi)?;
        // Only the third call is the wanted one: it calls a function without a name, and its result is tested. The
        // first calls a function with a name; the second call's result is not tested.
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
    let sites = innodb::innodb(&named, &all(&named), None).sites;
    assert_eq!(sites.len(), 1);
    assert_eq!((sites[0].at.as_str(), sites[0].address), ("buf_LRU_block_remove_hashed", CODE_AT + 2));
    assert_eq!(
        (sites[0].kinds.as_slice(), sites[0].fetch.join(" ")),
        (["evict"].as_slice(), "+0(%di) +4(%di) \\0 \\0".to_owned())
    );
    let inlined = program(&[("_Z4lockv", &removes), ("_Z17buf_LRU_free_pageP10buf_page_tb", &removes)]);
    assert!(innodb::innodb(&inlined, &all(&inlined), None).sites.is_empty(), "an attempt is no site");
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
    assert_eq!(sites[0].fetch[4..], ["+16(%r13)", "\\1", "\\0", "%ax", "%r14", "+0(%r14)", "\\9"]);
}

#[test]
fn names_are_those_for_people() {
    assert_eq!(name_of("_ZN11fil_space_t2ioERK9IORequestmm"), "fil_space_t::io");
    assert_eq!(name_of("_ZL22buf_page_init_for_read9page_id_tm"), "buf_page_init_for_read");
    assert_eq!(name_of("PinBuffer"), "PinBuffer");
}

/// The place of PostgreSQL's counters in these programs.
const USAGE: u64 = 0x9000;

/// Returns the sites of a program whose second function calls `smgrread` between `before` and `behind`, and counts a
/// read.
fn reads(counts_by_context: bool, before: &'static Write, behind: &'static Write) -> Vec<rules::Proposal> {
    let stub = |code: &mut CodeAssembler| code.ret();
    let read = |code: &mut CodeAssembler| {
        before(code)?;
        code.call(CODE_AT)?;
        behind(code)?;
        code.add(qword_ptr(USAGE + 8), 1)?;
        code.ret()
    };
    let counter = if counts_by_context { "pgstat_count_io_op_time" } else { "another" };
    let program = program(&[("smgrread", &stub), (counter, &stub), ("ReadBuffer_common", &read)]);
    let sites = rules::postgres(&program, &all(&program), USAGE).sites;
    for site in &sites {
        assert_eq!((site.kinds.as_slice(), site.at.as_str()), (["get", "read"].as_slice(), "ReadBuffer_common"));
        assert_eq!(program.bytes_at(site.address).map(|code| code[0]), Some(0xe8));
        assert_eq!(site.fetch[..6], ["+0(%di)", "+4(%di)", "+8(%di)", "%si", "%dx", "\\1"]);
    }
    sites
}

/// Returns the places of the strategy, its type and the IOContext, as text.
fn ring(sites: &[rules::Proposal]) -> String {
    assert_eq!(sites.len(), 1);
    sites[0].fetch[8..].join(" ")
}

#[test]
fn a_read_up_to_15_has_its_strategy_where_the_function_keeps_its_sixth_argument() {
    assert_eq!(ring(&reads(false, &|code| code.mov(r14, r9), &|_| Ok(()))), "%r14 +0(%r14) \\9");
    assert_eq!(
        ring(&reads(false, &|code| code.mov(qword_ptr(rbp - 88), r9), &|_| Ok(()))),
        "-88(%bp) +0(-88(%bp)) \\9"
    );
    assert_eq!(ring(&reads(false, &|code| code.mov(r9, rsi), &|_| Ok(()))), "? ? \\9", "it is not kept");
    let late = |code: &mut CodeAssembler| {
        code.call(CODE_AT)?;
        code.mov(r14, r9)
    };
    let sites = reads(false, Box::leak(Box::new(late)), &|_| Ok(()));
    assert_eq!(sites.len(), 2);
    assert!(sites.iter().all(|site| site.fetch[8] == "?"), "a call changes the register");
}

#[test]
fn a_read_from_16_on_has_the_io_context_with_which_it_is_counted() {
    /// Writes a call of the function that counts, after the move `context` into its second argument.
    fn counts(code: &mut CodeAssembler, object: u32, context: &Write) -> Result<(), iced_x86::IcedError> {
        context(code)?;
        code.mov(edi, object)?;
        code.call(CODE_AT + 1)
    }
    let of = |behind: &'static Write| ring(&reads(true, &|code| code.mov(r14, r9), behind));
    assert_eq!(of(&|code| counts(code, 0, &|code| code.mov(esi, r13d))), "\\1 \\0 %r13");
    assert_eq!(of(&|code| counts(code, 0, &|code| code.mov(esi, dword_ptr(rbp - 64)))), "\\1 \\0 -64(%bp)");
    assert_eq!(of(&|code| counts(code, 0, &|code| code.mov(esi, 3))), "\\1 \\0 \\3");
    assert_eq!(of(&|code| counts(code, 0, &|code| code.mov(esi, dword_ptr(rbx + 64)))), "? ? \\9", "it is elsewhere");
    let before_another_call = |code: &mut CodeAssembler| {
        code.mov(esi, r13d)?;
        code.call(CODE_AT)?;
        code.call(CODE_AT + 1)
    };
    let sites = reads(true, &|_| Ok(()), Box::leak(Box::new(before_another_call)));
    assert!(sites.iter().all(|site| site.fetch[10] == "\\9"), "a call between changes the register");
    let of_temporary = reads(true, &|_| Ok(()), &|code| counts(code, 1, &|code| code.mov(esi, r13d)));
    assert!(of_temporary.is_empty(), "pages of temporary tables are none of the pool's");
}

/// Returns the facts at each mark of a function, in order: where its second argument is, and the registers that hold an
/// address. Another function jumps to its entry, or to its first mark.
fn told(to_a_mark: bool, write: &Write) -> Vec<(String, String)> {
    let stub = |code: &mut CodeAssembler| code.ret();
    let marks = |program: &Program| -> Vec<u64> {
        let code = program.instructions(&program.functions[1]);
        code.iter().filter(|one| one.mnemonic() == Mnemonic::Cld).map(Instruction::ip).collect()
    };
    let first = marks(&program(&[("", &stub), ("", write)]))[0];
    let jumps = move |code: &mut CodeAssembler| code.jmp(if to_a_mark { first } else { CODE_AT + 1 });
    let program = program(&[("", &stub), ("", write), ("", &jumps)]);
    let values = Values::of(&program, &program.functions[1], &entered(&program));
    let at = |mark| (values.argument(mark, Register::RSI).unwrap_or_default(), values.addresses(mark).join(" "));
    marks(&program).into_iter().map(at).collect()
}

/// Returns where the second argument is at each mark.
fn arguments(write: &Write) -> Vec<String> {
    told(false, write).into_iter().map(|(argument, _)| argument).collect()
}

/// Returns the registers that hold an address at each mark.
fn addresses(write: &Write) -> Vec<String> {
    told(false, write).into_iter().map(|(_, addresses)| addresses).collect()
}

/// Writes this code with a conditional jump over it, and a mark where both paths meet.
fn perhaps(code: &mut CodeAssembler, write: &Write) -> Result<(), iced_x86::IcedError> {
    let mut on = code.create_label();
    code.test(rdx, rdx)?;
    code.je(on)?;
    write(code)?;
    code.set_label(&mut on)?;
    code.cld()
}

#[test]
fn an_argument_is_followed_through_registers_that_calls_leave_as_they_are_and_over_jumps() {
    let kept = arguments(&|code| {
        code.cld()?;
        code.mov(rbx, rsi)?;
        code.call(CODE_AT)?;
        code.cld()?;
        perhaps(code, &|code| code.mov(rax, rbx))?;
        code.mov(r14, rbx)?;
        code.mov(bl, 1)?;
        code.cld()?;
        code.call(rax)?;
        code.cld()?;
        code.pop(r14)?;
        code.cld()?;
        code.ret()
    });
    assert_eq!(kept, ["%si", "%bx", "%bx", "%r14", "%r14", ""]);
    let half = arguments(&|code| {
        code.mov(r14d, esi)?;
        code.mov(rsi, rdi)?;
        code.cld()?;
        code.ret()
    });
    assert_eq!(half, [""], "neither the half of an argument nor another one is it");
}

#[test]
fn an_argument_that_one_of_two_ways_overwrites_is_lost() {
    let lost = arguments(&|code| {
        code.mov(rbx, rsi)?;
        code.call(CODE_AT)?;
        perhaps(code, &|code| code.mov(rbx, rax))?;
        code.ret()
    });
    assert_eq!(lost, [""]);
    let both = arguments(&|code| {
        code.mov(rbx, rsi)?;
        perhaps(code, &|code| code.mov(rbx, rsi))?;
        perhaps(code, &|code| code.call(CODE_AT))?;
        code.ret()
    });
    assert_eq!(both, ["%si", "%bx"], "behind a call on one way it is only in what calls leave");
}

#[test]
fn an_argument_on_the_stack_survives_calls_and_comparisons_and_is_lost_where_the_slot_is_written() {
    fn slot() -> AsmMemoryOperand {
        qword_ptr(rbp - 88)
    }
    let kept = arguments(&|code| {
        code.mov(slot(), rsi)?;
        code.call(CODE_AT)?;
        code.cld()?;
        code.cmp(slot(), 5)?;
        code.test(slot(), rax)?;
        code.push(slot())?;
        code.mov(qword_ptr(rbp - 96), rax)?;
        code.cld()?;
        code.mov(r14, slot())?;
        code.mov(dword_ptr(rbp - 88), eax)?;
        code.cld()?;
        code.mov(r14, slot())?;
        code.cld()?;
        code.ret()
    });
    assert_eq!(kept, ["-88(%bp)", "-88(%bp)", "%r14", ""]);
    let without_a_frame = arguments(&|code| {
        code.mov(slot(), rsi)?;
        code.call(CODE_AT)?;
        perhaps(code, &|code| code.mov(rbp, rsp))?;
        code.ret()
    });
    assert_eq!(without_a_frame, [""], "the slot is another one");
}

#[test]
fn a_register_has_an_address_where_all_ways_have_read_from_it() {
    let read = addresses(&|code| {
        code.lea(rax, qword_ptr(rcx + 8))?;
        code.mov(rax, qword_ptr(rbp - 8))?;
        code.mov(rax, qword_ptr(rsp + 8))?;
        code.nop_1(qword_ptr(rcx))?;
        code.cld()?;
        code.mov(dword_ptr(rdi + 4), eax)?;
        code.cmp(qword_ptr(r12), 1)?;
        code.mov(rdx, qword_ptr(rdx))?;
        code.mov(rbx, rdi)?;
        code.cld()?;
        code.call(CODE_AT)?;
        code.cld()?;
        code.add(rbx, 8)?;
        code.cld()?;
        code.ret()
    });
    assert_eq!(read, ["", "%bx %r12 %di", "%bx %r12", "%r12"], "those first that calls leave as they are");
    let on_one_way = addresses(&|code| {
        perhaps(code, &|code| code.mov(rax, qword_ptr(rbx)))?;
        code.mov(rax, qword_ptr(rbx))?;
        perhaps(code, &|code| code.mov(rcx, qword_ptr(rbx)))?;
        code.ret()
    });
    assert_eq!(on_one_way, ["", "%bx"]);
}

#[test]
fn a_loop_leaves_what_all_its_rounds_leave() {
    let left = told(false, &|code| {
        let mut again = code.create_label();
        code.mov(rbx, rsi)?;
        code.mov(r12, rsi)?;
        code.mov(rsi, rdi)?;
        code.set_label(&mut again)?;
        code.cld()?;
        code.mov(rax, qword_ptr(rdx))?;
        code.mov(r14, r13)?;
        code.mov(r13, r12)?;
        code.mov(r12, rax)?;
        code.cld()?;
        code.jne(again)?;
        code.cld()?;
        code.jmp(again)
    });
    let at = |argument: &str, addresses: &str| (argument.to_owned(), addresses.to_owned());
    assert_eq!(left, [at("%bx", ""), at("%bx", "%dx"), at("%bx", "%dx")]);
}

#[test]
fn a_jump_by_a_table_may_lead_to_what_nothing_else_leads_to() {
    /// Writes a jump by a table to two branches, the second of which overwrites the kept value, and a place where all
    /// paths meet.
    fn chosen(code: &mut CodeAssembler, jump: &Write) -> Result<(), iced_x86::IcedError> {
        let mut end = code.create_label();
        code.mov(rbx, rsi)?;
        code.mov(rax, qword_ptr(rdi))?;
        code.test(rdx, rdx)?;
        code.je(end)?;
        jump(code)?;
        code.nop()?;
        code.mov(rax, qword_ptr(rcx))?;
        code.cld()?;
        code.jmp(end)?;
        code.int3()?;
        code.mov(rbx, rax)?;
        code.jmp(end)?;
        code.nop()?;
        code.set_label(&mut end)?;
        code.cld()?;
        code.ret()
    }
    let at = |argument: &str, addresses: &str| (argument.to_owned(), addresses.to_owned());
    let by_table = told(false, &|code| chosen(code, &|code| code.jmp(rax)));
    assert_eq!(by_table, [at("", "%cx"), at("", "")]);
    let by_none = told(false, &|code| chosen(code, &|code| code.ret()));
    assert_eq!(by_none, [at("", ""), at("%si", "%di")], "what is never reached says nothing");
}

#[test]
fn padding_behind_a_jump_by_a_table_is_none_of_its_arms() {
    let behind = arguments(&|code| {
        let mut end = code.create_label();
        code.test(rdx, rdx)?;
        code.je(end)?;
        code.jmp(rax)?;
        code.nop()?;
        code.int3()?;
        code.set_label(&mut end)?;
        code.cld()?;
        code.ret()
    });
    assert_eq!(behind, ["%si"]);
}

#[test]
fn where_another_function_jumps_into_the_middle_nothing_is_known() {
    let write = |code: &mut CodeAssembler| {
        code.mov(rbx, rsi)?;
        code.mov(rax, qword_ptr(rdi))?;
        code.cld()?;
        code.mov(rax, qword_ptr(rbx))?;
        code.cld()?;
        code.ret()
    };
    let at = |argument: &str, addresses: &str| (argument.to_owned(), addresses.to_owned());
    assert_eq!(told(false, &write), [at("%si", "%di"), at("%si", "%bx %di")]);
    assert_eq!(told(true, &write), [at("", ""), at("", "%bx")]);
}

fn asked(binary: &Path, offset: u64, byte: u8) -> Settings {
    let site = Site {
        at: "it".into(),
        kinds: vec![bufferlab_model::trace::Kind::Get],
        kinds_if_flag: None,
        offset,
        byte,
        semaphore: None,
        fetch: vec!["\\0".into()],
    };
    Settings {
        binary: binary.into(),
        spool: SpoolAsked::default(),
        fields: vec!["page_id:u64".into()],
        modes_if_in_pool: Vec::new(),
        sites: vec![site],
    }
}

#[test]
fn a_site_is_the_begin_of_an_instruction_of_its_binary_and_has_its_byte() {
    let binary = std::env::current_exe().expect("a program");
    let program = Program::read(&binary).expect("ours");
    let long = program.functions.iter().flat_map(|function| program.instructions(function));
    let long: Vec<_> = long.filter(|one| one.len() > 4).step_by(1000).take(20).collect();
    assert!(long.len() > 10);
    for one in long {
        let (offset, code) = (program.offset_of(one.ip()), program.bytes_at(one.ip()).expect("code"));
        require_instructions(&asked(&binary, offset, code[0])).expect("it is a site");
        for at in 1..4 {
            let inside = require_instructions(&asked(&binary, offset + at, code[at as usize]));
            assert!(inside.expect_err("in its middle").what.contains("is not the instruction that it should be"));
        }
        require_instructions(&asked(&binary, offset, code[0] ^ 1)).expect_err("another byte");
    }
    let data = program.parts.iter().find(|part| !part.executable && part.bytes.len() > 64).expect("data");
    require_instructions(&asked(&binary, data.offset + 32, data.bytes[32])).expect_err("no code");
    for nowhere in [1 << 40, u64::MAX] {
        require_instructions(&asked(&binary, nowhere, 0)).expect_err("behind the file");
    }
    require_instructions(&asked(Path::new("Cargo.toml"), 0, 0)).expect_err("no program");
}

#[test]
fn a_damaged_binary_is_refused_or_read_and_nothing_else() {
    let whole = fs::read("/bin/true").expect("a small program");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("damaged");
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("eight bytes")) as usize;
    let sections = number(0x28);
    let mut read = 0;
    let mut attempt = |bytes: &[u8], binary: bool| {
        fs::write(&file, bytes).expect("written");
        if let Ok(program) = Program::read(&file) {
            read += 1;
            all(&program);
            assert!(program.functions.iter().all(|one| one.start <= one.end));
        }
        if binary {
            sites(&file).expect_err("no server");
        }
    };
    for length in (0..whole.len()).step_by(997) {
        attempt(&whole[..length], true);
    }
    // Damage the headers of the file, its segments and its sections: each byte below 0x100, and each word after it.
    for at in (0..0x40 + 13 * 56).chain(sections..whole.len()).step_by(8) {
        let bytes = if at < 0x100 { 1 } else { 8 };
        for (from, length) in (at..at + 8).step_by(bytes).map(|from| (from, bytes)) {
            let mut damaged = whole.clone();
            let end = damaged.len().min(from + length);
            damaged[from..end].fill(0xff);
            attempt(&damaged, false);
        }
    }
    assert!(read > 0, "some damage is of no part that is read");
}
