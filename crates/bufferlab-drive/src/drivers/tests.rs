//! Tests of several drivers at once: exact totals, edges at which no driver moves, and the end when one driver fails.

use std::sync::atomic::AtomicUsize;

use bufferlab_workload::client::{Batch, Outcome, Planned, Workload};

use super::*;
use crate::arrivals::{Arrivals, OpenLoop, Spacing};
use crate::event::{Edge, Event, Phase};
use crate::gate::{GateEnd, Patience, Window};
use crate::gate_feed::GateFeed;
use crate::probes::Probes;
use crate::sampler::{Sampler, StopOnDrop};

/// An engine for tests, which counts the commits of all connections. It fails at one commit, or holds one commit until
/// the test frees it. With `ends_by_itself_after` it holds the commit for this number of seconds.
#[derive(Default)]
struct Engine {
    commits: AtomicU64,
    rollbacks: AtomicUsize,
    fails_at: Option<u64>,
    holds_at: Option<u64>,
    ends_by_itself_after: f64,
    freed: AtomicBool,
}

struct Connection(Arc<Engine>);

impl Client for Connection {
    fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
        Ok(())
    }

    fn commit(&mut self) -> Result<(), ClientError> {
        let number = self.0.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if self.0.fails_at == Some(number) {
            return Err(ClientError::Lost { message: "the engine is gone".to_owned() });
        }
        let begun = Instant::now();
        while self.0.holds_at == Some(number) && !self.0.freed.load(Ordering::Relaxed) {
            if self.0.ends_by_itself_after > 0.0 && begun.elapsed().as_secs_f64() > self.0.ends_by_itself_after {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        if self.0.freed.load(Ordering::Relaxed) {
            return Err(ClientError::Lost { message: "query execution was interrupted".to_owned() });
        }
        Ok(())
    }

    fn rollback(&mut self) -> Result<(), ClientError> {
        self.0.rollbacks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn execute(&mut self, _batch: &mut Batch) -> Result<(), ClientError> {
        Ok(())
    }

    fn rows_returned(&self) -> u64 {
        0
    }
}

struct Single;

impl Workload for Single {
    fn name(&self) -> &'static str {
        "single"
    }

    fn transaction_types(&self) -> Vec<String> {
        vec!["only".to_owned()]
    }

    fn terminals(&self) -> usize {
        1
    }

    fn plan(&mut self) -> Planned {
        Planned { transaction_type: 0, terminal: 0 }
    }

    fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError> {
        client.commit()?;
        Ok(Outcome::Committed)
    }
}

type TestDrivers = Drivers<Connection>;

fn drivers(engine: &Arc<Engine>, count: usize) -> TestDrivers {
    let each = (0..count).map(|_| Driver::new(Connection(Arc::clone(engine)), Box::new(Single))).collect();
    Drivers::new(each, "a test's engine", "start it again", Arc::default())
}

fn run(
    drivers: &mut TestDrivers,
    total: u64,
    cancelled: &AtomicBool,
    unstick: &(dyn Fn() + Sync),
) -> Result<SegmentEnd, Failure> {
    let segment = Segment {
        quota: Quota::new(total, drivers.count()),
        deadline: Instant::now() + Duration::from_secs(60),
        cancelled,
        unstick,
    };
    drivers.run(&segment, Duration::from_millis(5), &mut |_| Ok(false))
}

fn committed(drivers: &TestDrivers) -> u64 {
    let mut out = Vec::new();
    drivers.board.sample(Instant::now() + Duration::from_secs(1), &mut out);
    let row = out.iter().find(|row| row.metric == "transactions_committed").expect("told");
    row.count.expect("a counter") as u64
}

static NOT_CANCELLED: AtomicBool = AtomicBool::new(false);

#[test]
fn the_total_is_exact_whatever_the_number_of_drivers() {
    for count in [1, 3, 8] {
        let engine = Arc::new(Engine::default());
        let mut drivers = drivers(&engine, count);
        drivers.begin_window();
        for segment in 1..=2 {
            let outcome = run(&mut drivers, 10_001, &NOT_CANCELLED, &|| {}).expect("nothing fails");
            assert_eq!(outcome, SegmentEnd::Whole);
            assert_eq!(drivers.board.transactions(), segment * 10_001);
            assert_eq!(committed(&drivers), segment * 10_001, "everybody has told everything at the edge");
        }
        let tallies = drivers.tallies();
        assert_eq!((tallies[0].1.counts.committed, tallies[0].1.service.count()), (20_002, 20_002));
    }
}

#[test]
fn a_sample_in_the_middle_is_answered_by_all_and_never_falls() {
    let engine = Arc::new(Engine::default());
    let mut drivers = drivers(&engine, 3);
    let board = drivers.board();
    let over = AtomicBool::new(false);
    let samples = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut samples = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let mut out = Vec::new();
                board.sample(Instant::now() + Duration::from_secs(5), &mut out);
                samples.push(out[0].count.expect("a counter"));
            }
            samples
        });
        run(&mut drivers, 300_000, &NOT_CANCELLED, &|| {}).expect("nothing fails");
        over.store(true, Ordering::Relaxed);
        sampler.join().expect("it samples")
    });
    assert!(samples.windows(2).all(|pair| pair[0] <= pair[1]), "{samples:?}");
    assert_eq!(committed(&drivers), 300_000);
}

