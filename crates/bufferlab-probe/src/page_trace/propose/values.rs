//! Finds facts about a function's values that hold at an instruction on every path to it.
//!
//! It follows facts forwards through a function, over all paths: that a place still holds an argument, and that a
//! register holds an address from which the code itself has read. A site that reads at such an address reads the
//! server's own memory.

use std::collections::BTreeSet;

use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::program::{Function, Program, is_call, short};

/// A place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// On the stack, at this offset from the frame's address in `%bp`.
    Slot(i64),
    Register(Register),
}

/// A fact about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    /// The value is the argument that this register holds at the function's entry.
    Argument(Register),
    /// The value is an address from which the code has read.
    Address,
    /// The value is an address, and the code has read the field at the offset of the state in a PostgreSQL buffer's
    /// description.
    Buffer,
}

/// The place of the state in a buffer's description (`BufferDesc` in storage/buf_internals.h): after tag and number.
const STATE_AT: u64 = 24;

type Facts = BTreeSet<(Place, Fact)>;

/// The facts at each instruction of a function.
pub struct Values {
    code: Vec<Instruction>,
    before: Vec<Facts>,
}

const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
/// The registers whose values a called function preserves (System V ABI for AMD64, 3.2.1).
const KEPT: [Register; 6] = [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

impl Values {
    /// Follows the values of a function. `entered` are addresses to which other functions jump.
    pub fn of(program: &Program, function: &Function, entered: &BTreeSet<u64>) -> Self {
        let code = program.instructions(function);
        let mut before: Vec<Option<Facts>> = vec![None; code.len()];
        let index = |address: u64| code.binary_search_by_key(&address, Instruction::ip).ok();
        let mut waiting = Vec::new();
        if !code.is_empty() {
            let arguments = ARGUMENTS.map(|one| (Place::Register(one), Fact::Argument(one)));
            before[0] = Some(Facts::from(arguments));
            waiting.push(0);
            let entered = entered.range(function.start + 1..function.end).copied();
            for at in entered.chain(by_table(&code)).filter_map(index) {
                before[at] = Some(Facts::new());
                waiting.push(at);
            }
        }
        let mut infos = InstructionInfoFactory::new();
        while let Some(at) = waiting.pop() {
            let one = &code[at];
            let after = changed(one, before[at].clone().unwrap_or_default(), &mut infos);
            let target = jumps(one).then(|| index(one.near_branch_target())).flatten();
            for next in goes_on(one).then_some(at + 1).into_iter().chain(target).filter(|next| *next < code.len()) {
                let met = before[next].as_ref().map_or_else(|| after.clone(), |old| old & &after);
                if before[next].as_ref() != Some(&met) {
                    before[next] = Some(met);
                    waiting.push(next);
                }
            }
        }
        Self { code, before: before.into_iter().map(Option::unwrap_or_default).collect() }
    }

    /// Returns the instructions of the function.
    pub fn code(&self) -> &[Instruction] {
        &self.code
    }

    /// Returns where an argument is at an instruction: in a register, or on the stack.
    pub fn argument(&self, address: u64, register: Register) -> Option<String> {
        let found = self.at(address).filter(|(_, fact)| *fact == Fact::Argument(register)).map(|(place, _)| *place);
        found.max().map(|place| match place {
            Place::Register(register) => short(register),
            Place::Slot(distance) => format!("{distance:+}(%bp)"),
        })
    }

    /// Returns the registers that hold an address at an instruction; first those whose values calls preserve.
    pub fn addresses(&self, address: u64) -> Vec<String> {
        sorted(self.registers(address, Fact::Address).filter(|register| *register != Register::RBP).collect())
    }

    /// Returns the registers that hold the address of a PostgreSQL buffer, whose state the code has read; first those
    /// whose values calls preserve.
    pub fn buffers(&self, address: u64) -> Vec<String> {
        sorted(self.registers(address, Fact::Buffer).collect())
    }

    fn registers(&self, address: u64, fact: Fact) -> impl Iterator<Item = Register> {
        self.at(address).filter_map(move |(place, found)| match place {
            Place::Register(register) if *found == fact => Some(*register),
            _ => None,
        })
    }

    fn at(&self, address: u64) -> impl Iterator<Item = &(Place, Fact)> {
        let found = self.code.binary_search_by_key(&address, Instruction::ip).ok();
        found.into_iter().flat_map(|index| &self.before[index])
    }
}

/// Returns the names of registers, first of those whose values calls preserve.
fn sorted(mut registers: Vec<Register>) -> Vec<String> {
    registers.sort_by_key(|register| (!KEPT.contains(register), *register));
    registers.into_iter().map(short).collect()
}

/// Returns the possible targets of jumps through a table: all instructions, except padding, to which no other code
/// leads. Empty if the function has no such jump.
fn by_table(code: &[Instruction]) -> Vec<u64> {
    if code.iter().all(|one| one.flow_control() != FlowControl::IndirectBranch) {
        return Vec::new();
    }
    let targets: BTreeSet<u64> = code.iter().filter(|one| jumps(one)).map(Instruction::near_branch_target).collect();
    let (mut found, mut is_reached) = (Vec::new(), true);
    for one in code.iter().filter(|one| !matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)) {
        if !is_reached && !targets.contains(&one.ip()) {
            found.push(one.ip());
        }
        is_reached = goes_on(one);
    }
    found
}

