//! A driver: one thread that executes the transactions of its terminals, in a closed or an open loop, and keeps their
//! tallies.
//!
//! All terminals of a driver share one connection, so a transaction waits for its turn and is then served. The tallies
//! record the wait and the service separately. In an open loop, wait and response time count from the intended start of
//! the transaction, so that a stall shows in every transaction that it delays. A driver shares nothing with another
//! thread and allocates nothing per transaction.

use std::sync::Arc;
use std::time::Duration;

use bufferlab_workload::client::{Client, ClientError, Outcome, Workload};

use crate::arrivals::{Arrivals, LATE_AFTER_NS};
use crate::latency::Latency;
use crate::pacing::{Clock, Monotonic};
use crate::sample_rows::{Counts, Merged};

/// The number of times that the driver retries a transaction before the run fails.
const MAX_RETRIES: u32 = 1000;

/// Longest wait for an arrival that the driver does without a break. It splits a longer wait, and checks in between for
/// requests of the sampler, and for a request to stop.
const LONGEST_WAIT_NS: u64 = 5_000_000;
/// A transaction that takes longer than this is long: [`Driver::was_long`] then asks the caller to check its time
/// limit.
const LONG_NS: u64 = 10_000_000;
/// Length of one part of a longer wait. At least 1 ms of the wait is left after it, in which the driver wakes up
/// exactly on time.
const CUT_WAIT_NS: u64 = 4_000_000;

/// Counts and latencies of one transaction type. Counts begin when the driver is made; latencies begin anew with the
/// measured window.
#[derive(Clone, Default)]
pub struct Tally {
    /// The counts.
    pub counts: Counts,
    /// Times from the beginning of a transaction to its end, retries included.
    pub service: Latency,
    /// Waits until a transaction begins: since the end of the terminal's previous transaction, in an open loop since
    /// the intended start.
    pub queue: Latency,
    /// Open loop: times from the intended start to the end of the transaction.
    pub response: Latency,
    /// Service times since the last sample.
    service_interval: Latency,
    /// Response times since the last sample.
    response_interval: Latency,
}

impl Tally {
    fn transactions(&self) -> u64 {
        self.counts.committed + self.counts.rolled_back
    }

    /// Adds another driver's tally of the same type.
    pub fn merge(&mut self, other: &Tally) {
        self.counts += other.counts;
        self.service.merge(&other.service);
        self.queue.merge(&other.queue);
        self.response.merge(&other.response);
        self.service_interval.merge(&other.service_interval);
        self.response_interval.merge(&other.response_interval);
    }

    /// Adds the times since the last sample to the window's times, and starts the next interval.
    fn end_interval(&mut self) {
        for (interval, window) in
            [(&mut self.service_interval, &mut self.service), (&mut self.response_interval, &mut self.response)]
        {
            if interval.count() > 0 {
                window.merge(interval);
                interval.clear();
            }
        }
    }
}

/// The schedule of an open loop, and the moment at which it began; `start_ns` is none before.
struct OpenLoop {
    arrivals: Arrivals,
    /// How much earlier than its scheduled time every arrival is due, in nanoseconds.
    ahead_ns: u64,
    start_ns: Option<u64>,
}

/// A workload and its client, with the tallies of the transactions that the driver executes on one thread.
pub struct Driver<C: Client, K: Clock = Monotonic> {
    client: C,
    workload: Box<dyn Workload>,
    clock: K,
    open: Option<OpenLoop>,
    tallies: Vec<Tally>,
    subjects: Vec<Arc<str>>,
    /// The moment at which each terminal ended its last transaction; before its first one, the beginning of the window,
    /// or zero if there was none.
    ended_ns: Vec<u64>,
    /// Service time of the last transaction of any terminal.
    last_service_ns: u64,
}

impl<C: Client> Driver<C> {
    /// Makes a driver in a closed loop that has executed nothing yet.
    pub fn new(client: C, workload: Box<dyn Workload>) -> Self {
        Driver::with_clock(client, workload, Monotonic)
    }
}

