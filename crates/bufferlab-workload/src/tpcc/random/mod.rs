//! The random values of TPC-C: NURand and its constants (2.1.6), last names, texts and zip codes (4.3.2).
//!
//! Draws come from [`crate::random::Random`]; this module keeps no state.

mod nurand;
mod skew;
mod text;

pub use crate::random::Random;
pub use nurand::{NuRand, NuRandConstants, is_valid_delta};
pub use skew::{Choices, Skew};
pub use text::{ExactShare, LastName, TextBuffer, last_name};