pub(super) fn goes_on(one: &Instruction) -> bool {
    use FlowControl::{Exception, IndirectBranch, Return, UnconditionalBranch};
    !matches!(one.flow_control(), UnconditionalBranch | IndirectBranch | Return | Exception)
}

pub(super) fn jumps(one: &Instruction) -> bool {
    matches!(one.flow_control(), FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch)
}

/// Returns the facts after an instruction, from those before it.
fn changed(one: &Instruction, mut facts: Facts, infos: &mut InstructionInfoFactory) -> Facts {
    if is_call(one) || one.is_call_near_indirect() {
        facts.retain(|(place, _)| match place {
            Place::Register(register) => KEPT.contains(register),
            Place::Slot(_) => true,
        });
        return facts;
    }
    let moved: Vec<Fact> = match (one.mnemonic(), place_of(one, 1)) {
        (Mnemonic::Mov, Some(from)) => {
            facts.iter().filter(|(place, _)| *place == from).map(|(_, fact)| *fact).collect()
        }
        _ => Vec::new(),
    };
    let read = one.memory_base().full_register();
    let names_memory = (0..one.op_count()).any(|operand| one.op_kind(operand) == OpKind::Memory);
    let reads = names_memory && !matches!(one.mnemonic(), Mnemonic::Lea | Mnemonic::Nop) && read.is_gpr64();
    if reads && !matches!(read, Register::RSP | Register::RBP) {
        facts.insert((Place::Register(read), Fact::Address));
    }
    // `%bp` may hold a buffer, too: the functions that change pages take no argument from the stack.
    let is_alone = one.memory_index() == Register::None && one.memory_displacement64() == STATE_AT;
    if reads && is_alone && read != Register::RSP {
        facts.insert((Place::Register(read), Fact::Buffer));
    }
    let writes = |access: OpAccess| {
        matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
    };
    for used in infos.info(one).used_registers().iter().filter(|used| writes(used.access())) {
        let written = used.register().full_register();
        facts.retain(|(place, _)| match place {
            Place::Register(register) => *register != written,
            Place::Slot(_) => written != Register::RBP,
        });
    }
    if let Some(to) =
        place_of(one, 0).filter(|_| !matches!(one.mnemonic(), Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push))
    {
        if let Place::Slot(_) = to {
            facts.retain(|(place, _)| *place != to);
        }
        facts.extend(moved.into_iter().map(|fact| (to, fact)));
    }
    facts
}

/// Returns the place that an operand of 64 bits names.
fn place_of(one: &Instruction, operand: u32) -> Option<Place> {
    match one.op_kind(operand.min(one.op_count().saturating_sub(1))) {
        OpKind::Register if operand < one.op_count() => {
            let register = one.op_register(operand);
            (register == register.full_register()).then_some(Place::Register(register))
        }
        OpKind::Memory if one.memory_base() == Register::RBP && one.memory_index() == Register::None => {
            Some(Place::Slot(one.memory_displacement64().cast_signed()))
        }
        _ => None,
    }
}

/// Returns the addresses inside functions to which other functions jump: compilers rarely move a part of a function
/// away.
pub fn entered(program: &Program) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    for function in &program.functions {
        let own = function.start..function.end;
        let targets = program.instructions(function).into_iter().filter(jumps).map(|one| one.near_branch_target());
        found.extend(targets.filter(|target| !own.contains(target)));
    }
    found
}