impl<C: Client, K: Clock> Driver<C, K> {
    /// Makes a driver in a closed loop that takes its times from `clock`.
    pub fn with_clock(client: C, workload: Box<dyn Workload>, clock: K) -> Self {
        let types = workload.transaction_types();
        let terminals = workload.terminals();
        Driver {
            client,
            clock,
            open: None,
            tallies: vec![Tally::default(); types.len()],
            subjects: types.iter().map(|name| Arc::from(name.as_str())).collect(),
            ended_ns: vec![0; terminals],
            last_service_ns: 0,
            workload,
        }
    }

    /// Puts a phase's name before the names of the transaction types, as `phase.type`.
    #[must_use]
    pub fn in_phase(mut self, phase: &str) -> Self {
        for subject in &mut self.subjects {
            *subject = Arc::from(format!("{phase}.{subject}"));
        }
        self
    }

    /// Lets transactions arrive on a schedule from [`Driver::start_arrivals`] on.
    #[must_use]
    pub fn open_loop(self, arrivals: Arrivals) -> Self {
        self.open_loop_ahead(arrivals, 0)
    }

    /// Lets transactions arrive on a schedule from [`Driver::start_arrivals`] on, each `ahead_ns` earlier than the
    /// schedule says. If drivers take turns, each of them has a different `ahead_ns`.
    #[must_use]
    pub fn open_loop_ahead(mut self, arrivals: Arrivals, ahead_ns: u64) -> Self {
        self.open = Some(OpenLoop { arrivals, ahead_ns, start_ns: None });
        self
    }

    /// Returns the workload, which has counts of its work.
    pub fn workload(&self) -> &dyn Workload {
        &*self.workload
    }

    /// Returns the client. Call it between two transactions.
    pub fn client_mut(&mut self) -> &mut C {
        &mut self.client
    }

    /// Rolls back the open transaction, because other connections may wait for its locks. Ignores errors.
    pub fn abandon(&mut self) {
        let _ = self.client.rollback();
    }

    /// Ends the driver and returns its client.
    pub fn into_client(self) -> C {
        self.client
    }

    /// Returns true when the driver has a schedule of arrivals, which [`Driver::start_arrivals`] starts.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Returns the number of transactions ended so far, committed or rolled back, since the driver was made.
    pub fn transactions(&self) -> u64 {
        self.tallies.iter().map(Tally::transactions).sum()
    }

