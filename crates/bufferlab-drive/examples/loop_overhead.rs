//! Measures bufferlab's own cost per transaction in an open loop and per statement of a script, with a client that
//! answers at once. It also measures how exactly arrivals begin. Run it by `cargo run --release -p bufferlab-drive
//! --example loop_overhead`.
//!
//! Run it while no other program works on the machine. It uses no database.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use bufferlab_drive::arrivals::{Arrivals, OpenLoop, Spacing};
use bufferlab_drive::driver::Driver;
use bufferlab_drive::pacing::wake_on_time;
use bufferlab_drive::sample_rows::Merged;
use bufferlab_workload::client::{Batch, Client, ClientError, Outcome, Planned, StatementId, Value, Workload};
use bufferlab_workload::script::{Script, ScriptWorkload};

const TRANSACTIONS: u32 = 2_000_000;
const PACED: u32 = 5_000;
const REPETITIONS: usize = 5;

/// A client that reads every parameter, as a client that binds parameters would, and returns no rows.
#[derive(Default)]
struct Answered(u64);

impl Client for Answered {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        for call in 0..batch.len() {
            for index in 0..batch.param_count(call) {
                black_box(batch.param(call, index));
            }
            batch.begin_rows(call);
        }
        self.0 += 1;
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        self.0
    }
}

/// A workload of one statement with a constant parameter, whose cost is the base of the comparisons.
#[derive(Default)]
struct Replayed {
    batch: Batch,
}

impl Workload for Replayed {
    fn name(&self) -> &'static str {
        "replayed"
    }

    fn transaction_types(&self) -> Vec<String> {
        vec!["replayed".to_owned()]
    }

    fn terminals(&self) -> usize {
        1
    }

    fn plan(&mut self) -> Planned {
        Planned { transaction_type: 0, terminal: 0 }
    }

    fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError> {
        self.batch.clear();
        self.batch.call(StatementId(0), &[Value::Int(7)]);
        client.execute(&mut self.batch)?;
        Ok(Outcome::Committed)
    }
}

fn schedule(rate_per_s: f64, spacing: Spacing) -> Result<Arrivals, Box<dyn Error>> {
    let asked = OpenLoop { rate_per_s, spacing, patience_ns: u64::MAX, seed: 1 };
    Arrivals::new(&asked).ok_or_else(|| "the rate is out of range".into())
}

/// Returns the time of the fastest repetition, in nanoseconds per transaction, because disturbances only add time.
fn fastest_ns(mut make: impl FnMut() -> Result<Driver<Answered>, Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut fastest = f64::INFINITY;
    for _ in 0..REPETITIONS {
        let mut driver = make()?;
        driver.start_arrivals();
        let begun = Instant::now();
        for _ in 0..TRANSACTIONS {
            // At the highest rate every arrival is due already, so this loop never waits.
            while driver.due_in().is_some() {
                driver.wait();
            }
            driver.step()?;
        }
        fastest = fastest.min(begun.elapsed().as_nanos() as f64 / f64::from(TRANSACTIONS));
    }
    Ok(fastest)
}

fn script_ns(lines: &str) -> Result<f64, Box<dyn Error>> {
    let script = Script::parse("overhead.sql", lines, &[])?;
    fastest_ns(|| Ok(Driver::new(Answered::default(), Box::new(ScriptWorkload::new(script.clone(), 1)?))))
}

fn main() -> Result<(), Box<dyn Error>> {
    let closed = fastest_ns(|| Ok(Driver::new(Answered::default(), Box::<Replayed>::default())))?;
    println!("closed loop, one replayed statement: {closed:.0} ns per transaction");
    for spacing in [Spacing::Constant, Spacing::Poisson] {
        // No client keeps up with ten million transactions a second, so no driver waits: only the schedule and the
        // tallies add time.
        let open = fastest_ns(|| {
            Ok(Driver::new(Answered::default(), Box::<Replayed>::default()).open_loop(schedule(1e7, spacing)?))
        })?;
        println!("open loop ({spacing:?}): {:+.0} ns per transaction", open - closed);
    }
    let fixed = script_ns("SELECT :transaction_number;")?;
    println!("script, one statement without \\set: {:+.0} ns per transaction against the replayed one", fixed - closed);
    let statements = script_ns(&"SELECT :transaction_number;".repeat(11))?;
    println!("script, every further statement, the client's own cost included: {:.0} ns", (statements - fixed) / 10.0);
    for (name, expression) in [
        ("random", "random(1, 400000)"),
        ("random_zipfian", "random_zipfian(1, 400000, 0.9)"),
        ("random_gaussian", "random_gaussian(1, 400000, 3)"),
        ("random_exponential", "random_exponential(1, 400000, 3)"),
        ("a sum of ten numbers", "1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10"),
    ] {
        let with_set = script_ns(&format!("\\set x {expression}\nSELECT :x;"))?;
        println!("script, \\set with {name}: {:+.0} ns", with_set - fixed);
    }
    paced()
}

/// Prints how late arrivals begin if the driver waits for each of them. The delay comes from the sleep, the wake-up and
/// the spinning.
fn paced() -> Result<(), Box<dyn Error>> {
    wake_on_time();
    let mut driver =
        Driver::new(Answered::default(), Box::<Replayed>::default()).open_loop(schedule(1000.0, Spacing::Constant)?);
    driver.start_arrivals();
    for _ in 0..PACED {
        while driver.due_in().is_some() {
            driver.wait();
        }
        driver.step()?;
    }
    driver.hand_over(0, &mut Merged::new(driver.subjects(), 1, true));
    for (_, tally) in driver.tallies() {
        let us = |share| tally.queue.quantile_ns(share).unwrap_or(0) as f64 / 1000.0;
        println!(
            "at 1000/s arrivals begin late by {:.1} us (median), {:.1} us (99 %), {:.1} us (most); {} of {PACED} count as late",
            us(0.5),
            us(0.99),
            us(1.0),
            tally.counts.late
        );
    }
    Ok(())
}
