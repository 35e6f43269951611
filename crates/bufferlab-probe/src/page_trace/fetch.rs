//! The values that a site fetches, and their places in a record. A site gives them in the kernel's notation
//! (Documentation/trace/uprobetracer.rst).

use std::collections::BTreeMap;

use bufferlab_inside::layout::SITE_AT;
use iced_x86::Register;

use super::decode::ZERO_FLAG;
use super::recording::Settings;
use crate::tracefs::{Field, Format};

/// The place from which a site fetches a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    /// A constant: `\N`.
    Constant(u64),
    /// A register: `%di`, all 64 bits.
    Register(Register),
    /// The lowest byte of the processor's flags, of which the decoder uses the zero flag: `%zf`. Only the kernel's
    /// probes can fetch them.
    ZeroFlag,
    /// Memory: `+8(...)`; 0 if the address, before the distance is added, is null.
    Memory(i32, Box<Fetch>),
}

/// The place of the flags in the kernel's `struct pt_regs`, in words.
const FLAGS: u8 = 18;

impl Fetch {
    /// Reads the kernel's notation; none for forms that sites do not use.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(number) = text.strip_prefix('\\') {
            return number.parse().ok().map(Fetch::Constant);
        }
        if text == ZERO_FLAG {
            return Some(Fetch::ZeroFlag);
        }
        if let Some(name) = text.strip_prefix('%') {
            return register(name).map(Fetch::Register);
        }
        let (distance, rest) = text.split_once('(')?;
        let inner = Self::parse(rest.strip_suffix(')')?)?;
        if !distance.starts_with(['+', '-']) || matches!(inner, Fetch::Constant(_) | Fetch::ZeroFlag) {
            return None;
        }
        Some(Fetch::Memory(distance.parse().ok()?, Box::new(inner)))
    }

    /// Returns the place of a register among the saved registers of a thread in the kernel (ptrace.h); none for other
    /// values.
    pub fn place_in_registers(&self) -> Option<u8> {
        if *self == Fetch::ZeroFlag {
            return Some(FLAGS);
        }
        REGISTERS.iter().find(|(_, register, _)| *self == Fetch::Register(*register)).map(|(_, _, place)| *place)
    }
}

/// The registers: the kernel's name, the crate iced-x86's name, and the place in the kernel's `struct pt_regs`, in
/// words.
const REGISTERS: [(&str, Register, u8); 16] = [
    ("ax", Register::RAX, 10),
    ("bx", Register::RBX, 5),
    ("cx", Register::RCX, 11),
    ("dx", Register::RDX, 12),
    ("si", Register::RSI, 13),
    ("di", Register::RDI, 14),
    ("bp", Register::RBP, 4),
    ("sp", Register::RSP, 19),
    ("r8", Register::R8, 9),
    ("r9", Register::R9, 8),
    ("r10", Register::R10, 7),
    ("r11", Register::R11, 6),
    ("r12", Register::R12, 3),
    ("r13", Register::R13, 2),
    ("r14", Register::R14, 1),
    ("r15", Register::R15, 0),
];

fn register(name: &str) -> Option<Register> {
    REGISTERS.iter().find(|(known, ..)| *known == name).map(|(_, register, _)| *register)
}

/// A field of a record: how many bytes a site reads, how much of them a record keeps, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub name: String,
    pub read_bytes: usize,
    pub kept: Kept,
    pub at: usize,
}

/// How much of a value a record keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// This many of the value's lowest bytes.
    Bytes(usize),
    /// Only whether the value is zero or not.
    Truth,
}

impl Kept {
    pub fn bytes(self) -> usize {
        match self {
            Kept::Bytes(bytes) => bytes,
            Kept::Truth => 1,
        }
    }
}

/// Returns how much a record keeps of a field. A small field suffices if its values are small, or if only null and not
/// null are distinguished.
fn kept(name: &str, read_bytes: usize) -> Kept {
    match name {
        // Addresses for which only null and not null are distinguished.
        "held" | "strategy" => Kept::Truth,
        "flag" if read_bytes == 8 => Kept::Truth,
        // These values fit into one byte. The fork and PostgreSQL's enumerations are below ten, and PostgreSQL extends
        // or reads at most 128 blocks at once (MAX_IO_COMBINE_LIMIT of bufmgr.h).
        "fork" | "strategy_type" | "io_context" | "io_context_18" | "blocks" => Kept::Bytes(1),
        _ => Kept::Bytes(read_bytes),
    }
}

/// Returns the value that the decoder assumes for a field that records lack.
fn presumed(name: &str) -> u64 {
    u64::from(name == "blocks")
}

/// Places the fields in a record. A field that has its assumed value at all sites takes no place.
///
/// Returns an error for more fields than a record has room for.
pub(super) fn parts(settings: &Settings) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for (column, field) in settings.fields.iter().enumerate() {
        let (name, kind) = field.split_once(':').unwrap_or((field, "u64"));
        let read_bytes = match kind {
            "u8" => 1,
            "u16" => 2,
            "u32" => 4,
            "u64" => 8,
            _ => return Err(format!("the field {field} has no type that can be recorded")),
        };
        let constant = format!("\\{}", presumed(name));
        if settings.sites.iter().any(|site| site.fetch.get(column).is_none_or(|fetch| *fetch != constant)) {
            parts.push((column, Part { name: name.to_owned(), read_bytes, kept: kept(name, read_bytes), at: 0 }));
        }
    }
    // The largest first, so that each is at a multiple of its size.
    parts.sort_by_key(|(column, part)| (std::cmp::Reverse(part.kept.bytes()), *column));
    let mut at = size_of::<u64>();
    for (_, part) in &mut parts {
        part.at = at;
        at += part.kept.bytes();
    }
    if at > SITE_AT {
        return Err(format!("the fields of a record need {at} bytes, and there are {SITE_AT}"));
    }
    Ok(parts.into_iter().map(|(_, part)| part).collect())
}

/// Returns the format of records for the decoder.
pub(super) fn format(parts: &[Part]) -> Format {
    let field = |offset, size| Field { offset, size, signed: false };
    let named = parts.iter().map(|part| (part.name.clone(), field(part.at, part.kept.bytes())));
    let fields: BTreeMap<String, Field> = named.chain([("site".to_owned(), field(SITE_AT, 1))]).collect();
    Format::of("page", fields)
}

/// Returns the fetches of a site in the order of the parts.
pub(super) fn fetches(settings: &Settings, site: usize, parts: &[Part]) -> Result<Vec<Fetch>, String> {
    let one = |part: &Part| {
        let named = |field: &String| field.split(':').next() == Some(&*part.name);
        let column = settings.fields.iter().position(named).unwrap_or(usize::MAX);
        let text = settings.sites[site].fetch.get(column).map_or("", String::as_str);
        Fetch::parse(text).ok_or_else(|| format!("`{text}` for {} cannot be fetched", part.name))
    };
    parts.iter().map(one).collect()
}
