//! A warm-up's gate for tests of generated runs.

use bufferlab_generate::run::Gate;

/// A gate that ends the warm-up at once.
pub struct Open;

impl Gate for Open {
    fn prefill(&mut self, _misses: u64) {}

    fn is_warm(&mut self, _misses: u64) -> bool {
        true
    }

    fn end(&self) -> Option<&'static str> {
        Some("open")
    }
}
