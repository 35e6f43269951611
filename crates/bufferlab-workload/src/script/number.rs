//! The values of a script's variables. Whole numbers of 64 bits and decimals have an arithmetic that reports every
//! overflow. The texts and NULLs of `choose` have no arithmetic.
//!
//! As in pgbench, an operation on whole numbers gives a whole number (7 / 2 is 3), and one with a decimal gives a
//! decimal.

use std::fmt;

use serde::Deserialize;

use crate::client::Value;

/// The value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// A whole number.
    Int(i64),
    /// A decimal, always finite.
    Real(f64),
    /// A text of `choose`, as its index in the script's texts.
    #[serde(skip)]
    Text(u32),
    /// SQL NULL, from `choose`.
    #[serde(skip)]
    Null,
}

/// The reason why an expression has no value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum RunError {
    DivisionByZero,
    Overflow,
    EmptyRange { function: &'static str, low: i64, high: i64 },
    NotWhole { function: &'static str, value: f64 },
    Parameter { function: &'static str, value: f64, allowed: &'static str },
    NoSuchChoice { place: i64, choices: u32 },
    NotNumber,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::DivisionByZero => write!(f, "division by zero"),
            RunError::Overflow => write!(f, "the result is too large for a number"),
            RunError::EmptyRange { function, low, high } => {
                write!(f, "{function}({low}, {high}) has no value to draw: the first bound is above the second")
            }
            RunError::NotWhole { function, value } => {
                write!(f, "{function} takes whole numbers, and {value} is not whole")
            }
            RunError::Parameter { function, value, allowed } => {
                write!(f, "the last parameter of {function} is {value}; it must be {allowed}")
            }
            RunError::NoSuchChoice { place, choices } => {
                write!(f, "choose has {choices} values, and none at place {place}")
            }
            RunError::NotNumber => write!(f, "a text or NULL of choose stands where a number should be"),
        }
    }
}

impl RunError {
    pub fn hint(&self) -> &'static str {
        match self {
            RunError::DivisionByZero => "keep the divisor from becoming zero, for example with max(1, ...)",
            RunError::Overflow => "whole numbers go up to 9223372036854775807; write 1.0 * ... to count in decimals",
            RunError::EmptyRange { .. } => "write the smaller bound first, and check the variables in it",
            RunError::NotWhole { .. } => "a division of whole numbers stays whole; remove the decimal point",
            RunError::Parameter { .. } => "docs/scripts.md describes the random functions and their parameters",
            RunError::NoSuchChoice { .. } => "places count from 1: draw one with random(1, N) for N values",
            RunError::NotNumber => "use the variable in statements alone",
        }
    }
}

impl Number {
    pub(super) fn real(self) -> Result<f64, RunError> {
        match self {
            Number::Int(int) => Ok(int as f64),
            Number::Real(real) => Ok(real),
            Number::Text(_) | Number::Null => Err(RunError::NotNumber),
        }
    }

    pub(super) fn whole(self, function: &'static str) -> Result<i64, RunError> {
        match self {
            Number::Int(int) => Ok(int),
            Number::Real(value) => Err(RunError::NotWhole { function, value }),
            Number::Text(_) | Number::Null => Err(RunError::NotNumber),
        }
    }

    /// Returns the value as a statement's parameter. `texts` are the script's texts of `choose`.
    pub(super) fn value(self, texts: &[Box<str>]) -> Value<'_> {
        match self {
            Number::Int(int) => Value::Int(int),
            Number::Real(real) => Value::Real(real),
            Number::Text(place) => texts.get(place as usize).map_or(Value::Null, |text| Value::Text(text)),
            Number::Null => Value::Null,
        }
    }
}

/// Returns a finite decimal as a number, or the error of an overflow.
fn finite(real: f64) -> Result<Number, RunError> {
    if real.is_finite() { Ok(Number::Real(real)) } else { Err(RunError::Overflow) }
}

/// Combines two numbers: the result is whole when both are whole, and decimal otherwise.
fn combine(
    left: Number,
    right: Number,
    whole: impl FnOnce(i64, i64) -> Option<i64>,
    real: impl FnOnce(f64, f64) -> f64,
) -> Result<Number, RunError> {
    match (left, right) {
        (Number::Int(left), Number::Int(right)) => whole(left, right).map(Number::Int).ok_or(RunError::Overflow),
        _ => finite(real(left.real()?, right.real()?)),
    }
}

pub(super) fn add(left: Number, right: Number) -> Result<Number, RunError> {
    combine(left, right, i64::checked_add, |left, right| left + right)
}

pub(super) fn subtract(left: Number, right: Number) -> Result<Number, RunError> {
    combine(left, right, i64::checked_sub, |left, right| left - right)
}

pub(super) fn multiply(left: Number, right: Number) -> Result<Number, RunError> {
    combine(left, right, i64::checked_mul, |left, right| left * right)
}

pub(super) fn divide(left: Number, right: Number) -> Result<Number, RunError> {
    if right.real()? == 0.0 {
        return Err(RunError::DivisionByZero);
    }
    combine(left, right, i64::checked_div, |left, right| left / right)
}

pub(super) fn remainder(left: Number, right: Number) -> Result<Number, RunError> {
    let (left, right) = (left.whole("%")?, right.whole("%")?);
    if right == 0 {
        return Err(RunError::DivisionByZero);
    }
    // The processor cannot compute the remainder of the smallest number by -1, which is 0.
    Ok(Number::Int(left.checked_rem(right).unwrap_or(0)))
}

pub(super) fn negate(number: Number) -> Result<Number, RunError> {
    subtract(Number::Int(0), number)
}

pub(super) fn absolute(number: Number) -> Result<Number, RunError> {
    match number {
        Number::Int(int) => int.checked_abs().map(Number::Int).ok_or(RunError::Overflow),
        Number::Real(real) => Ok(Number::Real(real.abs())),
        Number::Text(_) | Number::Null => Err(RunError::NotNumber),
    }
}

pub(super) fn smaller(left: Number, right: Number) -> Result<Number, RunError> {
    combine(left, right, |left, right| Some(left.min(right)), f64::min)
}

pub(super) fn larger(left: Number, right: Number) -> Result<Number, RunError> {
    combine(left, right, |left, right| Some(left.max(right)), f64::max)
}