#[test]
fn one_failure_ends_all_and_is_the_runs_own() {
    let engine = Arc::new(Engine { fails_at: Some(1_000), ..Engine::default() });
    let mut drivers = drivers(&engine, 4);
    let failure = run(&mut drivers, u64::MAX, &NOT_CANCELLED, &|| {}).expect_err("the engine is gone");
    assert!(failure.what.contains("the engine is gone") && failure.place == "a test's engine", "{failure}");
    assert_eq!(failure.hint, "start it again");
    assert_eq!(engine.rollbacks.load(Ordering::Relaxed), 1, "the one that failed lets go of its locks");
}

#[test]
fn a_driver_that_does_not_end_is_interrupted_when_cancelled() {
    let engine = Arc::new(Engine { holds_at: Some(100), ..Engine::default() });
    let mut drivers = drivers(&engine, 2);
    let cancelled = AtomicBool::new(false);
    let board = drivers.board();
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| {
            while board.transactions() < 100 {
                std::thread::yield_now();
            }
            cancelled.store(true, Ordering::Relaxed);
        });
        run(&mut drivers, u64::MAX, &cancelled, &|| engine.freed.store(true, Ordering::Relaxed))
    });
    assert_eq!(outcome, Ok(SegmentEnd::Cancelled));
}

#[test]
fn a_transaction_that_runs_when_enough_was_done_is_waited_for() {
    let engine = Arc::new(Engine { holds_at: Some(100), ends_by_itself_after: 3.0, ..Engine::default() });
    let mut drivers = drivers(&engine, 2);
    let segment = Segment {
        quota: Quota::new(u64::MAX, 2),
        deadline: Instant::now() + Duration::from_secs(60),
        cancelled: &NOT_CANCELLED,
        unstick: &|| panic!("nobody asked to stop"),
    };
    let outcome = drivers.run(&segment, Duration::from_millis(1), &mut |transactions| Ok(transactions >= 50));
    assert_eq!(outcome, Ok(SegmentEnd::Whole));
}

