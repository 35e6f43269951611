//! Measures the reader's processor time for an access, at the rate of TPC-C on two processors. By default it runs for a
//! second, which only checks that no record is lost; docs/page-trace.md has the command of the measurement.

use std::cell::Cell;
use std::time::{Duration, Instant};

use bufferlab_probe::page_trace::inside::Inside;

use super::{Trace, each_thread, own_program, settings, touch};

/// The environment variable with the seconds of each repetition. The next constant is the number of repetitions.
const SECONDS: &str = "BUFFERLAB_TEST_READER_SECONDS";
const REPETITIONS: usize = 5;
const CLIENTS: u32 = 8;
/// Page accesses of a transaction on MySQL 5.7. One client does 47 transactions a second (docs/page-trace.md, "By
/// default").
const ACCESSES: u32 = 230;
const PERIOD: Duration = Duration::from_micros(21_300);
const PAGES: u32 = 3000;
/// The size of the memory from which the simulated server loads words, one after another, as its own work between two
/// accesses.
const WORDS: usize = 4 << 20;
const LOADS: usize = 16;

fn seconds() -> Option<u32> {
    std::env::var(SECONDS).ok()?.parse().ok()
}

fn transactions() -> u32 {
    (Duration::from_secs(seconds().unwrap_or(1).into()).as_micros() / PERIOD.as_micros()) as u32
}

/// Clients that each make a transaction in a period, and touch tables and pages at random.
pub fn clients() {
    let words: Vec<u32> = (0..WORDS as u32).map(|at| at.wrapping_mul(2_654_435_761) % WORDS as u32).collect();
    let begun = Instant::now();
    each_thread(CLIENTS, |number| {
        let state = Cell::new(0x9e37_79b9_u32.wrapping_mul(number + 1));
        let random = |below: u32| {
            state.set(state.get() ^ state.get() << 13);
            state.set(state.get() ^ state.get() >> 17);
            state.set(state.get() ^ state.get() << 5);
            state.get() % below
        };
        for transaction in 1..=transactions() {
            let mut at = random(WORDS as u32);
            for _ in 0..ACCESSES {
                touch(20 + random(12), random(PAGES));
                at = (0..LOADS).fold(at, |at, _| words[at as usize] ^ (at & 7));
            }
            std::hint::black_box(at);
            std::thread::sleep((PERIOD * transaction).saturating_sub(begun.elapsed()));
        }
    });
}

fn trace(fields: &[(&str, &str)]) -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = settings(&own_program(), &folder.path().join("spool"));
    settings.fields = fields.iter().map(|(field, _)| (*field).to_owned()).collect();
    settings.sites[0].fetch = fields.iter().map(|(_, fetch)| (*fetch).to_owned()).collect();
    let mut recorder = Inside::arm(settings).expect("it can be recorded");
    let preload = recorder.begin(folder.path()).expect("the folder serves");
    Trace { folder, recorder, preload }
}

#[test]
fn the_reader_keeps_up_with_clients_at_the_rate_of_tpc_c() {
    let innodb = [("space:u32", "%di"), ("page:u32", "%si"), ("mode:u8", "\\10"), ("latch:u8", "\\1")];
    let postgres = [
        ("tablespace:u32", "\\1663"),
        ("database:u32", "\\5"),
        ("relation:u32", "%di"),
        ("fork:u32", "\\2"),
        ("page:u32", "%si"),
        ("held:u64", "%bp"),
        ("strategy:u64", "\\1"),
        ("strategy_type:u32", "\\3"),
    ];
    for (name, fields) in [("InnoDB", &innodb[..]), ("PostgreSQL", &postgres[..])] {
        let mut all: Vec<f64> = Vec::new();
        for _ in 0..seconds().map_or(1, |_| REPETITIONS) {
            let trace = trace(fields);
            trace.run("clients");
            let (told, records) = trace.end();
            let accesses = (CLIENTS * transactions() * ACCESSES) as usize;
            assert_eq!((told.lost, told.spooled.problem, records.len()), (0, None, accesses));
            all.push(told.reader_cpu_ns as f64 / accesses as f64);
        }
        all.sort_by(f64::total_cmp);
        let [least, median, most] = [0, all.len() / 2, all.len() - 1].map(|at| all[at]);
        eprintln!("records of {name}: the reader needs {median:.0} ns an access ({least:.0} to {most:.0})");
    }
}
