//! Finds the sites of MariaDB from 10.5 on, by the names of functions that a build has kept.
//!
//! These versions identify a page by one number, page_id_t (buf0types.h), with the tablespace in its upper half.

use iced_x86::Register;

use super::counter::{Counter, Raise, raises};
use super::innodb::{READ_AHEADS, READS, REMOVES};
use super::program::{Function, Program};
use super::rules::{Proposal, Proposals, beside, calls, calls_to, entry, tries};
use super::values::{self, Values};

const NONE: &str = "\\0";
pub(super) const FIELDS: &str = r#"["page_id:u64", "mode:u8", "latch:u8", "frame:u64"]"#;
/// BUF_GET_IF_IN_POOL, BUF_PEEK_IF_IN_POOL and BUF_GET_IF_IN_POOL_OR_WATCH (buf0buf.h).
pub(super) const MODES_IF_IN_POOL: &[u8] = &[11, 12, 15];
/// The function that these versions call to read a page.
const READS_FILES: [&str; 1] = ["fil_space_t::io"];
/// The functions that get the page named by their first argument. Probes at their entries also see gets that find no
/// page. In some builds the first function is inlined into the second.
const GETS: [&str; 2] = ["buf_page_get_low", "buf_page_get_gen"];
/// The function that gets the page named by its second argument; the first is the pool (from 10.6.16 on). A probe at
/// its entry also sees gets that find no page.
const FIXES: &str = "buf_pool_t::page_fix";
/// The function that frees a page in its tablespace, and empties it if it is in the pool.
const FREES: &str = "buf_page_free";
/// The function that gets a page again whose frame the caller knows. The server does not count such gets.
const OPTIMISTIC: &str = "buf_page_optimistic_get";
/// The functions that [`OPTIMISTIC`] calls only when it gets the page.
const BEHIND_OPTIMISTIC: [&str; 2] = ["buf_page_make_young_if_needed", "mtr_t::page_lock_upgrade"];

/// The registers of the first six arguments (System V ABI for AMD64, 3.2.3).
const ARGUMENTS: [&str; 6] = ["%di", "%si", "%dx", "%cx", "%r8", "%r9"];

/// Returns the sites of a build. `all` are the instructions that raise a number, of which `counter` is that of gets.
pub fn mariadb(program: &Program, all: &[Raise], counter: Option<Counter>) -> Proposals {
    let raised = counter.map_or_else(Vec::new, |counter| raises(all, counter));
    let counts = |name: &&&str| {
        let of = |raise: &Raise| program.function_at(raise.at).is_some_and(|one| one.name() == **name);
        raised.iter().any(of)
    };
    let main = GETS.iter().find(counts).or_else(|| GETS.iter().find(|name| program.function_named(name).is_some()));
    let mut sites = Vec::new();
    sites.extend(main.and_then(|name| entry(program, &[*name], "get", fetch("%di", "%r8", "%dx", NONE))));
    sites.extend(entry(program, &[FIXES], "get", fetch("%si", NONE, NONE, NONE)).filter(|_| counts(&&FIXES)));
    let entered = values::entered(program);
    for raise in &raised {
        let Some(function) = program.function_at(raise.at) else { continue };
        let name = function.name();
        // Only compressed tables use buf_page_get_zip.
        if !GETS.contains(&&*name) && ![FIXES, "buf_page_get_zip"].contains(&&*name) {
            sites.extend(counted(program, function, raise, &Values::of(program, function, &entered)));
        }
    }
    sites.extend(optimistic(program, &entered));
    sites.extend(entry(program, &["buf_page_create_low", "buf_page_create"], "create", fetch("%di", NONE, NONE, NONE)));
    sites.extend(entry(program, &[REMOVES], "evict", fetch("+0(%di)", NONE, NONE, "%di")));
    // The compiler may have inlined the first of these functions into the others.
    for name in [READS, "buf_read_page"].into_iter().chain(READ_AHEADS) {
        sites.extend(calls(program, name, &READS_FILES, &["read"], &fetch("+0(%r9)", NONE, NONE, "%r9")));
    }
    let low = program.function_named(READS);
    let asked = low.and_then(|low| Some((low, *ARGUMENTS.get(place_of(low.symbol.as_deref()?, "9page_id_t")?)?)));
    for name in READ_AHEADS {
        if let (Some(function), Some((low, page))) = (program.function_named(name), asked) {
            let why = format!("{name} calls what reads a page here");
            let fetch = fetch(page, NONE, NONE, NONE);
            sites.extend(calls_to(program, function, low.start, &["prefetch"], &fetch, &why));
        }
    }
    Proposals { fields: FIELDS, modes_if_in_pool: MODES_IF_IN_POOL, sites }
}

