//! Tests on small programs with the code patterns of PostgreSQL's functions that change and write pages.

use iced_x86::code_asm::registers::gpr8::dl;
use iced_x86::code_asm::registers::gpr32::{eax, edx};
use iced_x86::code_asm::registers::gpr64::{r12, rax, rbp, rbx, rdi, rsp};
use iced_x86::code_asm::{CodeAssembler, CodeLabel, dword_ptr};
use iced_x86::{IcedError, Mnemonic};

use super::sites;
use crate::page_trace::propose::program::Program;
use crate::page_trace::propose::rules::Proposal;
use crate::page_trace::propose::tests::{CODE_AT, Write, program};

const DIRTY: i32 = 1 << 23;
const BOTH: i32 = DIRTY | 1 << 28;
const LOCKED: i32 = 1 << 22;

fn stub(code: &mut CodeAssembler) -> Result<(), IcedError> {
    code.ret()
}

/// Writes the code of a FlushBuffer. It calls the program's first function as the log's, and the second as the function
/// that writes a page.
fn flush(code: &mut CodeAssembler) -> Result<(), IcedError> {
    code.call(CODE_AT)?;
    code.call(CODE_AT + 1)?;
    code.ret()
}

/// Writes the code of a MarkBufferDirty in which `test` writes the test of the state.
fn marking(code: &mut CodeAssembler, test: &Write) -> Result<(), IcedError> {
    let (mut again, mut on, mut end) = (code.create_label(), code.create_label(), code.create_label());
    code.mov(eax, dword_ptr(rbx + 24))?;
    code.set_label(&mut again)?;
    code.test(eax, LOCKED)?;
    code.jne(end)?;
    code.mov(edx, eax)?;
    code.or(edx, BOTH)?;
    code.lock().cmpxchg(dword_ptr(rbx + 24), edx)?;
    code.sete(dl)?;
    code.test(dl, dl)?;
    code.jne(on)?;
    code.jmp(again)?;
    code.set_label(&mut on)?;
    test(code)?;
    code.set_label(&mut end)?;
    code.ret()
}

fn mark(code: &mut CodeAssembler) -> Result<(), IcedError> {
    marking(code, &|code| code.test(eax, DIRTY))
}

/// Writes the beginning of a MarkBufferDirtyHint.
fn hint(code: &mut CodeAssembler) -> Result<(), IcedError> {
    code.mov(eax, dword_ptr(rbp + 24))?;
    code.and(eax, BOTH)?;
    code.cmp(eax, BOTH)?;
    code.call(CODE_AT)?;
    code.and(eax, !LOCKED)?;
    code.test(eax, DIRTY)?;
    code.ret()
}

fn with<'a>(mark: &'a Write, hint: &'a Write, flush: &'a Write) -> Program {
    let callees: [(&str, &Write); 2] = [("XLogFlush", &stub), ("smgrwrite", &stub)];
    let named = [("MarkBufferDirty", mark), ("MarkBufferDirtyHint", hint), ("", flush)];
    program(&callees.into_iter().chain(named).collect::<Vec<_>>())
}

fn found(program: &Program) -> Result<Vec<Proposal>, String> {
    sites(program, &|_| true)
}

/// Returns each site's name and instruction, and its page and the kind of the change, as texts.
fn told(program: &Program, sites: &[Proposal]) -> Vec<(String, Mnemonic, String)> {
    let told = |site: &Proposal| {
        let function = program.function_at(site.address).expect("a function");
        let code = program.instructions(function);
        let one = code.iter().find(|one| one.ip() == site.address).expect("an instruction");
        assert_eq!(site.fetch.len(), 11);
        assert_eq!(site.fetch[8..], ["\\1", "\\0", "\\9"]);
        (site.at.clone(), one.mnemonic(), format!("{} {} {}", site.fetch[0], site.fetch[4], site.fetch[7]))
    };
    sites.iter().map(told).collect()
}

#[test]
fn a_change_and_a_hint_are_where_the_state_is_tested_and_a_write_is_a_call_of_the_function_that_flushes_the_log() {
    let program = with(&mark, &hint, &flush);
    let sites = found(&program).expect("all");
    let at = |name: &str, code: Mnemonic, values: &str| (name.to_owned(), code, values.to_owned());
    assert_eq!(
        told(&program, &sites),
        [
            at("MarkBufferDirty", Mnemonic::Test, "+0(%bx) +16(%bx) \\0"),
            at("MarkBufferDirtyHint", Mnemonic::And, "+0(%bp) +16(%bp) \\1"),
            at("FlushBuffer", Mnemonic::Call, "+0(%di) %dx \\0"),
        ]
    );
    assert_eq!(sites.iter().map(|site| site.kinds[0]).collect::<Vec<_>>(), ["dirty", "dirty", "write"]);
    let last = program.functions.last().expect("it flushes");
    assert_eq!(sites[2].address, last.end - 6, "the second call");
}

#[test]
fn a_test_of_one_bit_by_its_number_is_a_site_and_tests_of_others_are_none() {
    let of = |test: &'static Write| found(&with(&|code| marking(code, test), &hint, &flush)).map(|sites| sites.len());
    assert_eq!(of(&|code| code.bt(eax, 23)), Ok(3));
    assert_eq!(of(&|code| code.bt(rax, 23)), Ok(3));
    let wrong: [&'static Write; 6] = [
        &|code| code.bt(eax, 22),
        &|code| code.test(eax, BOTH | LOCKED),
        &|code| code.test(eax, LOCKED),
        &|code| code.and(eax, !LOCKED),
        &|code| code.or(eax, DIRTY),
        &|code| code.test(dword_ptr(rbx + 24), DIRTY),
    ];
    for test in wrong {
        assert_eq!(of(test), Err("MarkBufferDirty does not test whether a page is dirty".to_owned()));
    }
}

