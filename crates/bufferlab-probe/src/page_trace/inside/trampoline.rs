//! The code to which a site jumps. It writes a record, and then continues with the program's own instructions.
//!
//! The code preserves every register and flag, and the 128 bytes below the stack pointer, which a leaf function may
//! use. It takes no lock and makes no system call; only a full ring makes it call the cold path.

use bufferlab_inside::layout::{HEAD_BYTES, RECORD_BYTES, RING_BYTES, SITE_AT};
use iced_x86::code_asm::registers::gpr64::{r10, r11, rax, rdx, rsp};
use iced_x86::code_asm::registers::{gpr8, gpr16, gpr32, gpr64};
use iced_x86::code_asm::{AsmMemoryOperand, AsmRegister64, CodeAssembler, CodeLabel};
use iced_x86::code_asm::{byte_ptr, dword_ptr, qword_ptr, word_ptr};
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::super::fetch::{Fetch, Kept, Part};

/// A placeholder for the offset of a thread's slot from the thread's base address; the library fills the offset in.
/// Because its operand has no base register, it takes four bytes in the instruction, although it is 0.
pub(super) const SLOT_OFFSET: i32 = 0;
/// Bytes below the stack's pointer that belong to a leaf function (System V ABI for AMD64, 3.2.2).
const RED_ZONE: i32 = 128;
/// Registers that the trampoline uses, in the order in which they are pushed.
const USED: [Register; 4] = [Register::RAX, Register::RDX, Register::R10, Register::R11];

/// The work of one site's trampoline.
pub(super) struct Job<'a> {
    /// The site's number, which the trampoline writes into each record.
    pub site: u8,
    pub parts: &'a [Part],
    /// The value to fetch for each part.
    pub fetches: &'a [Fetch],
    /// Whether the site is a call, whose target is now this trampoline. Flags and the memory below the stack's pointer
    /// are then unused, and the return address is on the stack.
    pub is_call: bool,
    /// The instructions that were moved here.
    pub moved: &'a [Instruction],
    /// The address at which the program goes on.
    pub then: Option<u64>,
    /// The address at which the cold path's address is stored.
    pub cold: u64,
}

/// Returns the code of a trampoline at this place.
pub(super) fn assemble(job: &Job<'_>, place: u64) -> Result<Vec<u8>, IcedError> {
    let mut made = Maker { code: CodeAssembler::new(64)?, job };
    made.all()?;
    made.code.assemble(place)
}

struct Maker<'a> {
    code: CodeAssembler,
    job: &'a Job<'a>,
}

