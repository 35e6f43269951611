//! Tests of running scripts: the statements that reach a client, the shares of transactions, and that they allocate no
//! memory.
//!
//! One test counts the allocations of the thread that runs it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bufferlab_workload::client::{Batch, Client, ClientError, Outcome, Value, Workload};
use bufferlab_workload::script::{Number, Script, ScriptWorkload};
use statrs::distribution::{ChiSquared, ContinuousCDF};

struct Counting;

thread_local! {
    /// The number of allocations of this thread only, because the test harness also allocates, at any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator with its arguments unchanged; counting has no effect on
// the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`, which the system's allocator has, too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the memory came from the system's allocator with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A client that remembers the last statements and their parameters, and fails when a test asks for it.
#[derive(Default)]
struct Recorder {
    seen: Vec<(u16, Vec<f64>)>,
    keep: bool,
    calls: u64,
    fail: Option<ClientError>,
}

impl Client for Recorder {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        panic!("a script begins its transactions itself")
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        panic!("a script ends its transactions itself")
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        Ok(())
    }

    fn execute(&mut self, batch: &mut Batch) -> Result<(), ClientError> {
        assert_eq!(batch.len(), 1, "statements go one by one");
        self.calls += 1;
        if let Some(error) = self.fail.take() {
            return Err(error);
        }
        if self.keep {
            let number = |index| match batch.param(0, index) {
                Value::Int(int) => int as f64,
                Value::Real(real) => real,
                other => panic!("{other:?} is no number"),
            };
            self.seen.push((batch.statement(0).0, (0..batch.param_count(0)).map(number).collect()));
        }
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        0
    }
}

fn workload(text: &str, seed: u64) -> ScriptWorkload {
    let script = Script::parse("my.sql", text, &[("rows".to_owned(), Number::Int(1_000))]).expect("it is right");
    ScriptWorkload::new(script, seed).expect("it has a transaction")
}

fn keeping() -> Recorder {
    Recorder { keep: true, ..Recorder::default() }
}

#[test]
fn statements_reach_the_client_in_order_with_the_values_of_their_moment() {
    let text = "-- setup\nCREATE TABLE t(a);\n-- transaction: a\nSELECT :rows;\n\\set x :transaction_number * 10\n\
                SELECT :x, :x;\n\\set x :x + 0.5\nSELECT :x;";
    let (mut workload, mut client) = (workload(text, 1), keeping());
    for _ in 0..2 {
        workload.plan();
        assert_eq!(workload.execute(&mut client), Ok(Outcome::Committed));
    }
    let expected: Vec<(u16, Vec<f64>)> = vec![
        (0, vec![1000.0]),
        (1, vec![10.0, 10.0]),
        (2, vec![10.5]),
        (0, vec![1000.0]),
        (1, vec![20.0, 20.0]),
        (2, vec![20.5]),
    ];
    assert_eq!(client.seen, expected);
    // The statements of the setup section have no id.
    let script = Script::parse("my.sql", text, &[("rows".to_owned(), Number::Int(1))]).expect("it is right");
    let catalogue = script.catalogue();
    let names: Vec<&str> = catalogue.iter().map(|(spec, _)| spec.name.as_ref()).collect();
    assert_eq!(names, ["my.sql:4", "my.sql:6", "my.sql:8"]);
}

#[test]
fn a_retry_executes_the_same_values_and_other_errors_name_the_line() {
    let (mut workload, mut client) = (workload("\\set x random(1, 1000000)\n\nSELECT :x;", 1), keeping());
    workload.plan();
    client.fail = Some(ClientError::Retry { message: "deadlock".into() });
    assert!(matches!(workload.execute(&mut client), Err(ClientError::Retry { .. })));
    workload.execute(&mut client).expect("the second attempt succeeds");
    workload.execute(&mut client).expect("as often as asked");
    assert_eq!(client.seen[0], client.seen[1]);

    client.fail = Some(ClientError::Statement { statement: "x".into(), message: "no such table: t".into() });
    let error = workload.execute(&mut client).expect_err("the engine refuses");
    assert!(
        matches!(&error, ClientError::Script { place, message, .. } if place == "my.sql:3" && message == "no such table: t"),
        "{error}"
    );
}

