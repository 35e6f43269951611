//! Measures the TPC-C driver's own cost per transaction. Run it by `cargo run --release --example driver_overhead`.
//!
//! The client answers from constants. The second figure includes this client's time, so it is an upper bound.

#[path = "../tests/support/canned.rs"]
mod canned;

use std::time::Instant;

use bufferlab_workload::client::Workload;
use bufferlab_workload::tpcc::{TpccConfig, TpccDriver};

const TRANSACTIONS: u32 = 460_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let config = TpccConfig::new(10, 42, 1)?;
    let mut client = canned::Canned::default();

    let mut driver = TpccDriver::new(config, 0, 1)?;
    let begin = Instant::now();
    for _ in 0..TRANSACTIONS {
        driver.plan();
    }
    report("plan", begin);

    let mut driver = TpccDriver::new(config, 0, 1)?;
    let begin = Instant::now();
    for _ in 0..TRANSACTIONS {
        driver.plan();
        driver.execute(&mut client)?;
    }
    report("plan and execute, with the canned client", begin);
    println!("{:?}", client.seen);
    Ok(())
}

fn report(what: &str, begin: Instant) {
    let ns = begin.elapsed().as_nanos() as f64 / f64::from(TRANSACTIONS);
    println!("{what}: {ns:.0} ns per transaction");
}
