//! Expressions of a script's `\set` lines. The reader translates each to a short program for a stack machine.
//! Evaluating the program allocates no memory.
//!
//! The grammar is pgbench's arithmetic: numbers, `:variables`, + - * / %, parentheses and a few functions. The function
//! `choose` takes texts, too, and its list may be long. The length and the depth of expressions are limited, so no
//! script can exhaust the stack, or make an evaluation take long.

use std::sync::Arc;

use super::error::{Fault, closest, shown};
use super::number::{self, Number, RunError};
use crate::random::Random;
use crate::zipf::Zipf;

/// Most operations of one expression.
const MAX_OPS: usize = 1_000;
/// Most parentheses, function calls and signs within each other.
const MAX_DEPTH: usize = 100;

const FUNCTIONS: [(&str, Function, &str); 8] = [
    ("random", Function::Random, "random(low, high)"),
    ("random_zipfian", Function::Zipfian, "random_zipfian(low, high, exponent)"),
    ("random_gaussian", Function::Gaussian, "random_gaussian(low, high, parameter)"),
    ("random_exponential", Function::Exponential, "random_exponential(low, high, parameter)"),
    ("min", Function::Min, "min(a, b, ...)"),
    ("max", Function::Max, "max(a, b, ...)"),
    ("abs", Function::Abs, "abs(a)"),
    ("choose", Function::Choose, CHOOSE),
];

const CHOOSE: &str = "choose(place, a, b, ...)";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Random,
    Zipfian,
    Gaussian,
    Exponential,
    Min,
    Max,
    Abs,
    Choose,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Push(Number),
    Load(usize),
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Negate,
    Absolute,
    Smaller,
    Larger,
    Random,
    Gaussian,
    Exponential,
    /// A Zipf choice, with the place of its cached distribution.
    Zipfian(usize),
    /// A call of `choose`, with its values: `count` of the expression's `choices`, from the index `first` on.
    Choose {
        first: usize,
        count: u32,
    },
}

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expression {
    ops: Vec<Op>,
    /// The values in the expression's calls of `choose`, which the scripts of all connections share.
    choices: Arc<[Number]>,
}

/// Gives the parser of expressions the slots of a script's variables, and the places of its distributions and texts.
pub(super) trait Names {
    /// Returns the slot of a variable, or an error for an unknown variable.
    fn slot(&mut self, name: &str) -> Result<usize, Fault>;

    /// Returns the place in [`Memory::zipfs`] of one more Zipf distribution.
    fn zipf_place(&mut self) -> usize;

    /// Keeps a text of `choose` and returns its place.
    fn text_place(&mut self, text: String) -> u32;
}

/// The memory that all expressions of a script share, so that evaluating them allocates nothing.
#[derive(Debug)]
pub(super) struct Memory {
    pub slots: Vec<Number>,
    /// For each place, the Zipf distribution that was used last there: computing its constants costs a few logarithms,
    /// and they rarely change.
    pub zipfs: Vec<Option<Zipf>>,
    stack: Vec<Number>,
}

impl Memory {
    pub fn new(slots: Vec<Number>, zipf_places: usize) -> Self {
        Memory { slots, zipfs: vec![None; zipf_places], stack: Vec::with_capacity(MAX_OPS) }
    }
}

impl Expression {
    /// Reads an expression, which must be the whole of `text`.
    pub fn read(text: &str, names: &mut dyn Names) -> Result<Self, Fault> {
        let mut reader = Reader { text, at: 0, ops: Vec::new(), choices: Vec::new(), names };
        reader.sum(0)?;
        match reader.peek() {
            None => Ok(Expression { ops: reader.ops, choices: reader.choices.into() }),
            Some(';') => Err(Fault::new("a \\set line ends without ';'", "remove the ';'")),
            Some(_) => Err(reader.unexpected("an operator or the end of the line")),
        }
    }

    /// Returns true when the expression calls `choose`.
    pub fn chooses(&self) -> bool {
        !self.choices.is_empty()
    }

