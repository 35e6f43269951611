//! The part of a page trace that runs inside the server: a shared library that the loader maps before the program.
//!
//! Before `main`, it copies trampolines next to the program's code. A trampoline is code that records an access; the
//! worker process generates it. Then the library makes the program jump to the trampolines at the sites that
//! page_sites.toml lists ([`install`]). From then on only the trampolines run, and [`slow`] when a thread has no ring
//! or its ring is full. This code decodes no instructions, allocates no memory and takes no lock.
//!
//! The same sources are also compiled as an ordinary library, from which the reader has the layout of shared memory
//! ([`layout`]).

#![cfg_attr(not(test), no_std)]

pub mod layout;

#[cfg(target_arch = "x86_64")]
pub mod install;
#[cfg(all(target_arch = "x86_64", feature = "preload"))]
mod preload;
#[cfg(target_arch = "x86_64")]
pub mod slow;
#[cfg(target_arch = "x86_64")]
pub mod sys;
