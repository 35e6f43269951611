//! Proposes the sites of a server's build for page_sites.toml: `tools/find-sites BINARY [--like KNOWN_BINARY]`.
//!
//! The output is a proposal. A person checks each place with a disassembler, and compares the counts of runs.
//! CONTRIBUTING.md ("A new build in page traces") has the steps; docs/page-trace.md explains sites.

mod like;
#[cfg(test)]
mod tests;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use bufferlab_probe::page_trace::propose::program::Program;
use bufferlab_probe::page_trace::propose::rules::Proposal;
use bufferlab_probe::page_trace::propose::{byte_at, counter, of_innodb, of_postgres, room};

const USAGE: &str = "usage: tools/find-sites BINARY [--like KNOWN_BINARY]";
const TABLES: [&str; 2] =
    ["python/bufferlab/engines/innodb/page_sites.toml", "python/bufferlab/engines/postgres/page_sites.toml"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (binary, known) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [binary] if !binary.starts_with('-') => (binary, None),
        [binary, "--like", known] => (binary, Some(known)),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match propose(Path::new(binary), known.map(Path::new)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(1)
        }
    }
}

/// Returns the proposed text for page_sites.toml.
fn propose(binary: &Path, known: Option<&Path>) -> Result<String, String> {
    let program = read(binary)?;
    let hash = text_hash(&program)?;
    let listed = entry_of(&hash)?;
    let has = listed.as_ref().map_or_else(Vec::new, |(_, entry)| offsets(entry));
    let all = counter::all(&program);
    let (found, way) = if let Some(&usage) = program.symbols.get("pgBufferUsage") {
        let (found, without_writes) = of_postgres(&program, binary, &all, usage);
        let lacking = without_writes.map_or_else(String::new, |why| format!("; no sites of changes and writes: {why}"));
        (found, format!("pgBufferUsage at {usage:#x}, by its symbol{lacking}"))
    } else {
        let (counter, way) = counter::of_innodb(&program, &all)
            .map_or_else(|| (None, "not found".to_owned()), |(counter, way)| (Some(counter), way));
        (of_innodb(&program, &all, counter), way)
    };
    if found.sites.is_empty() && known.is_none() {
        let hint = "try --like with the binary of a known build of this server";
        return Err(format!("{}: neither a counter of gets nor a name leads to a site; {hint}", binary.display()));
    }
    let mut text = format!(
        "# The counter of gets: {way}.\n# Look at each place: objdump -d --start-address=ADDRESS --stop-address=ADDRESS+64 {}\n",
        binary.display()
    );
    if let Some((table, _)) = &listed {
        text += &format!("# {table} has this build already.\n");
    }
    let head = |fields: &str, more: &str| {
        format!("[[build]]\nserver = \"?\"\ntext_sha256 = \"{hash}\"\ncost_shown = false\n{fields}{more}site = [\n")
    };
    if let Some(known) = known {
        text += &carried(&program, binary, known, &head)?;
        text += "\n# By names and counters alone:\n";
    }
    let modes = match found.modes_if_in_pool {
        [] => String::new(),
        modes => format!("modes_if_in_pool = {modes:?}\n"),
    };
    text += &head(&format!("fields = {}\n", found.fields), &modes);
    text.extend(found.sites.iter().map(|site| lines_of(&program, binary, site, &has)));
    Ok(text + "]\n")
}

/// Returns a proposal in the form of page_sites.toml, below the reasons for it. `has` are the places that are in the
/// table already.
fn lines_of(program: &Program, binary: &Path, site: &Proposal, has: &[u64]) -> String {
    let fetch: Vec<String> = site.fetch.iter().map(|one| format!("\"{}\"", one.replace('\\', "\\\\"))).collect();
    let kinds: Vec<String> = site.kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
    let offset = program.offset_of(site.address);
    let known = if has.contains(&offset) { "; the table has it" } else { "" };
    let why = format!("{:#x}: {}; {}{known}", site.address, site.why, room_at(program, binary, site.address));
    let (byte, kinds, fetch) = (byte_at(program, site.address), kinds.join(", "), fetch.join(", "));
    let place = format!("kinds = [{kinds}], offset = {offset:#x}, byte = {byte:#04x}, fetch = [{fetch}]");
    format!("  # {why}.\n  {{ at = \"{}\", {place} }},\n", site.at)
}

