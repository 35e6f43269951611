//! Checksums of generated rows: 64-bit FNV-1a over every value. So a test can compare a whole population with one
//! golden number.

use bufferlab_workload::client::Value;
use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{Partition, RowBlock, generate};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

fn add(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the checksum of one partition's rows.
pub fn partition(partition: &Partition, config: &TpccConfig, block: &mut RowBlock) -> u64 {
    generate(partition, config, block);
    rows(block)
}

/// Returns the checksum of a block's rows.
pub fn rows(block: &RowBlock) -> u64 {
    let cells = (0..block.rows()).flat_map(|row| (0..block.columns()).map(move |column| (row, column)));
    cells.fold(FNV_OFFSET, |hash, (row, column)| match block.value(row, column) {
        Value::Null => add(hash, &[0]),
        Value::Int(int) => add(add(hash, &[1]), &int.to_le_bytes()),
        Value::Real(real) => panic!("{real} is in a population"),
        Value::Text(text) => add(add(add(hash, &[2]), &(text.len() as u64).to_le_bytes()), text.as_bytes()),
    })
}

/// Returns the checksum of a sequence of checksums.
pub fn combine(checksums: impl IntoIterator<Item = u64>) -> u64 {
    checksums.into_iter().fold(FNV_OFFSET, |hash, checksum| add(hash, &checksum.to_le_bytes()))
}
