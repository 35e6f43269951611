//! Makes the plan by which a server records itself: trampolines, and the bytes that jump to them. The plan depends only
//! on the program's code and its sites. The worker makes the plan, so that the server needs no decoder of instructions.

use std::collections::BTreeMap;

use bufferlab_inside::layout::{self, CODE_PLANNED_AT, COVER_BYTES, Fixup, MAGIC, PLAN_BYTES, Patch, SLOTS};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Register};

use super::super::fetch::{self, Fetch};
use super::super::recording::Settings;
use super::trampoline::{Job, assemble};
use crate::tracefs::Format;

/// Bytes of a jump to anywhere within 2 GiB.
const JUMP_BYTES: usize = 5;
/// Trampolines begin at multiples of this many bytes.
const ALIGN: usize = 16;
const BREAKPOINT: u8 = 0xcc;
const ANY: u32 = DecoderOptions::NONE;

/// A mapped part of a program.
#[derive(Clone, Debug)]
pub struct Mapped {
    /// The part's place in the file, in bytes from its beginning.
    pub offset: u64,
    /// The part's address, without the load address.
    pub address: u64,
    /// The part's bytes; for data, only their number matters.
    pub bytes: Vec<u8>,
}

impl Mapped {
    fn address_of(&self, offset: u64) -> Option<u64> {
        let inside = offset.checked_sub(self.offset).filter(|inside| *inside < self.bytes.len() as u64)?;
        self.address.checked_add(inside)
    }

    /// Returns the code from an address to the end of its segment.
    fn from(&self, address: u64) -> Option<&[u8]> {
        self.bytes.get(usize::try_from(address.checked_sub(self.address)?).ok()?..).filter(|code| !code.is_empty())
    }
}

/// The parts of a program.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The program's executable segments.
    pub code: Vec<Mapped>,
    /// Other segments: place in the file, address and length.
    pub data: Vec<(u64, u64, u64)>,
}

/// A plan: the changes that the library makes to a program, and the layout of records.
#[derive(Debug)]
pub struct Plan {
    segments: Vec<layout::Segment>,
    fixups: Vec<Fixup>,
    patches: Vec<Patch>,
    semaphores: Vec<u64>,
    code: Vec<u8>,
    text_hash: u64,
    pub(super) format: Format,
}

/// Makes the plan of a program.
///
/// # Errors
/// A sentence that names a site that cannot be recorded, and the reason.
pub fn plan(program: &Program, settings: &Settings) -> Result<Plan, String> {
    let parts = fetch::parts(settings)?;
    let mut plan = Plan {
        segments: program
            .code
            .iter()
            .map(|part| layout::Segment { address: part.address, bytes: part.bytes.len() as u64 })
            .collect(),
        fixups: Vec::new(),
        patches: Vec::new(),
        semaphores: Vec::new(),
        code: vec![0; ALIGN],
        text_hash: program.code.iter().fold(0, |all, part| layout::hash(all, &part.bytes)),
        format: fetch::format(&parts),
    };
    for (number, site) in settings.sites.iter().enumerate() {
        let wrong = |why: String| format!("{} at {:#x}: {why}", site.at, site.offset);
        let place = place(program, site.offset).ok_or_else(|| wrong("there is no code".to_owned()))?;
        if place.code[0] != site.byte {
            return Err(wrong("the instruction is not the expected one".to_owned()));
        }
        let taken = take(&place).map_err(wrong)?;
        let fetches = fetch::fetches(settings, number, &parts).map_err(wrong)?;
        if fetches.contains(&Fetch::ZeroFlag) {
            return Err(wrong("only the kernel has the processor's flags of that moment".to_owned()));
        }
        let job = Job {
            site: u8::try_from(number).map_err(|_| wrong("there are too many sites".to_owned()))?,
            parts: &parts,
            fetches: &fetches,
            is_call: taken.is_call,
            moved: &taken.moved,
            then: taken.then,
            cold: CODE_PLANNED_AT.cast_unsigned(),
        };
        let trampoline = CODE_PLANNED_AT.cast_unsigned() + plan.code.len() as u64;
        let code = assemble(&job, trampoline).map_err(|error| wrong(error.to_string()))?;
        plan.patches.push(patch(&place, &taken, trampoline).map_err(wrong)?);
        plan.code.extend(code);
        plan.code.resize(plan.code.len().next_multiple_of(ALIGN), BREAKPOINT);
        if let Some(semaphore) = site.semaphore {
            let found = address_of_data(program, semaphore);
            plan.semaphores.push(found.ok_or_else(|| wrong("its counter is nowhere".to_owned()))?);
        }
    }
    no_overlap(&plan.patches)?;
    plan.fixups = fixups(&plan.code);
    if plan.bytes().len() > PLAN_BYTES || plan.code.len() > layout::CODE_BYTES {
        return Err(format!("{} sites are too many", settings.sites.len()));
    }
    Ok(plan)
}