    /// Returns the value of the expression for the present values of variables.
    pub fn evaluate(&self, memory: &mut Memory, random: &mut Random) -> Result<Number, RunError> {
        let Memory { slots, zipfs, stack } = memory;
        stack.clear();
        for op in &self.ops {
            let value = match *op {
                Op::Push(number) => number,
                Op::Load(slot) => slots[slot],
                Op::Negate => number::negate(pop(stack))?,
                Op::Absolute => number::absolute(pop(stack))?,
                Op::Gaussian => {
                    let (low, high, parameter) = pop_range(stack, "random_gaussian")?;
                    gaussian(low, high, parameter, random)?
                }
                Op::Exponential => {
                    let (low, high, parameter) = pop_range(stack, "random_exponential")?;
                    exponential(low, high, parameter, random)?
                }
                Op::Zipfian(place) => {
                    let (low, high, exponent) = pop_range(stack, "random_zipfian")?;
                    zipfian(low, high, exponent, &mut zipfs[place], random)?
                }
                Op::Choose { first, count } => {
                    let place = pop(stack).whole("choose")?;
                    match u32::try_from(place) {
                        Ok(at) if (1..=count).contains(&at) => self.choices[first + at as usize - 1],
                        _ => return Err(RunError::NoSuchChoice { place, choices: count }),
                    }
                }
                binary => {
                    let (right, left) = (pop(stack), pop(stack));
                    match binary {
                        Op::Add => number::add(left, right)?,
                        Op::Subtract => number::subtract(left, right)?,
                        Op::Multiply => number::multiply(left, right)?,
                        Op::Divide => number::divide(left, right)?,
                        Op::Remainder => number::remainder(left, right)?,
                        Op::Smaller => number::smaller(left, right)?,
                        Op::Larger => number::larger(left, right)?,
                        _ => uniform(left.whole("random")?, right.whole("random")?, random)?,
                    }
                }
            };
            stack.push(value);
        }
        Ok(pop(stack))
    }
}

/// Takes the top of the stack. The reader emits every operator after its operands, so the stack is never empty here.
fn pop(stack: &mut Vec<Number>) -> Number {
    stack.pop().unwrap_or(Number::Int(0))
}

fn pop_range(stack: &mut Vec<Number>, function: &'static str) -> Result<(i64, i64, f64), RunError> {
    let parameter = pop(stack).real()?;
    let (high, low) = (pop(stack).whole(function)?, pop(stack).whole(function)?);
    Ok((low, high, parameter))
}

/// Returns the number of values above the lowest one of a range; an error if the range is empty.
fn span(function: &'static str, low: i64, high: i64) -> Result<u64, RunError> {
    if low > high { Err(RunError::EmptyRange { function, low, high }) } else { Ok(high.wrapping_sub(low) as u64) }
}

/// Returns the number that lies at `share`, from 0 to 1, of the way from `low` to `low + span`.
fn at_share(low: i64, span: u64, share: f64) -> Number {
    let above = (((span as f64) + 1.0) * share) as u64;
    Number::Int(low.wrapping_add(above.min(span) as i64))
}

fn uniform(low: i64, high: i64, random: &mut Random) -> Result<Number, RunError> {
    let span = span("random", low, high)?;
    let above = if span == u64::MAX { random.bits() } else { random.below(span + 1) };
    Ok(Number::Int(low.wrapping_add(above as i64)))
}

/// Draws a number of the range by Zipf's law: the lowest is the most frequent.
fn zipfian(
    low: i64,
    high: i64,
    exponent: f64,
    last: &mut Option<Zipf>,
    random: &mut Random,
) -> Result<Number, RunError> {
    let span = span("random_zipfian", low, high)?;
    if !(0.0..=1000.0).contains(&exponent) {
        let allowed = "between 0 and 1000";
        return Err(RunError::Parameter { function: "random_zipfian", value: exponent, allowed });
    }
    let ranks = span.saturating_add(1);
    let zipf = match last {
        Some(zipf) if zipf.ranks() == ranks && zipf.exponent() == exponent => zipf,
        _ => last.insert(Zipf::new(ranks, exponent)),
    };
    Ok(Number::Int(low.wrapping_add((zipf.draw(random) - 1) as i64)))
}

/// Draws from a normal distribution over the range, cut off at `parameter` standard deviations on both sides (Box and
/// Muller).
fn gaussian(low: i64, high: i64, parameter: f64, random: &mut Random) -> Result<Number, RunError> {
    let span = span("random_gaussian", low, high)?;
    if !(2.0..=1e6).contains(&parameter) {
        let allowed = "between 2 and 1000000";
        return Err(RunError::Parameter { function: "random_gaussian", value: parameter, allowed });
    }
    loop {
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        let deviate = radius * (std::f64::consts::TAU * random.unit()).cos();
        if (-parameter..parameter).contains(&deviate) {
            return Ok(at_share(low, span, (deviate + parameter) / (2.0 * parameter)));
        }
    }
}

/// Draws from an exponential distribution over the range: the density at the upper end is e^-parameter times that at
/// the lower end.
fn exponential(low: i64, high: i64, parameter: f64, random: &mut Random) -> Result<Number, RunError> {
    let span = span("random_exponential", low, high)?;
    if !(1e-6..=1e6).contains(&parameter) {
        let allowed = "between 0.000001 and 1000000";
        return Err(RunError::Parameter { function: "random_exponential", value: parameter, allowed });
    }
    let cut = -(-parameter).exp_m1();
    Ok(at_share(low, span, -(-random.unit() * cut).ln_1p() / parameter))
}

