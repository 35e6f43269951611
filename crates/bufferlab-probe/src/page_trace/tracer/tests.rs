//! How large the rings of a trace are.

use super::*;

#[test]
fn rings_are_powers_of_two_and_stay_below_their_limit_together() {
    assert_eq!([1, 2, 32, 33, 48, 64, 100].map(|rings| ring_bytes(rings) >> 20), [16, 16, 16, 8, 8, 8, 4]);
    for rings in 1..=512 {
        assert!(ring_bytes(rings).is_power_of_two() && rings * ring_bytes(rings) <= ALL_RINGS_BYTES);
    }
}