impl Plan {
    /// Fills a header and returns the bytes that follow at [`layout::PLAN_AT`].
    pub(super) fn put_into(&self, header: &mut layout::Header) -> Vec<u8> {
        header.text_hash = self.text_hash;
        header.segments = self.segments.len() as u32;
        header.fixups = self.fixups.len() as u32;
        header.patches = self.patches.len() as u32;
        header.semaphores = self.semaphores.len() as u32;
        header.code_bytes = self.code.len() as u32;
        header.slots = SLOTS as u32;
        header.magic = MAGIC;
        self.bytes()
    }

    /// Returns the parts one after another, as their types lie in memory.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for segment in &self.segments {
            bytes.extend(segment.address.to_le_bytes());
            bytes.extend(segment.bytes.to_le_bytes());
        }
        for fixup in &self.fixups {
            bytes.extend(fixup.at.to_le_bytes());
            bytes.extend(fixup.of_thread.to_le_bytes());
        }
        for patch in &self.patches {
            bytes.extend(patch.address.to_le_bytes());
            bytes.extend(patch.bytes.to_le_bytes());
            bytes.extend(patch.distance_at.to_le_bytes());
            bytes.extend(patch.old);
            bytes.extend(patch.new);
        }
        bytes.extend(self.semaphores.iter().flat_map(|semaphore| semaphore.to_le_bytes()));
        bytes.extend(&self.code);
        bytes
    }

    /// Returns the first address and the end of the bytes that each patch covers.
    pub fn covered(&self) -> impl Iterator<Item = (u64, u64)> {
        self.patches.iter().map(|patch| (patch.address, patch.address + u64::from(patch.bytes)))
    }
}

/// A site in the program.
struct Place<'a> {
    address: u64,
    code: &'a [u8],
}

fn place(program: &Program, offset: u64) -> Option<Place<'_>> {
    program.code.iter().find_map(|part| {
        let address = part.address_of(offset)?;
        Some(Place { address, code: part.from(address)? })
    })
}

fn address_of_data(program: &Program, offset: u64) -> Option<u64> {
    program.data.iter().find_map(|(first, address, bytes)| {
        let inside = offset.checked_sub(*first).filter(|inside| inside + 2 <= *bytes)?;
        address.checked_add(inside)
    })
}

/// The instructions that a patch replaces in the program.
struct Taken {
    bytes: usize,
    /// Whether the instruction is a call, which stays in place and is redirected to the trampoline.
    is_call: bool,
    moved: Vec<Instruction>,
    then: Option<u64>,
}

/// Decides how a site is patched. A near call or jump at the site is redirected to the trampoline. Otherwise the
/// instructions in the first five bytes or more move into the trampoline.
fn take(place: &Place<'_>) -> Result<Taken, String> {
    let mut decoder = Decoder::with_ip(64, place.code, place.address, ANY);
    let first = decoder.decode();
    if matches!(first.code(), Code::Call_rel32_64 | Code::Jmp_rel32_64) && first.len() == JUMP_BYTES {
        let is_call = first.code() == Code::Call_rel32_64;
        return Ok(Taken { bytes: JUMP_BYTES, is_call, moved: Vec::new(), then: Some(first.near_branch_target()) });
    }
    let (mut moved, mut bytes, mut ended) = (Vec::new(), 0, false);
    let mut next = first;
    loop {
        bytes += next.len();
        // After a jump, only the padding before the next function may be overwritten.
        if ended && next.code() != Code::Int3 && !is_nop(&next) {
            return Err("the code after it belongs to another path".to_owned());
        }
        match next.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch if ended => (),
            FlowControl::Next | FlowControl::ConditionalBranch => moved.push(next),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => {
                moved.push(next);
                ended = true;
            }
            FlowControl::Interrupt if ended => (),
            // A moved call would put an address in the trampoline on the stack, and no unwinder knows that address.
            _ => return Err(format!("{:?} cannot be moved", next.mnemonic())),
        }
        if bytes >= JUMP_BYTES {
            break;
        }
        next = decoder.decode();
    }
    // Refuse a load from the thread's memory, such as the stack protector's: `fixups` would mistake it for a load of
    // the thread's slot.
    let stays = |one: &Instruction| {
        one.is_invalid() || one.memory_base() == Register::EIP || one.segment_prefix() == Register::FS
    };
    if moved.iter().any(stays) || bytes > COVER_BYTES {
        return Err("its instructions cannot be moved".to_owned());
    }
    let then = (!ended).then_some(place.address + bytes as u64);
    Ok(Taken { bytes, is_call: false, moved, then })
}