fn fetch(page: &str, mode: &str, latch: &str, frame: &str) -> Vec<String> {
    [page, mode, latch, frame].map(str::to_owned).to_vec()
}

/// Returns the site of a function that counts a get once it has found the page.
fn counted(program: &Program, function: &Function, raise: &Raise, values: &Values) -> Option<Proposal> {
    let name = function.name();
    let kind = if name == FREES { "get_if_in_pool" } else { "get" };
    let mut site = beside(program, function, raise, kind)?;
    // The first parameter of `buf_page_try_get(page_id, mtr)` (buf0buf.cc) is the page.
    let asked = (name == "buf_page_try_get").then(|| values.argument(site.address, Register::RDI)).flatten();
    if asked.is_none() {
        site.tries = tries(values, raise.at, site.address);
    }
    site.fetch = fetch(asked.as_deref().unwrap_or("?"), NONE, NONE, NONE);
    Some(site)
}

/// Returns the sites of the gets that the server does not count: the calls that [`OPTIMISTIC`] makes after it has got
/// the page. Returns none if the compiler inlined the functions that it calls there.
fn optimistic(program: &Program, entered: &std::collections::BTreeSet<u64>) -> Vec<Proposal> {
    let Some(function) = program.function_named(OPTIMISTIC) else { return Vec::new() };
    if BEHIND_OPTIMISTIC.iter().any(|name| program.function_named(name).is_none()) {
        return Vec::new();
    }
    let values = Values::of(program, function, entered);
    // From 11.0 on the first argument is the block, before that the kind of latch.
    let is_first = function.symbol.as_deref().is_some_and(|symbol| place_of(symbol, "P11buf_block_t") == Some(0));
    let block = if is_first { Register::RDI } else { Register::RSI };
    let found = calls(program, OPTIMISTIC, &BEHIND_OPTIMISTIC, &["get"], &[]);
    let with_page = |site: Proposal| {
        let block = values.argument(site.address, block)?;
        Some(Proposal { fetch: fetch(&format!("+0({block})"), NONE, NONE, NONE), is_uncounted: true, ..site })
    };
    found.into_iter().filter_map(with_page).collect()
}

/// Returns the place of an argument's type among a function's arguments, from its symbol (Itanium C++ ABI, 5.1.5). None
/// where the symbol does not show it.
fn place_of(symbol: &str, wanted: &str) -> Option<usize> {
    let mut rest = symbol.strip_prefix("_Z")?;
    rest = rest.strip_prefix('L').unwrap_or(rest);
    rest = without_name(rest)?;
    for place in 0..ARGUMENTS.len() {
        if rest.starts_with(wanted) {
            return Some(place);
        }
        rest = rest.trim_start_matches(['P', 'R', 'K']);
        rest = if rest.starts_with(|one: char| one.is_ascii_digit()) { without_name(rest)? } else { rest.get(1..)? };
    }
    None
}

/// Skips a name that has its length before it; returns the rest of the text.
fn without_name(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.get(digits + text[..digits].parse::<usize>().ok()?..)
}

#[cfg(test)]
mod tests {
    use super::place_of;

    #[test]
    fn a_symbol_shows_which_argument_is_the_page() {
        let low = "_ZL17buf_read_page_lowP11fil_space_tbm9page_id_tmb";
        assert_eq!(place_of(low, "9page_id_t"), Some(3));
        let first = "_ZL17buf_read_page_low9page_id_tmRN10buf_pool_t10hash_chainEP11fil_space_tRP11buf_block_tb";
        assert_eq!(place_of(first, "9page_id_t"), Some(0));
        assert_eq!(place_of("_Z23buf_page_optimistic_getmP11buf_block_tmP5mtr_t", "P11buf_block_t"), Some(1));
        for other in ["", "_Z", "_Z3", "_Z99x", "_Z1fv", "_Z1f9page", "_Z1fmmmmmmm9page_id_t", "main"] {
            assert_eq!(place_of(other, "9page_id_t"), None, "{other}");
        }
    }
}