#[test]
fn who_watches_may_have_enough_and_a_deadline_ends_a_stretch() {
    let engine = Arc::new(Engine::default());
    let mut drivers = drivers(&engine, 2);
    let segment = |seconds| Segment {
        quota: Quota::new(u64::MAX, 2),
        deadline: Instant::now() + Duration::from_secs_f64(seconds),
        cancelled: &NOT_CANCELLED,
        unstick: &|| {},
    };
    let enough = &mut |transactions| Ok(transactions >= 1_000);
    assert_eq!(drivers.run(&segment(60.0), Duration::from_millis(1), enough), Ok(SegmentEnd::Whole));
    assert!(drivers.board.transactions() >= 1_000);
    let begun = Instant::now();
    let never = &mut |_| Ok(false);
    assert_eq!(drivers.run(&segment(0.05), Duration::from_millis(1), never), Ok(SegmentEnd::Whole));
    assert!(begun.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_failure_of_who_watches_ends_all_too() {
    let engine = Arc::new(Engine::default());
    let mut drivers = drivers(&engine, 2);
    let segment = Segment {
        quota: Quota::new(u64::MAX, 2),
        deadline: Instant::now() + Duration::from_secs(60),
        cancelled: &NOT_CANCELLED,
        unstick: &|| {},
    };
    let failure = Failure::new(crate::failure::FailureKind::Io, "no counters", "the engine", "");
    let outcome = drivers.run(&segment, Duration::from_millis(1), &mut |_| Err(failure.clone()));
    assert_eq!(outcome, Err(failure));
}

#[test]
fn constant_arrivals_of_several_drivers_are_evenly_spaced_together() {
    let engine = Arc::new(Engine::default());
    let each = (0..4_u64).map(|index| {
        let asked = OpenLoop { rate_per_s: 500.0, spacing: Spacing::Constant, patience_ns: 10_000_000_000, seed: 0 };
        let arrivals = Arrivals::new(&asked).expect("the rate is in range");
        Driver::new(Connection(Arc::clone(&engine)), Box::new(Single)).open_loop_ahead(arrivals, (3 - index) * 500_000)
    });
    let mut drivers = Drivers::new(each.collect(), "a test's engine", "start it again", Arc::default());
    drivers.begin_window();
    drivers.start_arrivals();
    let begun = Instant::now();
    let segment = Segment {
        quota: Quota::new(400, 4).one_by_one(),
        deadline: begun + Duration::from_secs(60),
        cancelled: &NOT_CANCELLED,
        unstick: &|| {},
    };
    drivers.run(&segment, Duration::from_millis(5), &mut |_| Ok(false)).expect("nothing fails");
    // The drivers together have 2,000 arrivals a second: the 400th is due after 200 ms, and no driver begins a
    // transaction before it is due.
    assert!(begun.elapsed() >= Duration::from_millis(199), "{:?}", begun.elapsed());
    let tallies = drivers.tallies();
    assert_eq!((tallies[0].1.counts.arrivals, tallies[0].1.response.count()), (400, 400));
}

/// An engine inside its driver's thread, which counts each reading of its counters. Each poll for the warm-up's gate
/// finds twenty more misses.
struct Embedded {
    engine: Arc<Engine>,
    looks: u64,
    reads: u64,
}

impl Embedded {
    fn of(engine: &Arc<Engine>) -> Self {
        Embedded { engine: Arc::clone(engine), looks: 0, reads: 0 }
    }
}

impl Inside for Embedded {
    fn counters(&mut self, out: &mut Vec<Reading>) {
        self.reads += 1;
        let commits = self.engine.commits.load(Ordering::Relaxed);
        out.push(Reading::counter("engine", "page_gets", &Arc::from(""), commits as i64));
    }

    fn counted(&mut self) -> Window {
        self.looks += 1;
        Window::of(20 * self.looks)
    }
}

fn segment(total: u64) -> Segment<'static> {
    let deadline = Instant::now() + Duration::from_secs(60);
    Segment { quota: Quota::new(total, 1), deadline, cancelled: &NOT_CANCELLED, unstick: &|| {} }
}

#[test]
fn a_driver_inside_its_engine_looks_at_the_gate_after_each_of_its_windows_but_not_at_the_cap() {
    for (total, frames, ended, looks, end) in [
        (10_000, 30, 1_500, 3, Some(GateEnd::PoolTurnover)),
        (1_500, 30, 1_500, 2, None),
        (1_501, 1_000, 1_501, 3, None),
        (0, 30, 0, 0, None),
    ] {
        let engine = Arc::new(Engine::default());
        let (mut drivers, mut embedded) = (drivers(&engine, 1), Embedded::of(&engine));
        let mut feed = GateFeed::new(frames, Patience::default(), Window::default());
        let outcome = drivers.run_inline(&segment(total), &mut embedded, Some(&mut feed));
        assert_eq!(outcome, Ok(SegmentEnd::Whole));
        assert_eq!((drivers.board.transactions(), committed(&drivers)), (ended, ended));
        assert_eq!((embedded.looks, feed.end()), (looks, end));
        assert_eq!(embedded.reads, 0, "nobody asked for the engine's counters, and reading them gets pages");
    }
}

#[test]
fn a_driver_inside_its_engine_answers_with_counters_and_tallies_of_one_moment() {
    let engine = Arc::new(Engine::default());
    let (mut drivers, mut embedded) = (drivers(&engine, 1), Embedded::of(&engine));
    let board = drivers.board();
    let over = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut answers = 0;
            while !over.load(Ordering::Relaxed) {
                let mut out = Vec::new();
                board.sample(Instant::now() + Duration::from_secs(5), &mut out);
                if out[0].metric == "page_gets" {
                    assert_eq!((out[0].count, out[1].metric), (out[1].count, "transactions_committed"));
                    answers += 1;
                }
            }
            answers
        });
        drivers.run_inline(&segment(300_000), &mut embedded, None).expect("nothing fails");
        over.store(true, Ordering::Relaxed);
        sampler.join().expect("it samples")
    });
    assert!(answers > 0);
    assert!(embedded.reads <= answers + 1, "the counters were read {} times for {answers} samples", embedded.reads);
}