fn is_nop(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), iced_x86::Mnemonic::Nop)
}

fn patch(place: &Place<'_>, taken: &Taken, trampoline: u64) -> Result<Patch, String> {
    let mut old = [0; COVER_BYTES];
    old[..taken.bytes].copy_from_slice(&place.code[..taken.bytes]);
    let mut new = [0; COVER_BYTES];
    new[..taken.bytes].fill(BREAKPOINT);
    new[0] = if taken.is_call { 0xe8 } else { 0xe9 };
    let distance = trampoline.wrapping_sub(place.address + JUMP_BYTES as u64).cast_signed();
    let distance = i32::try_from(distance).map_err(|_| "it is too far from the trampolines".to_owned())?;
    new[1..JUMP_BYTES].copy_from_slice(&distance.to_le_bytes());
    Ok(Patch { address: place.address, bytes: taken.bytes as u32, distance_at: 1, old, new })
}

fn no_overlap(patches: &[Patch]) -> Result<(), String> {
    let mut ends = BTreeMap::new();
    for patch in patches {
        ends.insert(patch.address, patch.address + u64::from(patch.bytes));
    }
    let overlaps = ends.iter().zip(ends.keys().skip(1)).any(|((_, end), next)| end > next);
    if overlaps || ends.len() < patches.len() { Err("two sites share bytes".to_owned()) } else { Ok(()) }
}

/// Returns the values in the trampolines that depend on where the trampolines are, or on the thread's slot. It decodes
/// the finished code once more to find them.
fn fixups(code: &[u8]) -> Vec<Fixup> {
    let first = CODE_PLANNED_AT.cast_unsigned();
    let own = first..first + code.len() as u64;
    let mut decoder = Decoder::with_ip(64, &code[ALIGN..], own.start + ALIGN as u64, ANY);
    let mut found = Vec::new();
    while decoder.can_decode() {
        let instruction = decoder.decode();
        let offsets = decoder.get_constant_offsets(&instruction);
        let at = |offset: usize| (instruction.ip() - own.start) as u32 + offset as u32;
        if instruction.segment_prefix() == Register::FS {
            found.push(Fixup { at: at(offsets.displacement_offset()), of_thread: 1 });
        } else if instruction.is_ip_rel_memory_operand() {
            if !own.contains(&instruction.ip_rel_memory_address()) {
                found.push(Fixup { at: at(offsets.displacement_offset()), of_thread: 0 });
            }
        } else if instruction.near_branch_target() != 0 && !own.contains(&instruction.near_branch_target()) {
            found.push(Fixup { at: at(offsets.immediate_offset()), of_thread: 0 });
        }
    }
    found
}

/// Returns source and target of each direct branch into the bytes that a patch covers, except to the patch's first
/// byte. There must be none.
///
/// It reads the code from end to end. Data between functions may be read as instructions; such a branch is reported
/// too, and a person must check it.
pub fn branches_into(program: &Program, plan: &Plan) -> Vec<(u64, u64)> {
    let inner: Vec<(u64, u64)> = plan.covered().map(|(first, end)| (first + 1, end)).collect();
    let mut found = Vec::new();
    for part in &program.code {
        let mut decoder = Decoder::with_ip(64, &part.bytes, part.address, ANY);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let target = instruction.near_branch_target();
            if target != 0 && inner.iter().any(|(first, end)| (*first..*end).contains(&target)) {
                found.push((instruction.ip(), target));
            }
        }
    }
    found
}
