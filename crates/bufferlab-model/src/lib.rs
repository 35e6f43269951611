//! The field's terms as types: sizes of pages, and accesses to pages in the form in which they are recorded, stored and
//! replayed.
//!
//! This crate has no I/O, so that every other crate may use it.

mod page;
pub mod trace;

pub use page::PageSize;