#[test]
fn a_driver_that_does_not_answer_is_sampled_in_the_phase_it_is_in_and_the_sample_says_why() {
    let engine = Arc::new(Engine { holds_at: Some(100), ..Engine::default() });
    let (mut drivers, mut embedded) = (drivers(&engine, 1), Embedded::of(&engine));
    let seen: Mutex<Vec<(String, usize, bool)>> = Mutex::default();
    let sink = |event: Event| {
        if let Event::Sample { phase, values, .. } = event {
            let missing = values.iter().any(|reading| reading.reason.is_some());
            lock(&seen).push((phase.name().to_owned(), values.len(), missing));
        }
    };
    let sampler = Sampler::new(None, Probes::default(), &sink, &|| 0.0);
    let cancelled = AtomicBool::new(false);
    let wait_for = |samples: usize| {
        while lock(&seen).len() < samples {
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&sampler);
        scope.spawn(|| sampler.sample_until_stopped(Duration::from_millis(10)));
        // A setup section uses the connection before the driver begins.
        sampler.enter(Phase::Extra(Arc::from("range_scan")), None, 10);
        lock(&seen).clear();
        wait_for(2);
        assert!(lock(&seen).iter().all(|sample| *sample == ("range_scan".to_owned(), 1, true)));
        sampler.enter(Phase::Measure, Some(drivers.board()), 10);
        lock(&seen).clear();
        scope.spawn(|| {
            wait_for(2);
            cancelled.store(true, Ordering::Relaxed);
            engine.freed.store(true, Ordering::Relaxed);
        });
        let segment = Segment { cancelled: &cancelled, ..segment(u64::MAX) };
        assert_eq!(drivers.run_inline(&segment, &mut embedded, None), Ok(SegmentEnd::Cancelled));
        // The failure of an interrupted statement is not a failure of the run, and the drivers do not answer a question
        // that comes after their end.
        sampler.edge(Edge::End, &mut ()).expect("nothing is asked");
    });
    let seen = lock(&seen).clone();
    let held = seen.iter().filter(|sample| **sample == ("measure".to_owned(), 1, true)).count();
    assert!(held >= 2, "{seen:?}");
}
