//! Measures how fast one core generates TPC-C's population. Run it by `cargo run --release --example population_speed
//! [warehouses]`.
//!
//! It only generates rows; a loader also reads their values and writes them to an engine.

use std::time::Instant;

use bufferlab_workload::tpcc::TpccConfig;
use bufferlab_workload::tpcc::population::{RowBlock, generate, partitions};
use bufferlab_workload::tpcc::schema::TableId;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let warehouses = std::env::args().nth(1).map_or(Ok(4), |argument| argument.parse())?;
    let config = TpccConfig::new(warehouses, 42, 0)?;
    let all = partitions(warehouses);
    let mut block = RowBlock::new();
    let (mut total_rows, mut total_s) = (0, 0.0);
    for table in TableId::ALL {
        let begin = Instant::now();
        let mut rows = 0;
        for partition in all.iter().filter(|partition| partition.table() == table) {
            generate(partition, &config, &mut block);
            rows += block.rows();
        }
        let seconds = begin.elapsed().as_secs_f64();
        println!("{:<12}{rows:>10} rows {:>12.0} rows/s", table.name(), rows as f64 / seconds);
        total_rows += rows;
        total_s += seconds;
    }
    println!("{:<12}{total_rows:>10} rows {:>12.0} rows/s", "all", total_rows as f64 / total_s);
    Ok(())
}