impl Maker<'_> {
    fn all(&mut self) -> Result<(), IcedError> {
        let (mut cold, mut record, mut restore) =
            (self.code.create_label(), self.code.create_label(), self.code.create_label());
        self.save()?;
        self.code.mov(r10, qword_ptr(SLOT_OFFSET).fs())?;
        self.code.test(r10, r10)?;
        self.code.je(cold)?;
        self.code.mov(r11, qword_ptr(r10))?;
        self.code.cmp(r11, qword_ptr(r10 + 8))?;
        self.code.jae(cold)?;
        self.code.set_label(&mut record)?;
        self.record()?;
        self.code.set_label(&mut restore)?;
        self.restore()?;
        for instruction in self.job.moved {
            self.code.add_instruction(*instruction)?;
        }
        if let Some(then) = self.job.then {
            self.code.jmp(then)?;
        }
        self.cold(&mut cold, record, restore)
    }

    /// Saves the registers that the trampoline uses.
    fn save(&mut self) -> Result<(), IcedError> {
        if !self.job.is_call {
            self.code.lea(rsp, qword_ptr(rsp - RED_ZONE))?;
        }
        for register in [rax, rdx, r10, r11] {
            self.code.push(register)?;
        }
        if !self.job.is_call {
            // Saving only these flags is cheaper than pushf and popf, and the trampoline does not change the other
            // flags.
            self.code.lahf()?;
            self.code.seto(gpr8::al)?;
            self.code.push(rax)?;
        }
        Ok(())
    }

    fn restore(&mut self) -> Result<(), IcedError> {
        if !self.job.is_call {
            self.code.pop(rax)?;
            // This sets the overflow flag when al is 1.
            self.code.add(gpr8::al, 0x7f)?;
            self.code.sahf()?;
        }
        for register in [r11, r10, rdx, rax] {
            self.code.pop(register)?;
        }
        if !self.job.is_call {
            self.code.lea(rsp, qword_ptr(rsp + RED_ZONE))?;
        }
        Ok(())
    }

    /// Returns how many bytes the stack pointer lies below its value at the site.
    fn depth(&self) -> i32 {
        let pushed = 8 * USED.len() as i32;
        pushed + if self.job.is_call { 8 } else { 8 + RED_ZONE }
    }

    /// Returns the place on the stack of a register that the trampoline saved; none if it did not save it.
    fn aside(&self, register: Register) -> Option<i32> {
        let at = USED.iter().rev().position(|used| *used == register)?;
        Some(8 * at as i32 + if self.job.is_call { 0 } else { 8 })
    }

    /// Writes the record: `r10` is the slot, `r11` the bytes written to the slot so far.
    fn record(&mut self) -> Result<(), IcedError> {
        self.code.and(gpr32::r11d, (RING_BYTES - 1) as i32)?;
        self.code.lea(r11, qword_ptr(r10 + r11 + HEAD_BYTES as i32))?;
        for (part, fetch) in self.job.parts.iter().zip(self.job.fetches) {
            self.fetch(fetch, part.read_bytes)?;
            let at = part.at as i32;
            match part.kept {
                Kept::Truth => {
                    self.code.test(rax, rax)?;
                    self.code.setne(byte_ptr(r11 + at))?;
                }
                Kept::Bytes(1) => self.code.mov(byte_ptr(r11 + at), gpr8::al)?,
                Kept::Bytes(2) => self.code.mov(word_ptr(r11 + at), gpr16::ax)?,
                Kept::Bytes(4) => self.code.mov(dword_ptr(r11 + at), gpr32::eax)?,
                Kept::Bytes(_) => self.code.mov(qword_ptr(r11 + at), rax)?,
            }
        }
        self.code.mov(byte_ptr(r11 + SITE_AT as i32), i32::from(self.job.site))?;
        self.code.rdtsc()?;
        self.code.shl(rdx, 32)?;
        self.code.or(rax, rdx)?;
        self.code.mov(qword_ptr(r11), rax)?;
        // The processor makes writes visible in their order. So a reader that sees the new count also sees the record.
        self.code.add(qword_ptr(r10), RECORD_BYTES as i32)
    }

    /// Fetches a value of this many bytes into `rax`; the bytes above it may hold anything.
    fn fetch(&mut self, fetch: &Fetch, bytes: usize) -> Result<(), IcedError> {
        match fetch {
            Fetch::Constant(number) => self.code.mov(gpr32::eax, *number as i32),
            Fetch::ZeroFlag => unreachable!("the plan refuses it"),
            Fetch::Register(Register::RSP) => self.code.lea(rax, qword_ptr(rsp + self.depth())),
            Fetch::Register(register) => match self.aside(*register) {
                Some(at) => self.code.mov(rax, qword_ptr(rsp + at)),
                None => self.code.mov(rax, whole(*register)),
            },
            Fetch::Memory(distance, inner) => match **inner {
                Fetch::Register(Register::RSP) => self.load(bytes, rsp + (self.depth() + *distance)),
                // If this register is the frame's pointer, it is never null.
                Fetch::Register(Register::RBP) => self.load(bytes, whole(Register::RBP) + *distance),
                ref inner => {
                    // Read nothing at null, as the kernel's probes do.
                    let mut null = self.code.create_label();
                    self.fetch(inner, 8)?;
                    self.code.test(rax, rax)?;
                    self.code.je(null)?;
                    self.load(bytes, rax + *distance)?;
                    self.code.set_label(&mut null)?;
                    // Emit nothing, but separate two labels: an instruction can have only one.
                    self.code.zero_bytes()
                }
            },
        }
    }

    fn load(&mut self, bytes: usize, place: AsmMemoryOperand) -> Result<(), IcedError> {
        match bytes {
            1 => self.code.movzx(gpr32::eax, byte_ptr(place)),
            2 => self.code.movzx(gpr32::eax, word_ptr(place)),
            4 => self.code.mov(gpr32::eax, dword_ptr(place)),
            _ => self.code.mov(rax, qword_ptr(place)),
        }
    }

    /// Calls the cold path for a slot with room. Without a slot the access is not recorded.
    fn cold(&mut self, cold: &mut CodeLabel, record: CodeLabel, restore: CodeLabel) -> Result<(), IcedError> {
        self.code.set_label(cold)?;
        let entry = MemoryOperand::with_base_displ(Register::RIP, self.job.cold.cast_signed());
        self.code.add_instruction(Instruction::with1(Code::Call_rm64, entry)?)?;
        self.code.test(r10, r10)?;
        self.code.je(restore)?;
        self.code.mov(r11, qword_ptr(r10))?;
        self.code.jmp(record)
    }
}

fn whole(register: Register) -> AsmRegister64 {
    use Register::{R8, R9, R12, R13, R14, RBP, RBX, RCX, RDI, RSI};
    match register {
        RBX => gpr64::rbx,
        RCX => gpr64::rcx,
        RSI => gpr64::rsi,
        RDI => gpr64::rdi,
        RBP => gpr64::rbp,
        R8 => gpr64::r8,
        R9 => gpr64::r9,
        R12 => gpr64::r12,
        R13 => gpr64::r13,
        R14 => gpr64::r14,
        // Other functions handle the saved registers and rsp.
        _ => gpr64::r15,
    }
}
