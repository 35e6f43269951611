//! /proc/self/io and /proc/self/statm: bytes this process moved to and from storage, and its resident pages. Layout:
//! proc(5). read_bytes counts bytes read from the block layer, without hits in the page cache. rchar counts the bytes
//! of read calls, including hits in the page cache, and wchar the bytes of write calls. `write_bytes` counts all of a
//! folio of the page cache as soon as a byte of it changes (mm/page-writeback.c, `folio_account_dirtied`).

use super::{fields, named_numbers, number};

/// Returns bytes of /proc/PID/io: those read from and written to the storage layer, and those of read and write calls.
pub fn storage_bytes(text: &[u8]) -> [Option<u64>; 4] {
    named_numbers(text, ["read_bytes", "write_bytes", "rchar", "wchar"])
}

/// Returns the resident pages from /proc/PID/statm, its second field.
pub fn resident_pages(text: &[u8]) -> Option<u64> {
    number(fields(text).nth(1)?)
}

/// Returns the resident pages that are shared with others, from /proc/PID/statm, its third field.
pub fn shared_pages(text: &[u8]) -> Option<u64> {
    number(fields(text).nth(2)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const IO: &[u8] = include_bytes!("../../testdata/self-io-6.18");

    #[test]
    fn cancelled_writes_and_read_calls_are_not_mistaken_for_storage_bytes() {
        let [read, written, ..] = storage_bytes(IO);
        assert_eq!((read, written), (Some(67_108_864), Some(8_192)));
    }

    #[test]
    fn resident_pages_are_the_second_field_of_statm() {
        assert_eq!(resident_pages(b"765 381 350 5 0 120 0\n"), Some(381));
        assert_eq!(resident_pages(b"765"), None);
        assert_eq!(shared_pages(b"765 381 350 5 0 120 0\n"), Some(350));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            storage_bytes(&text);
            resident_pages(&text);
        }
    }
}
