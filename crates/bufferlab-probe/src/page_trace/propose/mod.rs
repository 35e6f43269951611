//! Proposes the sites of a build that no table lists, from the names and counters in its binary.
//!
//! A proposal is a guess: `bufferlab learn` checks it on a private server, or tools/find-sites prints it for a person.

pub mod counter;
pub mod experiment;
pub mod innodb;
pub mod mariadb;
pub mod program;
pub mod rules;
#[cfg(test)]
mod tests;
mod values;
pub mod writes;

use std::path::Path;

use bufferlab_model::trace::Kind;
use serde::Serialize;

use self::counter::{Counter, Raise};
use self::program::Program;
use self::rules::{Proposal, Proposals};
use super::inside;
use super::recording::{Settings, Site, SpoolAsked};
use crate::tracefs::TraceError;

/// A place in a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The place in the file, in bytes from its beginning.
    pub offset: u64,
    /// The byte at this place.
    pub byte: u8,
}

/// A proposed site, with the fields that page_sites.toml has for a site.
#[derive(Clone, Debug, Serialize)]
pub struct ProposedSite {
    /// The name of the function, or a question mark.
    pub at: String,
    /// The kinds of accesses that pass the site.
    pub kinds: Vec<&'static str>,
    /// The place for the kernel's probe.
    #[serde(flatten)]
    pub place: Place,
    /// Where the probe finds each field's value, in the kernel's notation; a question mark for an unknown place.
    pub fetch: Vec<String>,
    /// Another place, for recording inside the server, if a jump has no room at `place`.
    pub inside: Option<Place>,
    /// The offset of the function in the file, which is the same for all sites of a function.
    pub function_offset: u64,
    /// The reason, as a phrase.
    pub why: String,
    /// Places where a register may have the address of the page, if that is not known at the site.
    pub tries: Vec<Try>,
    /// Whether the server's counter of gets leaves out the accesses at this site.
    pub uncounted: bool,
}

/// A place where a register may have the address of a page.
#[derive(Clone, Debug, Serialize)]
pub struct Try {
    /// The place at which a register may have the address.
    #[serde(flatten)]
    pub place: Place,
    /// The registers that have an address at this place.
    pub registers: Vec<String>,
}

/// The proposals for a build.
#[derive(Clone, Debug, Serialize)]
pub struct Proposed {
    /// The fields of the build's records.
    pub fields: Vec<String>,
    /// The modes of gets that want a page only if it is in the pool; none for PostgreSQL.
    pub modes_if_in_pool: Vec<u8>,
    /// The proposed sites of the build.
    pub sites: Vec<ProposedSite>,
    /// The reason why sites of changed and written pages are missing, as a phrase; none if they are there.
    pub without_writes: Option<String>,
}

/// Proposes the sites of a build by the names of functions in it. All builds of PostgreSQL and MySQL export names for
/// their extensions; a build of MariaDB may have kept its names.
///
/// # Errors
/// When the file is not a binary of these servers, or lacks these names.
pub fn sites(binary: &Path) -> Result<Proposed, TraceError> {
    let program = Program::read(binary)?;
    let raised = counter::all(&program);
    let (found, without_writes) = if let Some(usage) = program.symbols.get("pgBufferUsage") {
        of_postgres(&program, binary, &raised, *usage)
    } else if program.function_named("buf_page_get_gen").is_some() {
        let counter = counter::of_innodb(&program, &raised).map(|(counter, _)| counter);
        (of_innodb(&program, &raised, counter), None)
    } else {
        let hint = "name the program `postgres` or `mysqld` of a whole installation";
        let what = "this binary names neither PostgreSQL's counters nor InnoDB's functions";
        return Err(TraceError::new(what, binary.display().to_string(), hint));
    };
    let sites = found.sites.iter().filter_map(|site| proposed(&program, binary, site)).collect();
    let fields = serde_json::from_str(found.fields).unwrap_or_default();
    Ok(Proposed { fields, modes_if_in_pool: found.modes_if_in_pool.to_vec(), sites, without_writes })
}

