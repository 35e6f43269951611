//! Parsers of the kernel's texts: pure functions from bytes to values, one file per text. They never panic and never
//! guess: an absent or unreadable value is None.
//!
//! The crate procfs (0.18) reads the same files and would save some 60 lines. But it lists processors without their
//! numbers, so that an offline processor changes the names of all processors after it. And a single line that it cannot
//! read, such as a mount whose path is not UTF-8, makes it lose the whole file.

pub mod cgroup;
pub mod diskstats;
pub mod io;
pub mod mountinfo;
pub mod process_stat;
pub mod stat;

/// Returns the lines of a text, without their line ends.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}

/// Returns the fields of a line between runs of blanks.
pub(crate) fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty())
}

/// Returns a decimal number of digits only; None also when it does not fit.
pub(crate) fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Returns the values of the wanted names in a text of `name value` lines (`name:` is accepted too), in the order
/// wanted.
pub(crate) fn named_numbers<const N: usize>(text: &[u8], names: [&str; N]) -> [Option<u64>; N] {
    let mut values = [None; N];
    for line in lines(text) {
        let mut fields = fields(line);
        let (Some(name), Some(value)) = (fields.next(), fields.next()) else {
            continue;
        };
        let name = name.strip_suffix(b":").unwrap_or(name);
        if let Some(index) = names.iter().position(|wanted| wanted.as_bytes() == name) {
            values[index] = number(value);
        }
    }
    values
}