/// Returns the sites of a known build, each moved to the most similar place in the program.
fn carried(
    program: &Program,
    binary: &Path,
    known: &Path,
    head: &dyn Fn(&str, &str) -> String,
) -> Result<String, String> {
    let known_program = read(known)?;
    let none = || format!("no page_sites.toml has {}", known.display());
    let (_, entry) = entry_of(&text_hash(&known_program)?)?.ok_or_else(none)?;
    let line = |wanted: &str| {
        let found = entry.lines().find(|line| line.starts_with(wanted));
        found.map_or_else(String::new, |line| format!("{line}\n"))
    };
    let mut text = head(&line("fields"), &line("modes_if_in_pool"));
    for line in entry.lines().filter(|line| line.trim_start().starts_with("{ at")) {
        let mut moved = line.to_owned();
        for offset in offsets(line) {
            let Some(at) = known_program.address_of(offset) else { continue };
            let Some(alike) = like::find(&known_program, at, program) else {
                text += &format!("  # {at:#x} there: no function is like this one.\n");
                continue;
            };
            let by = if alike.named { "by its symbol" } else { "the function most like it" };
            text += &format!(
                "  # {:#x}: {by}, {:.0} % alike; around it {} of 17 instructions are the same, {} with their registers; {}.\n",
                alike.address,
                100.0 * alike.function,
                alike.around,
                alike.registers,
                room_at(program, binary, alike.address),
            );
            moved = placed(&moved, offset, program.offset_of(alike.address), byte_at(program, alike.address));
        }
        if line.contains("semaphore") {
            text += &format!("  # Its semaphore is another: readelf -n {}\n", binary.display());
        }
        text += &format!("{moved}\n");
    }
    Ok(text + "]\n")
}

/// Returns a line of sites with one of its offsets, and the byte after it, replaced.
fn placed(line: &str, from: u64, to: u64, byte: u8) -> String {
    let old = format!("offset = {from:#x}, byte = 0x");
    let Some((before, after)) = line.split_once(&old) else { return line.to_owned() };
    format!(
        "{before}offset = {to:#x}, byte = {byte:#04x}{}",
        after.trim_start_matches(|one: char| one.is_ascii_hexdigit())
    )
}

/// Returns the offsets in a line of sites.
fn offsets(line: &str) -> Vec<u64> {
    let after = line.split("offset = 0x").skip(1);
    let digits = |rest: &str| rest.chars().take_while(char::is_ascii_hexdigit).collect::<String>();
    after.filter_map(|rest| u64::from_str_radix(&digits(rest), 16).ok()).collect()
}

/// Returns the file page_sites.toml that has a build, and the build's entry in it; none if neither file has the build.
fn entry_of(hash: &str) -> Result<Option<(&'static str, String)>, String> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    for table in TABLES {
        let text = std::fs::read_to_string(root.join(table)).map_err(|error| format!("{table}: {error}"))?;
        if let Some(entry) = text.split("[[build]]").skip(1).find(|entry| entry.contains(hash)) {
            return Ok(Some((table, entry.to_owned())));
        }
    }
    Ok(None)
}

/// Returns a phrase for the output: whether the code at an address has room for a jump, by which the server itself
/// could record there.
fn room_at(program: &Program, binary: &Path, address: u64) -> String {
    match room(program, binary, address) {
        Ok(()) => "a jump has room".to_owned(),
        Err(why) => format!("no room for a jump, because {why}"),
    }
}

fn read(binary: &Path) -> Result<Program, String> {
    Program::read(binary).map_err(|error| error.to_string())
}

/// Returns the SHA-256 of the executable segments in the form of page_sites.toml. It runs sha256sum of coreutils.
fn text_hash(program: &Program) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("sha256sum cannot be run: {error}");
    let mut child = Command::new("sha256sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut input) = child.stdin.take() {
        for part in program.parts.iter().filter(|part| part.executable) {
            input.write_all(&part.bytes).map_err(failed)?;
        }
    }
    let told = child.wait_with_output().map_err(failed)?.stdout;
    Ok(String::from_utf8_lossy(&told).split(' ').next().unwrap_or_default().to_owned())
}