#[test]
fn the_buffer_is_in_a_register_by_all_ways_or_the_site_is_refused() {
    /// Writes a function for hints that reads the state on two paths; the second path is `other`.
    fn ways(code: &mut CodeAssembler, other: &Write) -> Result<(), IcedError> {
        let (mut second, mut on) = (code.create_label(), code.create_label());
        code.test(rdi, rdi)?;
        code.je(second)?;
        code.mov(eax, dword_ptr(r12 + 24))?;
        code.jmp(on)?;
        code.set_label(&mut second)?;
        other(code)?;
        code.set_label(&mut on)?;
        code.test(eax, DIRTY)?;
        code.ret()
    }
    let of = |other: &'static Write| {
        let program = with(&mark, &|code| ways(code, other), &flush);
        found(&program).map(|sites| sites[1].fetch[0].clone())
    };
    assert_eq!(of(&|code| code.mov(eax, dword_ptr(r12 + 24))).as_deref(), Ok("+0(%r12)"));
    let wrong: [&'static Write; 4] = [
        &|code| code.mov(eax, dword_ptr(rbx + 24)),
        &|code| code.mov(eax, dword_ptr(r12 + 20)),
        &|code| code.mov(eax, dword_ptr(r12 + rax + 24)),
        &|code| code.mov(eax, dword_ptr(rsp + 24)),
    ];
    for other in wrong {
        assert!(of(other).expect_err("another place").starts_with("MarkBufferDirtyHint has no room for a site"));
    }
}

#[test]
fn each_way_has_its_own_first_test() {
    let two = |code: &mut CodeAssembler| {
        let mut second: CodeLabel = code.create_label();
        code.mov(eax, dword_ptr(rbx + 24))?;
        code.test(rdi, rdi)?;
        code.je(second)?;
        code.test(eax, DIRTY)?;
        code.test(eax, BOTH)?;
        code.ret()?;
        code.set_label(&mut second)?;
        code.and(eax, BOTH)?;
        code.ret()
    };
    let program = with(&mark, &two, &flush);
    let sites = found(&program).expect("both");
    let hints: Vec<_> = told(&program, &sites[1..3]).into_iter().map(|(at, code, _)| (at, code)).collect();
    let name = || "MarkBufferDirtyHint".to_owned();
    assert_eq!(hints, [(name(), Mnemonic::Test), (name(), Mnemonic::And)]);
}

#[test]
fn a_test_without_room_has_its_site_at_an_instruction_that_always_leads_to_it() {
    let long = |code: &mut CodeAssembler| {
        code.mov(rbx, rdi)?;
        code.call(CODE_AT)?;
        code.mov(eax, dword_ptr(rbx + 24))?;
        code.nop()?;
        code.test(eax, DIRTY)?;
        code.ret()
    };
    let program = with(&mark, &long, &flush);
    let right = found(&program).expect("a site")[1].address;
    let begin = program.functions[3].start;
    let allowed = |least: u64| sites(&program, &move |at| !(begin..=right).contains(&at) || at <= right - least);
    assert_eq!(allowed(1).expect("the nop")[1].address, right - 1);
    // Before the read of the state no register is sure to hold the buffer, and before the call it may hold another
    // buffer.
    assert!(allowed(2).err().expect("none").starts_with("MarkBufferDirtyHint has no room for a site"));
}

#[test]
fn a_build_that_lacks_a_name_or_has_the_code_elsewhere_has_no_sites_of_writes() {
    let callees: [(&str, &Write); 2] = [("XLogFlush", &stub), ("smgrwritev", &stub)];
    let all: [(&str, &Write); 3] = [("MarkBufferDirty", &mark), ("MarkBufferDirtyHint", &hint), ("", &flush)];
    let of = |functions: &[(&str, &Write)]| found(&program(functions)).map(|sites| sites.len());
    let without = |name: &str| {
        let named = callees.into_iter().chain(all).map(|(one, write)| (if one == name { "" } else { one }, write));
        of(&named.collect::<Vec<_>>())
    };
    assert_eq!(without("-"), Ok(3));
    for (name, told) in [
        ("MarkBufferDirty", "it names no MarkBufferDirty"),
        ("MarkBufferDirtyHint", "it names no MarkBufferDirtyHint"),
        ("XLogFlush", "it names no XLogFlush"),
        ("smgrwritev", "it names no smgrwrite"),
    ] {
        assert_eq!(without(name), Err(told.to_owned()));
    }
    let twice = |code: &mut CodeAssembler| {
        code.call(CODE_AT + 1)?;
        flush(code)
    };
    let more = "2 calls write a page after XLogFlush, in place of one";
    assert_eq!(found(&with(&mark, &hint, &twice)).err().as_deref(), Some(more));
    let none = "none of its functions calls both XLogFlush and smgrwrite";
    assert_eq!(found(&with(&mark, &hint, &|code| code.call(CODE_AT + 1))).err().as_deref(), Some(none));
    let without_exchange = "MarkBufferDirty does not exchange the state of a buffer at one place";
    assert_eq!(found(&with(&hint, &hint, &flush)).err().as_deref(), Some(without_exchange));
    let further = [callees.as_slice(), &all, &[("BufferSetHintBits16", &hint)]].concat();
    assert_eq!(of(&further), Ok(4), "19 sets hints in further functions");
}
