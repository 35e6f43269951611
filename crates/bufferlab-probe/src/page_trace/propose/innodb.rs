//! Finds the sites of MySQL, and of MariaDB up to 10.4, by the names of functions and the counter of gets.
//!
//! Later versions of MariaDB pass a page as one number: see mariadb.rs.

use iced_x86::{FlowControl, Instruction, Mnemonic, Register};

use super::counter::{Counter, Raise, raises};
use super::program::{Function, Program, is_call, short};
use super::rules::{Proposal, Proposals, beside, calls, calls_to, entry, entry_of, tries};
use super::values::{self, Values};

pub(super) const READ_AHEADS: [&str; 5] = [
    "buf_read_ahead_random",
    "buf_read_ahead_linear",
    "buf_read_page_background",
    "buf_read_page_async",
    "buf_read_ibuf_merge_pages",
];

/// The functions that get a page and raise the counter of gets themselves; the second uses the adaptive hash index.
const GETS: [&str; 5] =
    ["buf_page_optimistic_get", HASH_INDEX, "buf_page_get_known_nowait", "buf_page_try_get", "buf_page_try_get_func"];
/// The function that gets a page through the adaptive hash index.
pub(super) const HASH_INDEX: &str = "btr_search_guess_on_hash";

/// The function that reads a page, and the functions that it calls to do so.
pub(super) const READS: &str = "buf_read_page_low";
const READS_FILES: [&str; 2] = ["fil_io", "_fil_io"];

/// The function in which a page leaves the pool.
pub(super) const REMOVES: &str = "buf_LRU_block_remove_hashed";

/// Returns the sites of a build whose functions pass a page as two numbers, or as the address of a page_id_t.
pub fn innodb(program: &Program, all: &[Raise], counter: Option<Counter>) -> Proposals {
    let gets = program.function_named("buf_page_get_gen").and_then(|function| function.symbol.as_deref());
    let by_address = gets.is_some_and(|symbol| symbol.contains("RK9page_id_t"));
    let of_style =
        |numbers: [&str; 2], address: [&str; 2]| if by_address { address } else { numbers }.map(str::to_owned).to_vec();
    let with = |mut page: Vec<String>, mode: &str, latch: &str| {
        page.extend([mode.to_owned(), latch.to_owned()]);
        page
    };
    let none = "\\0";
    let first = ["+0(%di)", "+4(%di)"];
    let mut sites = Vec::new();
    let get = if by_address {
        with(first.map(str::to_owned).to_vec(), "%r8", "%dx")
    } else {
        with(["%di", "%dx"].map(str::to_owned).to_vec(), "%r9", "%cx")
    };
    sites.extend(entry(program, &["buf_page_get_gen"], "get", get));
    let create = with(of_style(["%di", "%si"], first), none, none);
    sites.extend(entry(program, &["buf_page_create"], "create", create));
    let evict = with(first.map(str::to_owned).to_vec(), none, none);
    let leaves = entry(program, &[REMOVES], "evict", evict.clone());
    sites.extend(leaves.or_else(|| removing(program, evict)));
    let read = with(of_style(["%dx", "%r8"], ["+0(%dx)", "+4(%dx)"]), none, none);
    for name in [READS, "buf_read_page"] {
        sites.extend(calls(program, name, &READS_FILES, &["read"], &read));
    }
    let low = reading(program);
    if let Some((function, callee)) = low.filter(|(function, _)| function.symbol.is_none()) {
        let why = "what buf_read_page calls without a name calls fil_io here";
        sites.extend(calls_to(program, function, callee, &["read"], &read, why));
    }
    let prefetch = with(of_style(["%cx", "+8(%sp)"], ["+0(%r8)", "+4(%r8)"]), none, none);
    for name in READ_AHEADS {
        if let (Some(function), Some((low, _))) = (program.function_named(name), low) {
            let why = format!("{name} calls what reads a page here");
            sites.extend(calls_to(program, function, low.start, &["prefetch"], &prefetch, &why));
        }
    }
    let of = |address: &str| {
        if address == "?" { vec!["?".to_owned(); 2] } else { vec![format!("+0({address})"), format!("+4({address})")] }
    };
    let entered = values::entered(program);
    for raise in counter.map_or_else(Vec::new, |counter| raises(all, counter)) {
        let Some(function) = program.function_at(raise.at) else { continue };
        let name = function.name();
        // The entry of buf_page_get_gen is a site already; buf_page_get_zip is only for compressed tables. Functions
        // with other names raise other counters at the same distance.
        if !GETS.contains(&&*name) {
            continue;
        }
        // The arguments of buf0buf.h: (latch, block, ...), or the page_id_t first.
        let (address, latch) = match &*name {
            "buf_page_optimistic_get" | "buf_page_get_known_nowait" => (Some(Register::RSI), Some(Register::RDI)),
            "buf_page_try_get" | "buf_page_try_get_func" if by_address => (Some(Register::RDI), None),
            _ => (None, None),
        };
        let Some(mut site) = beside(program, function, &raise, "get") else {
            // A probe at the function's entry records attempts to get a page. An attempt fails if the page is leaving
            // the pool at that moment.
            let place = |argument: Option<Register>, other: &str| argument.map_or_else(|| other.to_owned(), short);
            sites.extend(entry_of(program, function).map(|address_of_entry| Proposal {
                at: name.clone(),
                kinds: vec!["get"],
                address: address_of_entry,
                fetch: with(of(&place(address, "?")), none, &place(latch, none)),
                why: "the entry of a function that returns where it raises the counter".to_owned(),
                ..Proposal::default()
            }));
            continue;
        };
        let values = Values::of(program, function, &entered);
        let kept = |argument| values.argument(site.address, argument);
        let (address, latch) = (address.and_then(kept), latch.and_then(kept));
        if address.is_none() {
            site.tries = tries(&values, raise.at, site.address);
        }
        site.fetch =
            with(of(&address.unwrap_or_else(|| "?".to_owned())), none, &latch.unwrap_or_else(|| none.to_owned()));
        sites.push(site);
    }
    let fields = r#"["space:u32", "page:u32", "mode:u8", "latch:u8"]"#;
    // MySQL from 8.0 on has the enumeration Page_fetch; earlier versions have numbers such as BUF_GET_IF_IN_POOL
    // (buf0buf.h).
    let modes_if_in_pool =
        if gets.is_some_and(|symbol| symbol.contains("Page_fetch")) { &[2, 3, 5] } else { &[11, 12, 15] };
    Proposals { fields, modes_if_in_pool, sites }
}