    /// Returns the number of steps taken: transactions ended, and arrivals dropped.
    pub fn steps(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.transactions() + tally.counts.dropped).sum()
    }

    /// Returns true when the last transaction took so long that a time limit may have passed during it.
    pub fn was_long(&self) -> bool {
        self.last_service_ns > LONG_NS
    }

    /// Executes one step of the reads that the workload does before the warm-up; returns true while there are more.
    ///
    /// # Errors
    /// The client's error.
    pub fn prefill_step(&mut self) -> Result<bool, ClientError> {
        self.workload.prefill_step(&mut self.client)
    }

    /// Starts the schedule, if there is one, and measures waits from now on. So the time in which the run samples the
    /// window's edge does not count as a wait. Until this call the driver runs a closed loop.
    pub fn start_arrivals(&mut self) {
        self.ended_ns.fill(self.clock.now_ns());
        if let Some(open) = &mut self.open {
            open.start_ns = Some(self.clock.now_ns().saturating_sub(open.ahead_ns));
        }
    }

    /// Returns the intended start of the next transaction, on the driver's clock; none in a closed loop, or before the
    /// schedule starts.
    fn next_arrival_ns(&self) -> Option<u64> {
        let open = self.open.as_ref()?;
        open.start_ns.map(|start_ns| start_ns.saturating_add(open.arrivals.next_ns()))
    }

    /// Returns the time until the next transaction is due; none when it is due now.
    pub fn due_in(&self) -> Option<Duration> {
        let left_ns = self.next_arrival_ns()?.saturating_sub(self.clock.now_ns());
        (left_ns > 0).then(|| Duration::from_nanos(left_ns))
    }

    /// Waits for the next arrival, but not longer than 5 ms. The caller then checks whether the arrival is due.
    pub fn wait(&self) {
        let Some(next_ns) = self.next_arrival_ns() else { return };
        let now_ns = self.clock.now_ns();
        if next_ns.saturating_sub(now_ns) > LONGEST_WAIT_NS {
            self.clock.sleep_until(now_ns + CUT_WAIT_NS);
        } else {
            self.clock.wait_until(next_ns);
        }
    }

    /// Plans and executes one transaction. In an open loop this is the transaction of the next arrival; the driver
    /// drops an arrival that has waited longer than its patience.
    ///
    /// # Errors
    /// The error of executing the transaction, or of rolling it back for a retry. After 1,000 retries the engine's next
    /// request to retry is the error.
    pub fn step(&mut self) -> Result<(), ClientError> {
        let planned = self.workload.plan();
        let tally = &mut self.tallies[planned.transaction_type];
        let rows_before = self.client.rows_returned();
        let begun_ns = self.clock.now_ns();
        let mut intended_ns = None;
        if let Some(OpenLoop { arrivals, start_ns: Some(start_ns), .. }) = &mut self.open {
            let start_ns = start_ns.saturating_add(arrivals.take());
            let waited_ns = begun_ns.saturating_sub(start_ns);
            intended_ns = Some(start_ns);
            tally.counts.arrivals += 1;
            if waited_ns > arrivals.patience_ns() {
                tally.counts.dropped += 1;
                return Ok(());
            }
            tally.counts.late += u64::from(waited_ns > LATE_AFTER_NS);
        }
        let mut attempts = 0;
        let outcome = loop {
            match self.workload.execute(&mut self.client) {
                Ok(outcome) => break outcome,
                Err(ClientError::Retry { .. }) if attempts < MAX_RETRIES => {
                    attempts += 1;
                    tally.counts.retries += 1;
                    self.client.rollback()?;
                }
                Err(error) => return Err(error),
            }
        };
        let ended_ns = self.clock.now_ns();
        match outcome {
            Outcome::Committed => tally.counts.committed += 1,
            Outcome::RolledBack => tally.counts.rolled_back += 1,
        }
        tally.counts.rows_returned += self.client.rows_returned() - rows_before;
        self.last_service_ns = ended_ns - begun_ns;
        tally.service_interval.record(self.last_service_ns);
        let previous_ns = std::mem::replace(&mut self.ended_ns[planned.terminal], ended_ns);
        if let Some(intended_ns) = intended_ns {
            tally.queue.record(begun_ns.saturating_sub(intended_ns));
            tally.response_interval.record(ended_ns.saturating_sub(intended_ns));
        } else if previous_ns != 0 {
            tally.queue.record(begun_ns - previous_ns);
        }
        Ok(())
    }

    /// Begins the measured window, to which all later transactions belong. Forgets all latencies and measures waits
    /// from now on, because the earlier records belong to the warm-up.
    pub fn begin_window(&mut self) {
        self.workload.begin_window();
        let now_ns = self.clock.now_ns();
        self.ended_ns.fill(now_ns);
        for tally in &mut self.tallies {
            tally.service.clear();
            tally.queue.clear();
            tally.response.clear();
            tally.service_interval.clear();
            tally.response_interval.clear();
        }
    }

    /// Returns for how many nanoseconds the next arrival has been due; zero if it is not due yet. None without a
    /// schedule, or before the schedule starts.
    fn lag_ns(&self) -> Option<u64> {
        self.next_arrival_ns().map(|next_ns| self.clock.now_ns().saturating_sub(next_ns))
    }

    /// Hands the driver's counters, and its times since the previous call, to `merged`, which sums them over all
    /// drivers.
    pub fn hand_over(&mut self, driver: usize, merged: &mut Merged) {
        for (transaction_type, tally) in self.tallies.iter_mut().enumerate() {
            let times = (&tally.service_interval, &tally.response_interval);
            merged.take(driver, transaction_type, tally.counts, times.0, times.1);
            tally.end_interval();
        }
        merged.set_lag(driver, self.lag_ns());
    }

    /// Returns the names that the transaction types have in samples.
    pub fn subjects(&self) -> &[Arc<str>] {
        &self.subjects
    }

    /// Returns the tally of each transaction type with the type's name in samples. Latencies are complete only after a
    /// [`Driver::hand_over`].
    pub fn tallies(&self) -> impl Iterator<Item = (&str, &Tally)> {
        self.subjects.iter().map(AsRef::as_ref).zip(&self.tallies)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use bufferlab_probe::Reading;
    use bufferlab_workload::client::{Batch, Planned};

    use super::*;
    use crate::arrivals::{OpenLoop as Asked, Spacing};

    const MS: u64 = 1_000_000;

    /// A clock that moves only when a transaction is served or the driver waits.
    #[derive(Clone, Default)]
    struct FakeClock(Rc<Cell<u64>>);

    impl Clock for FakeClock {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }

        fn sleep_until(&self, deadline_ns: u64) {
            self.0.set(self.0.get().max(deadline_ns));
        }

        fn wait_until(&self, deadline_ns: u64) {
            self.sleep_until(deadline_ns);
        }
    }

    /// A client that serves each transaction by moving the clock on by 100 us. In one transaction it also adds a stall.
    struct Server {
        clock: FakeClock,
        served: u64,
        stall: Option<(u64, u64)>,
        service_ns: u64,
    }

    impl Client for Server {
        fn begin(&mut self, _read_only: bool) -> Result<(), ClientError> {
            Ok(())
        }

        fn commit(&mut self) -> Result<(), ClientError> {
            self.served += 1;
            let stall_ns = self.stall.filter(|stall| stall.0 == self.served).map_or(0, |stall| stall.1);
            self.clock.sleep_until(self.clock.now_ns() + self.service_ns + stall_ns);
            Ok(())
        }

        fn rollback(&mut self) -> Result<(), ClientError> {
            Ok(())
        }

        fn execute(&mut self, _batch: &mut Batch) -> Result<(), ClientError> {
            Ok(())
        }

        fn rows_returned(&self) -> u64 {
            self.served
        }
    }

    /// A workload with two transaction types that take turns.
    #[derive(Default)]
    struct Turns(usize);

    impl Workload for Turns {
        fn name(&self) -> &'static str {
            "turns"
        }

        fn transaction_types(&self) -> Vec<String> {
            vec!["even".to_owned(), "odd".to_owned()]
        }

        fn terminals(&self) -> usize {
            1
        }

        fn plan(&mut self) -> Planned {
            self.0 += 1;
            Planned { transaction_type: self.0 % 2, terminal: 0 }
        }

        fn execute(&mut self, client: &mut dyn Client) -> Result<Outcome, ClientError> {
            client.commit()?;
            Ok(Outcome::Committed)
        }
    }

    type TestDriver = Driver<Server, FakeClock>;

    fn closed(stall: Option<(u64, u64)>) -> TestDriver {
        let clock = FakeClock::default();
        clock.sleep_until(7 * MS);
        let server = Server { clock: clock.clone(), served: 0, stall, service_ns: MS / 10 };
        Driver::with_clock(server, Box::new(Turns::default()), clock)
    }

    fn open(rate_per_s: f64, spacing: Spacing, patience_ns: u64, stall: Option<(u64, u64)>) -> TestDriver {
        let asked = Asked { rate_per_s, spacing, patience_ns, seed: 1 };
        closed(stall).open_loop(Arrivals::new(&asked).expect("the rate is in range"))
    }

    fn play(driver: &mut TestDriver, steps: u64) {
        driver.begin_window();
        driver.start_arrivals();
        for _ in 0..steps {
            while driver.due_in().is_some() {
                driver.wait();
            }
            driver.step().expect("the server never fails");
        }
        sampled(driver);
    }

    /// Returns the rows of a sample of this driver only.
    fn sampled(driver: &mut TestDriver) -> Vec<Reading> {
        let mut merged = Merged::new(driver.subjects(), 1, driver.is_open());
        driver.hand_over(0, &mut merged);
        let mut readings = Vec::new();
        merged.sample(&mut readings);
        readings
    }

    /// Returns the sum of the tallies of all transaction types.
    fn total(driver: &TestDriver) -> Tally {
        let mut total = Tally::default();
        for (_, tally) in driver.tallies() {
            total.counts.committed += tally.counts.committed;
            total.counts.arrivals += tally.counts.arrivals;
            total.counts.late += tally.counts.late;
            total.counts.dropped += tally.counts.dropped;
            total.service.merge(&tally.service);
            total.queue.merge(&tally.queue);
            total.response.merge(&tally.response);
        }
        total
    }

    #[test]
    fn arrivals_begin_when_they_are_meant_to_while_the_server_keeps_up() {
        let mut driver = open(1000.0, Spacing::Constant, 10_000 * MS, None);
        play(&mut driver, 5_000);
        let total = total(&driver);
        assert_eq!(
            (total.counts.arrivals, total.counts.committed, total.counts.late, total.counts.dropped),
            (5_000, 5_000, 0, 0)
        );
        assert_eq!(total.queue.max_ns(), Some(0));
        assert_eq!((total.response.max_ns(), total.service.max_ns()), (Some(MS / 10), Some(MS / 10)));
        // The schedule's 5,000 gaps add up to exactly 5 s.
        assert_eq!(driver.clock.now_ns(), 7 * MS + 5_000 * MS + MS / 10);
    }

    #[test]
    fn a_stall_of_a_second_shows_in_every_arrival_it_delays() {
        let stall = Some((2_000, 1_000 * MS));
        let mut driver = open(1000.0, Spacing::Constant, 10_000 * MS, stall);
        play(&mut driver, 10_000);
        let open = total(&driver);
        // A transaction arrives every 1 ms, and after the stall the server serves a waiting one every 0.1 ms: the k-th
        // waits 1000 - 0.9 k ms.
        let waiting_over_1_ms = (1..2_000).filter(|k| 10_000 - 9 * k > 10).count() as u64;
        assert_eq!(open.counts.late, waiting_over_1_ms);
        assert_eq!((open.counts.dropped, open.counts.committed), (0, 10_000));
        assert_eq!(open.response.max_ns(), Some(1_000 * MS + MS / 10));
        let over = |ms: u64| -> u64 {
            let buckets = open.response.buckets();
            buckets.iter().filter(|bucket| bucket.low_ns > ms * MS).map(|bucket| bucket.count).sum()
        };
        // A response time is a wait plus 0.1 ms of service. After the stall response times fall evenly from 1 s, so
        // 1/0.9 of them are in each interval of 1 ms.
        for ms in [900, 500, 100] {
            let expected = (1000 - ms) as f64 / 0.9;
            assert!((over(ms) as f64 - expected).abs() <= 3.0, "{} responses above {ms} ms, not {expected}", over(ms));
        }
        // Only one service was slow.
        assert_eq!(open.service.quantile_ns(0.9999), Some(open.service.quantile_ns(0.5).expect("there are services")));

        let mut driver = closed(stall);
        play(&mut driver, 10_000);
        let closed = total(&driver);
        assert_eq!((closed.counts.arrivals, closed.response.count()), (0, 0));
        // A closed loop sends nothing while it waits, so the stall is one transaction in ten thousand: its p99 does not
        // show the stall, and the open loop's p99 does.
        assert!(closed.service.quantile_ns(0.99).expect("served") < MS);
        assert!(open.response.quantile_ns(0.99).expect("served") > 900 * MS);
    }

    #[test]
    fn arrivals_out_of_patience_are_dropped_counted_and_not_executed() {
        let mut driver = open(1000.0, Spacing::Constant, 400 * MS, Some((100, 1_000 * MS)));
        play(&mut driver, 5_000);
        let total = total(&driver);
        // The stall ends at 1100.1 ms. The arrivals that were due before 700.1 ms have then waited longer than the
        // patience, 400 ms.
        assert_eq!(total.counts.dropped, 600);
        assert_eq!((total.counts.arrivals, total.counts.committed), (5_000, 4_400));
        assert_eq!(driver.client.served, 4_400);
        assert_eq!(driver.steps(), 5_000);
        assert_eq!(total.queue.max_ns().map(|ns| ns <= 400 * MS), Some(true));
        let by_type: Vec<u64> = driver.tallies().map(|(_, tally)| tally.counts.dropped).collect();
        assert_eq!(by_type, [300, 300], "a dropped arrival has the type it would have had");
    }

    #[test]
    fn a_saturated_server_drops_what_it_cannot_serve_and_serves_the_rest_at_full_speed() {
        // There are 20,000 arrivals a second, and the server serves 10,000: the driver must drop half once the backlog
        // has used up the patience.
        let mut driver = open(20_000.0, Spacing::Poisson, 50 * MS, None);
        play(&mut driver, 200_000);
        let total = total(&driver);
        let dropped = total.counts.dropped as f64 / total.counts.arrivals as f64;
        assert!((dropped - 0.5).abs() < 0.01, "{dropped} of the arrivals were dropped");
        assert!(total.counts.late as f64 > 0.98 * total.counts.committed as f64);
        let seconds = (driver.clock.now_ns() - 7 * MS) as f64 / 1e9;
        assert!((total.counts.committed as f64 / seconds / 10_000.0 - 1.0).abs() < 0.001);
    }

    #[test]
    fn a_response_is_its_queue_and_its_service() {
        let mut driver = open(9_000.0, Spacing::Poisson, 10_000 * MS, None);
        play(&mut driver, 50_000);
        let total = total(&driver);
        let mean = |latency: &Latency| latency.mean_ns().expect("there are transactions");
        assert!((mean(&total.response) - mean(&total.queue) - mean(&total.service)).abs() < 1.0);
        // In a queue M/D/1 with a load rho of 0.9 the mean wait is rho / (2 (1 - rho)) services (Pollaczek and
        // Khinchine).
        let waits = mean(&total.queue) / (MS / 10) as f64;
        assert!((waits / 4.5 - 1.0).abs() < 0.2, "the mean wait is {waits} services");
    }

    #[test]
    fn samples_tell_arrivals_only_in_an_open_loop_and_how_far_it_lags_behind() {
        let mut closed = closed(None);
        closed.step().expect("served");
        let readings = sampled(&mut closed);
        assert!(readings.iter().all(|row| !row.metric.starts_with("arrival") && !row.metric.starts_with("response")));
        assert!(readings.iter().any(|row| row.metric == "rows_returned" && row.count == Some(1)));

        let mut open = open(1000.0, Spacing::Constant, 10_000 * MS, Some((2, 30 * MS)));
        assert!(sampled(&mut open).iter().any(|row| row.metric == "arrivals" && row.count == Some(0)));
        play(&mut open, 2);
        open.step().expect("served");
        let readings = sampled(&mut open);
        let lag = readings.iter().find(|row| row.metric == "arrival_lag_us").and_then(|row| row.value);
        // The fourth arrival is 28.2 ms late: it was due at 4 ms, and 2 + 0.1 + 30 + 0.1 ms have passed.
        assert_eq!(lag, Some(28_200.0));
        assert!(readings.iter().any(|row| row.metric == "response_max_us" && &*row.subject == "odd"));
    }

    #[test]
    fn a_phase_puts_its_name_before_its_types() {
        let driver = closed(None).in_phase("range_scan");
        let names: Vec<&str> = driver.tallies().map(|(name, _)| name).collect();
        assert_eq!(names, ["range_scan.even", "range_scan.odd"]);
    }
}
