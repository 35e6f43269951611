//! A server's binary: its code, its functions with the names that it still has, and the pointers in its data.
//!
//! Even a stripped binary records where each function begins and ends, because exceptions need it (`.eh_frame_hdr`).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, Instruction, Register};
use object::elf::{PF_X, PT_LOAD, R_X86_64_RELATIVE};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, RelocationFlags};

use crate::tracefs::TraceError;

/// A part of the file as it is mapped.
pub struct Part {
    /// The part's place in the file, in bytes from its beginning.
    pub offset: u64,
    /// The part's address, without the load address.
    pub address: u64,
    /// The bytes of the part in the file.
    pub bytes: Vec<u8>,
    /// Whether the part is code.
    pub executable: bool,
}

/// A function, or a part of one that the compiler moved away from it.
pub struct Function {
    /// The address of the first byte.
    pub start: u64,
    /// The address after the last byte.
    pub end: u64,
    /// The symbol at its start, as the compiler wrote it.
    pub symbol: Option<String>,
}

impl Function {
    /// Returns a readable name: the symbol's name without its types, or a question mark.
    pub fn name(&self) -> String {
        self.symbol.as_deref().map_or_else(|| "?".to_owned(), name_of)
    }
}

/// A program of Linux on x86-64.
pub struct Program {
    /// The parts of the file that are mapped.
    pub parts: Vec<Part>,
    /// The functions, in the order of their addresses.
    pub functions: Vec<Function>,
    /// Addresses by the names that the file still has.
    pub symbols: HashMap<String, u64>,
    /// Values of the pointers in its data by their addresses, as the loader will write them.
    pub pointers: HashMap<u64, u64>,
}