/// Returns the text whose bytes these hexadecimal digits give; none if they give no UTF-8.
fn text_of(digits: &str) -> Option<String> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let digit = |digit: u8| (digit as char).to_digit(16);
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? * 16 + digit(*low)?) as u8));
    String::from_utf8(bytes.collect::<Option<Vec<u8>>>()?).ok()
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    ops: Vec<Op>,
    choices: Vec<Number>,
    names: &'a mut dyn Names,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Returns the next character that is not blank.
    fn peek(&mut self) -> Option<char> {
        self.at = self.text.len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    fn accept(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn word(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let word = rest[..end].to_owned();
        self.at += end;
        word
    }

    fn unexpected(&mut self, wanted: &str) -> Fault {
        let found = match self.peek() {
            None => "the line ends".to_owned(),
            Some(_) => format!("\"{}\" stands", shown(self.rest())),
        };
        Fault::new(
            format!("{found} where {wanted} should be"),
            "an expression is made of numbers, :variables, + - * / %, ( ) and functions, like random(1, :rows)",
        )
    }

    fn emit(&mut self, op: Op) -> Result<(), Fault> {
        if self.ops.len() >= MAX_OPS {
            let what = format!("this expression has more than {MAX_OPS} parts");
            return Err(Fault::new(what, "use several \\set lines"));
        }
        self.ops.push(op);
        Ok(())
    }

    fn sum(&mut self, depth: usize) -> Result<(), Fault> {
        self.left_to_right(depth, &[('+', Op::Add), ('-', Op::Subtract)], Self::product)
    }

    fn product(&mut self, depth: usize) -> Result<(), Fault> {
        self.left_to_right(depth, &[('*', Op::Multiply), ('/', Op::Divide), ('%', Op::Remainder)], Self::signed)
    }

    /// Reads operands with signs between them, which are executed from left to right.
    fn left_to_right(
        &mut self,
        depth: usize,
        signs: &[(char, Op)],
        operand: fn(&mut Self, usize) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        operand(self, depth)?;
        while let Some((_, op)) = signs.iter().find(|(sign, _)| self.accept(*sign)) {
            operand(self, depth)?;
            self.emit(*op)?;
        }
        Ok(())
    }

    fn signed(&mut self, depth: usize) -> Result<(), Fault> {
        if depth >= MAX_DEPTH {
            let what = format!("this expression is more than {MAX_DEPTH} levels deep");
            return Err(Fault::new(what, "use several \\set lines"));
        }
        if self.accept('-') {
            self.signed(depth + 1)?;
            return self.emit(Op::Negate);
        }
        if self.accept('+') {
            return self.signed(depth + 1);
        }
        self.operand(depth)
    }

    fn operand(&mut self, depth: usize) -> Result<(), Fault> {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                self.sum(depth + 1)?;
                if self.accept(')') { Ok(()) } else { Err(self.unexpected("\")\"")) }
            }
            Some(':') => {
                self.at += 1;
                let name = self.word();
                if name.is_empty() {
                    return Err(self.unexpected("a variable's name"));
                }
                let slot = self.names.slot(&name)?;
                self.emit(Op::Load(slot))
            }
            Some(digit) if digit.is_ascii_digit() || digit == '.' => {
                let number = self.number()?;
                self.emit(Op::Push(number))
            }
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => self.call(depth),
            _ => Err(self.unexpected("a number, a :variable or a function")),
        }
    }

    fn number(&mut self) -> Result<Number, Fault> {
        let rest = self.rest();
        let digits = |from: usize| from + rest[from..].bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(0);
        let mut is_whole = true;
        if rest[end..].starts_with('.') {
            is_whole = false;
            end = digits(end + 1);
        }
        if rest[end..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[end + 1..].starts_with(['+', '-']));
            let exponent_end = digits(end + 1 + sign);
            if exponent_end > end + 1 + sign {
                is_whole = false;
                end = exponent_end;
            }
        }
        let text = &rest[..end];
        let number = if is_whole {
            text.parse().ok().map(Number::Int)
        } else {
            text.parse().ok().filter(|real: &f64| real.is_finite()).map(Number::Real)
        };
        let number = number.ok_or_else(|| {
            let what = format!("{} is not a number that fits", shown(text));
            Fault::new(what, "whole numbers go up to 9223372036854775807, decimals are written like 0.5 or 1e6")
        })?;
        self.at += end;
        Ok(number)
    }

    /// Reads the arguments of `choose` and the closing parenthesis: a place, then values.
    fn choose(&mut self, depth: usize) -> Result<(), Fault> {
        self.sum(depth + 1)?;
        let first = self.choices.len();
        while self.accept(',') {
            let choice = self.choice()?;
            self.choices.push(choice);
        }
        if !self.accept(')') {
            return Err(self.unexpected("\",\" or \")\""));
        }
        // The script's length bounds the number of values.
        let count = (self.choices.len() - first) as u32;
        if count == 0 {
            return Err(Fault::new("choose has no value to choose", format!("write {CHOOSE}")));
        }
        self.emit(Op::Choose { first, count })
    }

    /// Reads one value of `choose`: a number, a text in quotes, a text by its bytes in hexadecimal, or NULL.
    fn choice(&mut self) -> Result<Number, Fault> {
        if self.accept('-') {
            let number = self.number_next()?;
            return number::negate(number).map_err(|error| Fault::new(error.to_string(), error.hint()));
        }
        match self.peek() {
            Some('\'') => {
                let text = self.quoted()?;
                Ok(Number::Text(self.names.text_place(text)))
            }
            Some('x' | 'X') if self.rest()[1..].starts_with('\'') => {
                self.at += 1;
                let digits = self.quoted()?;
                let text = text_of(&digits).ok_or_else(|| {
                    let what = format!("x'{}' is not the hexadecimal of a UTF-8 text", shown(&digits));
                    Fault::new(what, "write two digits for each byte, as in x'6f6b'")
                })?;
                Ok(Number::Text(self.names.text_place(text)))
            }
            Some('n' | 'N') if self.word().eq_ignore_ascii_case("null") => Ok(Number::Null),
            _ => self.number_next(),
        }
    }

    fn number_next(&mut self) -> Result<Number, Fault> {
        match self.peek() {
            Some(digit) if digit.is_ascii_digit() || digit == '.' => self.number(),
            _ => Err(self.unexpected("a number, a text in quotes, or NULL")),
        }
    }

    /// Reads a text in single quotes, in which two quotes mean one.
    fn quoted(&mut self) -> Result<String, Fault> {
        let mut text = String::new();
        self.at += 1;
        loop {
            let rest = self.rest();
            let Some(end) = rest.find('\'') else {
                let what = "a quote has no end on its line";
                return Err(Fault::new(what, "close it, and write a text of several lines as x'...'"));
            };
            let is_doubled = rest[end + 1..].starts_with('\'');
            text.push_str(&rest[..end]);
            self.at += end + 1;
            if !is_doubled {
                return Ok(text);
            }
            text.push('\'');
            self.at += 1;
        }
    }

    fn call(&mut self, depth: usize) -> Result<(), Fault> {
        let name = self.word();
        if !self.accept('(') {
            let what = format!("{} is neither a number nor a variable", shown(&name));
            return Err(Fault::new(what, format!("a variable is written with a colon: :{}", shown(&name))));
        }
        let Some(&(_, function, form)) = FUNCTIONS.iter().find(|known| known.0 == name) else {
            let known: Vec<&str> = FUNCTIONS.iter().map(|known| known.2).collect();
            let hint = match closest(&name, FUNCTIONS.iter().map(|known| known.0)) {
                Some(meant) => format!("did you mean {meant}? Known: {}", known.join(", ")),
                None => format!("known: {}", known.join(", ")),
            };
            return Err(Fault::new(format!("there is no function {}", shown(&name)), hint));
        };
        if function == Function::Choose {
            return self.choose(depth);
        }
        let mut arguments = 0;
        loop {
            self.sum(depth + 1)?;
            arguments += 1;
            match function {
                Function::Min if arguments > 1 => self.emit(Op::Smaller)?,
                Function::Max if arguments > 1 => self.emit(Op::Larger)?,
                _ => {}
            }
            if !self.accept(',') {
                break;
            }
        }
        if !self.accept(')') {
            return Err(self.unexpected("\",\" or \")\""));
        }
        let (op, wanted) = match function {
            Function::Random => (Op::Random, 2),
            Function::Zipfian => (Op::Zipfian(self.names.zipf_place()), 3),
            Function::Gaussian => (Op::Gaussian, 3),
            Function::Exponential => (Op::Exponential, 3),
            Function::Abs => (Op::Absolute, 1),
            Function::Min | Function::Max | Function::Choose => return Ok(()),
        };
        if arguments != wanted {
            let what = format!("{name} takes {wanted} parameters, not {arguments}");
            return Err(Fault::new(what, format!("write {form}")));
        }
        self.emit(op)
    }
}
