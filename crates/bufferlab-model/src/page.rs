//! Sizes of pages.

use std::fmt;

/// Size of a database page in bytes: a power of two from 512 to 65,536.
///
/// The bounds are SQLite's; InnoDB (4-64 KiB) and PostgreSQL (1-32 KiB) lie within them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageSize(u32);

impl PageSize {
    /// Bytes of the smallest page that any engine here supports.
    pub const MIN_BYTES: u64 = 512;
    /// Bytes of the largest page that any engine here supports.
    pub const MAX_BYTES: u64 = 65_536;

    /// Makes a page size, if `bytes` is one.
    ///
    /// ```
    /// use bufferlab_model::PageSize;
    /// assert_eq!(PageSize::new(4096).map(PageSize::bytes), Some(4096));
    /// assert_eq!(PageSize::new(5000), None);
    /// ```
    pub fn new(bytes: u64) -> Option<Self> {
        let fits = (Self::MIN_BYTES..=Self::MAX_BYTES).contains(&bytes) && bytes.is_power_of_two();
        fits.then_some(PageSize(bytes as u32))
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0
    }

    /// Returns the number of whole pages that fit into `bytes`.
    #[must_use]
    pub fn frames_in(self, bytes: u64) -> u64 {
        bytes / u64::from(self.0)
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_powers_of_two_between_the_bounds_are_page_sizes() {
        let accepted: Vec<u64> = (0..200_000).filter(|&b| PageSize::new(b).is_some()).collect();
        assert_eq!(accepted, [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]);
    }

    #[test]
    fn frames_are_rounded_down() {
        let page = PageSize::new(4096).expect("4096 is a page size");
        assert_eq!(page.frames_in(4095), 0);
        assert_eq!(page.frames_in(10_000), 2);
    }
}
