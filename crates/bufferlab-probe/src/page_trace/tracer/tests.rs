//! Traces of this test program by the kernel: what rings that are too small lose, and who is asked how often.

use super::super::probed::{Probed, call, is_probed};
use super::*;

/// Returns a reader of this program's calls, with rings of that many bytes.
fn reader(settings: &Settings, bytes: usize) -> (Definition, Reader) {
    let definition = Definition::make(settings).expect("it can be defined");
    let family = Family::of(std::process::id());
    let reader = Reader::with_rings(&definition, settings, family, |_| bytes).expect("it can be switched on");
    (definition, reader)
}

#[test]
fn calls_whose_records_found_no_room_at_the_end_are_lost_and_counted() {
    let Some(probed) = Probed::new() else { return };
    let (definition, mut reader) = reader(&probed.settings("spool"), 1 << 16);
    assert!(is_probed());
    call(5000);
    reader.close();
    assert!(!is_probed());
    drop(definition);
    assert!(reader.records > 500 && reader.lost > 500, "{} and {}", reader.records, reader.lost);
    assert_eq!((reader.records + reader.lost, reader.strangers), (5000, 0));
    let (records, told) = (reader.records, reader.finish());
    assert_eq!(told.spooled.events.get("get"), Some(&records));
    assert!(told.lost > 500 && told.spooled.problem.is_none());
}

#[test]
fn whether_it_goes_on_is_asked_while_a_ring_is_full() {
    let Some(probed) = Probed::new() else { return };
    let (_definition, mut reader) = reader(&probed.settings("spool"), 4 << 20);
    let calls = 5 * RECORDS_AT_ONCE as u64;
    call(calls);
    let mut seen = Vec::new();
    reader.read_while(|reader| {
        seen.push(reader.records);
        reader.records < calls
    });
    assert!(seen.windows(2).all(|two| two[1] - two[0] <= RECORDS_AT_ONCE as u64), "{seen:?}");
    reader.close();
    assert_eq!((reader.records, reader.lost), (calls, 0));
}

#[test]
fn rings_are_powers_of_two_and_stay_below_their_limit_together() {
    assert_eq!([1, 2, 32, 33, 48, 64, 100].map(|rings| ring_bytes(rings) >> 20), [16, 16, 16, 8, 8, 8, 4]);
    for rings in 1..=512 {
        assert!(ring_bytes(rings).is_power_of_two() && rings * ring_bytes(rings) <= ALL_RINGS_BYTES);
    }
}