#[test]
fn a_variable_without_a_value_fails_the_transaction_and_executes_nothing() {
    let (mut workload, mut client) =
        (workload("SELECT 1;\n\\set x 1 / (:transaction_number - 2)\nSELECT :x", 1), keeping());
    workload.plan();
    workload.execute(&mut client).expect("1 / -1");
    workload.plan();
    let error = workload.execute(&mut client).expect_err("1 / 0");
    assert!(matches!(&error, ClientError::Script { place, .. } if place == "my.sql:2"), "{error}");
    assert_eq!(client.seen.len(), 2, "a statement of the failed transaction was executed");
}

#[test]
fn transactions_are_chosen_in_the_proportions_of_their_weights() {
    let text =
        "-- transaction: a weight=7\nSELECT 1;\n-- transaction: b\nSELECT 2;\n-- transaction: c weight=2\nSELECT 3;";
    let mut workload = workload(text, 5);
    let mut chosen = [0_u32; 3];
    for _ in 0..100_000 {
        chosen[workload.plan().transaction_type] += 1;
    }
    let statistic: f64 = chosen
        .iter()
        .zip([70_000.0, 10_000.0, 20_000.0])
        .map(|(&count, expected)| (f64::from(count) - expected).powi(2) / expected)
        .sum();
    assert!(ChiSquared::new(2.0).expect("two degrees").sf(statistic) > 0.001, "{chosen:?}");
}

#[test]
fn random_functions_have_their_distributions() {
    let text = "\\set u random(1, 10)\n\\set g random_gaussian(1, 10, 3)\n\\set e random_exponential(1, 10, 4)\nSELECT :u, :g, :e";
    let (mut workload, mut client) = (workload(text, 9), keeping());
    let draws = 50_000;
    for _ in 0..draws {
        workload.plan();
        workload.execute(&mut client).expect("it is right");
    }
    // The share of each tenth of the range: of the uniform distribution, of the normal distribution cut off at 3
    // standard deviations, and of e^-4x on [0, 1).
    let normal = |x: f64| 0.5 * statrs::function::erf::erfc(-x / 2f64.sqrt());
    let bell = |x: f64| (normal(6.0 * x - 3.0) - normal(-3.0)) / (normal(3.0) - normal(-3.0));
    let falling = |x: f64| (-4.0 * x).exp_m1() / (-4.0_f64).exp_m1();
    let shares: [&dyn Fn(f64) -> f64; 3] = [&|x| x, &bell, &falling];
    for (column, up_to) in shares.iter().enumerate() {
        let statistic: f64 = (0..10)
            .map(|tenth| {
                let expected = (up_to(f64::from(tenth + 1) / 10.0) - up_to(f64::from(tenth) / 10.0)) * f64::from(draws);
                let value = f64::from(tenth + 1);
                let count = client.seen.iter().filter(|(_, values)| values[column] == value).count() as f64;
                (count - expected).powi(2) / expected
            })
            .sum();
        assert!(ChiSquared::new(9.0).expect("nine degrees").sf(statistic) > 0.001, "column {column}: {statistic}");
    }
}

#[test]
fn equal_seeds_play_the_same_and_a_window_is_the_same_after_any_warm_up() {
    let text = "-- transaction: a\n\\set x random(1, 1000000)\nSELECT :x;\n-- transaction: b\nSELECT 2;";
    let play = |seed, warm_up: u32| {
        let (mut workload, mut client) = (workload(text, seed), keeping());
        (0..warm_up).for_each(|_| {
            workload.plan();
        });
        workload.begin_window();
        for _ in 0..100 {
            workload.plan();
            workload.execute(&mut client).expect("it is right");
        }
        client.seen
    };
    assert_eq!(play(1, 10), play(1, 10));
    assert_eq!(play(1, 10), play(1, 77));
    assert_ne!(play(1, 10), play(2, 10));
}

#[test]
fn nothing_is_allocated_after_the_warm_up() {
    let text = "-- transaction: a weight=3\n\\set x min(random_zipfian(1, :rows, 0.9), 7 * 3)\n\\set y random_gaussian(1, 9, 2.5) / 2.0\n\
                SELECT :x, :y, :x;\nBEGIN; SELECT :y; COMMIT;\n-- transaction: b\n\\set x random_exponential(1, 5, 2)\nSELECT :x;";
    let (mut workload, mut client) = (workload(text, 1), Recorder::default());
    let mut allocated = |transactions: u32| {
        let before = ALLOCATIONS.get();
        for _ in 0..transactions {
            workload.plan();
            workload.execute(&mut client).expect("it is right");
        }
        ALLOCATIONS.get() - before
    };
    assert!(allocated(200) > 0, "the counter counts nothing");
    assert_eq!(allocated(20_000), 0);
}