impl Program {
    /// Reads a binary of Linux on x86-64.
    ///
    /// # Errors
    /// When the file cannot be read, is not such a binary, or does not show where its functions begin and end.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        let bytes = std::fs::read(path);
        let bytes = bytes.map_err(|error| TraceError::io("the server's binary cannot be read", path, &error))?;
        let wrong = |error: &dyn std::fmt::Display| {
            let hint = "name the server's own binary, not a script that starts it";
            TraceError::new(format!("this is no binary of a server: {error}"), path.display().to_string(), hint)
        };
        let file = ElfFile64::<Endianness>::parse(&*bytes).map_err(|error| wrong(&error))?;
        let endian = file.endian();
        let mut parts = Vec::new();
        for header in file.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD) {
            let (offset, length) = header.file_range(endian);
            let address = header.p_vaddr(endian);
            let end = offset.checked_add(length).filter(|_| address.checked_add(length).is_some());
            let part = end.and_then(|end| bytes.get(offset as usize..end as usize));
            parts.push(Part {
                offset,
                address,
                bytes: part.ok_or_else(|| wrong(&"it is cut off"))?.to_vec(),
                executable: header.p_flags(endian).contains(PF_X),
            });
        }
        let named = file.symbols().chain(file.dynamic_symbols()).filter(|symbol| symbol.address() != 0);
        let named: BTreeMap<u64, String> =
            named.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned()))).collect();
        let header = file.section_by_name(".eh_frame_hdr").ok_or_else(|| wrong(&"it has no table of functions"))?;
        let table = header.data().map_err(|error| wrong(&error))?;
        let mut program = Self {
            parts,
            functions: Vec::new(),
            symbols: named.iter().map(|(address, name)| (name.clone(), *address)).collect(),
            pointers: HashMap::new(),
        };
        program.functions = program.functions_of(header.address(), table, &named).ok_or_else(|| wrong(&"its table"))?;
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
            if matches!(relocation.flags(), RelocationFlags::Elf { r_type } if r_type == R_X86_64_RELATIVE) {
                program.pointers.insert(address, relocation.addend().cast_unsigned());
            }
        }
        Ok(program)
    }

    /// Reads the table of functions (LSB, 10.6.2), in the one encoding that linkers on x86-64 write.
    fn functions_of(&self, at: u64, table: &[u8], named: &BTreeMap<u64, String>) -> Option<Vec<Function>> {
        if table.get(..4)? != [1, 0x1b, 3, 0x3b] {
            return None;
        }
        let entries = table.get(12..)?.chunks_exact(8);
        let mut functions: Vec<Function> = entries
            .filter_map(|entry| {
                let start = at.wrapping_add_signed(i64::from(i32::from_le_bytes(entry[..4].try_into().ok()?)));
                let frame = at.wrapping_add_signed(i64::from(i32::from_le_bytes(entry[4..].try_into().ok()?)));
                let length = u32::from_le_bytes(self.bytes_at(frame.checked_add(12)?)?.get(..4)?.try_into().ok()?);
                let symbol = named.get(&start).cloned();
                Some(Function { start, end: start.checked_add(u64::from(length))?, symbol })
            })
            .collect();
        functions.sort_by_key(|function| function.start);
        Some(functions)
    }

    /// Returns the bytes from an address to the end of its segment.
    pub fn bytes_at(&self, address: u64) -> Option<&[u8]> {
        let holds = |part: &&Part| (part.address..part.address + part.bytes.len() as u64).contains(&address);
        self.parts.iter().find(holds).map(|part| &part.bytes[(address - part.address) as usize..])
    }

    /// Returns the place in the file of an address in the code.
    pub fn offset_of(&self, address: u64) -> u64 {
        let holds = |part: &&Part| (part.address..part.address + part.bytes.len() as u64).contains(&address);
        self.parts.iter().find(holds).map_or(0, |part| address - part.address + part.offset)
    }

    /// Returns the address of a place in the file.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |part: &&Part| (part.offset..part.offset + part.bytes.len() as u64).contains(&offset);
        self.parts.iter().filter(|part| part.executable).find(holds).map(|part| offset - part.offset + part.address)
    }

    /// Returns whether an address is in the code.
    pub fn is_code(&self, address: u64) -> bool {
        let holds = |part: &Part| (part.address..part.address + part.bytes.len() as u64).contains(&address);
        self.parts.iter().any(|part| part.executable && holds(part))
    }

    /// Returns the function that has an address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        let next = self.functions.partition_point(|function| function.start <= address);
        self.functions[..next].last().filter(|function| address < function.end)
    }

    /// Returns the function of a name.
    pub fn function_named(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|function| function.symbol.is_some() && function.name() == name)
    }

    /// Returns the instructions of a function, decoded from its start on.
    pub fn instructions(&self, function: &Function) -> Vec<Instruction> {
        let bytes = self.bytes_at(function.start).unwrap_or_default();
        let length = ((function.end - function.start) as usize).min(bytes.len());
        Decoder::with_ip(64, &bytes[..length], function.start, DecoderOptions::NONE).into_iter().collect()
    }

    /// Returns the addresses of a text with a zero byte before and after it.
    pub fn texts(&self, text: &str) -> Vec<u64> {
        let wanted = [b"\0", text.as_bytes(), b"\0"].concat();
        let found = |part: &Part| -> Vec<u64> {
            let places = part.bytes.windows(wanted.len()).enumerate().filter(|(_, bytes)| *bytes == wanted);
            places.map(|(at, _)| part.address + at as u64 + 1).collect()
        };
        self.parts.iter().flat_map(found).collect()
    }

    /// Returns the addresses of texts that end with `end`.
    pub fn texts_ending(&self, end: &str) -> Vec<u64> {
        let wanted = [end.as_bytes(), b"\0"].concat();
        let begin_of = |part: &Part, at: usize| {
            let before = part.bytes[..at].iter().rev().take_while(|byte| **byte != 0).count();
            part.address + (at - before) as u64
        };
        let found = |part: &Part| -> Vec<u64> {
            let places = part.bytes.windows(wanted.len()).enumerate().filter(|(_, bytes)| *bytes == wanted);
            places.map(|(at, _)| begin_of(part, at)).collect()
        };
        self.parts.iter().flat_map(found).collect()
    }

    /// Returns where the data has a pointer to an address.
    pub fn pointers_to(&self, address: u64) -> Vec<u64> {
        let mut places: Vec<u64> =
            self.pointers.iter().filter(|(_, value)| **value == address).map(|(at, _)| *at).collect();
        // A program that is not position-independent has the pointers in its file.
        for part in self.parts.iter().filter(|part| !part.executable) {
            let words = part.bytes.chunks_exact(8).enumerate();
            places.extend(
                words.filter(|(_, word)| **word == address.to_le_bytes()).map(|(at, _)| part.address + 8 * at as u64),
            );
        }
        places
    }

    /// Returns the pointer at an address in the data.
    pub fn pointer_at(&self, address: u64) -> Option<u64> {
        let kept = || Some(u64::from_le_bytes(self.bytes_at(address)?.get(..8)?.try_into().ok()?));
        self.pointers.get(&address).copied().or_else(kept).filter(|value| *value != 0)
    }
}

/// Returns a function's name without its types: of `_ZN11fil_space_t2ioERK9IORequest` it is `fil_space_t::io`.
pub fn name_of(symbol: &str) -> String {
    let Some(mut rest) = symbol.strip_prefix("_Z") else {
        return symbol.split('@').next().unwrap_or(symbol).to_owned();
    };
    let nested = rest.starts_with('N');
    rest = rest.trim_start_matches(['N', 'L', 'K']);
    let mut names = Vec::new();
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(name) = rest[..digits].parse().ok().and_then(|length: usize| rest.get(digits..digits + length)) else {
            break;
        };
        names.push(name);
        rest = &rest[digits + name.len()..];
        if !nested {
            break;
        }
    }
    if names.is_empty() { symbol.to_owned() } else { names.join("::") }
}

pub(super) fn is_call(one: &Instruction) -> bool {
    one.is_call_near()
}

/// Returns a register as the kernel writes it.
pub(super) fn short(register: Register) -> String {
    let name = format!("{:?}", register.full_register()).to_lowercase();
    let numbered = name.ends_with(|end: char| end.is_ascii_digit());
    format!("%{}", if numbered { &*name } else { name.trim_start_matches('r') })
}