/// Returns a site at the entry of [`REMOVES`] in a build that does not name this static function. It is the unnamed
/// function whose result `buf_LRU_free_page` (buf0lru.cc) tests. The entry of `buf_LRU_free_page` itself would also
/// show attempts that fail because another thread has fixed the page.
pub(super) fn removing(program: &Program, fetch: Vec<String>) -> Option<Proposal> {
    let tries = program.function_named("buf_LRU_free_page")?;
    let code = program.instructions(tries);
    let removes = code.windows(3).find_map(|row| {
        let [call, test, jump] = row else { return None };
        let asked = test.mnemonic() == Mnemonic::Test && test.op0_register() == Register::AL;
        let asked = asked && jump.flow_control() == FlowControl::ConditionalBranch;
        let function = program.function_at(call.near_branch_target()).filter(|_| is_call(call) && asked)?;
        (function.symbol.is_none() && function.start == call.near_branch_target()).then_some(function)
    })?;
    let why = format!("the entry of what {} calls without a name, and asks whether the page left", tries.name());
    let first = entry_of(program, removes)?;
    Some(Proposal { at: REMOVES.to_owned(), kinds: vec!["evict"], address: first, fetch, why, ..Proposal::default() })
}

/// Returns the function that reads a page, and the address of the function that it calls to do so. `buf_read_page_low`
/// (buf0rea.cc) is static in most builds: there it is the unnamed function that `buf_read_page` calls and that itself
/// calls `fil_io`.
pub(super) fn reading(program: &Program) -> Option<(&Function, u64)> {
    let files = READS_FILES.iter().find_map(|name| program.function_named(name))?.start;
    let calls_files = |function: &&Function| {
        program.instructions(function).iter().any(|one| is_call(one) && one.near_branch_target() == files)
    };
    if let Some(named) = program.function_named(READS) {
        return Some((named, files));
    }
    let code = program.instructions(program.function_named("buf_read_page")?);
    let called = code.iter().filter(|one| is_call(one)).map(Instruction::near_branch_target);
    let mut unnamed = called.filter_map(|at| program.function_at(at).filter(|one| one.start == at));
    unnamed.find(|one| one.symbol.is_none() && calls_files(one)).map(|one| (one, files))
}