/// Proposes the sites of a build of PostgreSQL. Returns them, and the reason if those of changes and writes are missing,
/// as a phrase. `all` are the instructions that raise a number, and `usage` is where `pgBufferUsage` is.
#[must_use]
pub fn of_postgres(program: &Program, binary: &Path, all: &[Raise], usage: u64) -> (Proposals, Option<String>) {
    let mut found = rules::postgres(program, all, usage);
    // Append sites of changes and writes last, so that the other sites have the same numbers in a build without them.
    match writes::sites(program, &|address| room(program, binary, address).is_ok()) {
        Ok(writes) => {
            found.sites.extend(writes);
            (found, None)
        }
        Err(why) => (found, Some(why)),
    }
}

/// Proposes the sites of a build of MySQL or MariaDB; `all` are the instructions that raise a number, of which `counter` is
/// that of gets.
#[must_use]
pub fn of_innodb(program: &Program, all: &[Raise], counter: Option<Counter>) -> Proposals {
    // Only builds of MariaDB from 10.5 on lack the name.
    let gets = program.function_named("buf_page_get_gen").and_then(|gets| gets.symbol.as_deref());
    if gets.is_none_or(counter::passes_one_number) {
        mariadb::mariadb(program, all, counter)
    } else {
        innodb::innodb(program, all, counter)
    }
}

fn proposed(program: &Program, binary: &Path, site: &Proposal) -> Option<ProposedSite> {
    let function = program.function_at(site.address)?;
    let place = |address| Place { offset: program.offset_of(address), byte: byte_at(program, address) };
    let inside = match room(program, binary, site.address) {
        Ok(()) => None,
        // Use the instruction after the call whose result the site tests: from there on, no fetched value changes.
        Err(_) => {
            let code = program.instructions(function);
            let before = code.iter().take_while(|one| one.ip() < site.address);
            let called = before.filter(|one| one.is_call_near()).last()?;
            room(program, binary, called.next_ip()).is_ok().then(|| place(called.next_ip()))
        }
    };
    Some(ProposedSite {
        at: site.at.clone(),
        kinds: site.kinds.clone(),
        place: place(site.address),
        fetch: site.fetch.clone(),
        inside,
        function_offset: program.offset_of(function.start),
        why: site.why.clone(),
        tries: site
            .tries
            .iter()
            .map(|(at, registers)| Try { place: place(*at), registers: registers.clone() })
            .collect(),
        uncounted: site.is_uncounted,
    })
}

/// Returns the byte at an address; 0 where there is none.
#[must_use]
pub fn byte_at(program: &Program, address: u64) -> u8 {
    program.bytes_at(address).and_then(|bytes| bytes.first()).copied().unwrap_or(0)
}

/// Returns whether a jump has room at an address, so that a server can record itself there.
///
/// # Errors
/// The reason why it has no room, as a phrase.
pub fn room(program: &Program, binary: &Path, address: u64) -> Result<(), String> {
    let site = Site {
        at: "it".to_owned(),
        kinds: vec![Kind::Get],
        kinds_if_flag: None,
        offset: program.offset_of(address),
        byte: byte_at(program, address),
        semaphore: None,
        fetch: vec!["\\0".to_owned()],
    };
    let settings = Settings {
        binary: binary.to_owned(),
        spool: SpoolAsked::default(),
        fields: vec!["page_id:u64".to_owned()],
        modes_if_in_pool: Vec::new(),
        sites: vec![site],
    };
    match inside::branches(&settings) {
        Ok(branches) => match branches.first() {
            None => Ok(()),
            Some((from, _)) => Err(format!("{from:#x} leads into it")),
        },
        Err(why) => Err(why.what),
    }
}

/// Refuses a site unless an instruction begins there when its function is decoded from the start, and has the site's
/// first byte.
///
/// A probe anywhere else would break the server. The settings are not trusted: the binary itself is decoded.
///
/// # Errors
/// When the binary cannot be read, or for the first wrong site.
pub fn require_instructions(settings: &Settings) -> Result<(), TraceError> {
    let program = Program::read(&settings.binary)?;
    for site in &settings.sites {
        let address = program.address_of(site.offset);
        let begins = address.and_then(|address| {
            let code = program.instructions(program.function_at(address)?);
            Some(code.iter().any(|one| one.ip() == address && !one.is_invalid()))
        });
        let has_byte = address.is_some_and(|address| byte_at(&program, address) == site.byte);
        if !has_byte || begins != Some(true) {
            let what = format!("{} at {:#x} is not the instruction that it should be", site.at, site.offset);
            let hint = "the entry is of another build, or was changed: learn this build again";
            return Err(TraceError::new(what, settings.binary.display().to_string(), hint));
        }
    }
    Ok(())
}
