//! Waiting for a processor: nanoseconds that threads ran, and nanoseconds in which they could run and no processor was
//! free. Source: /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst), summed over the threads of the
//! worker, and over those of the server and its children (each backend of `PostgreSQL`).
//!
//! The kernel keeps no times of a thread that has ended. The probe goes on adding the thread's last values, so counts
//! never fall. The time of a thread after its last sample is lost, at most one sampling interval.
//!
//! A sample costs 7 to 8 us for each thread: 0.27 ms with a MySQL of 34 threads, measured at a load of 11 on two cores.

use crate::parse::{fields, number};
use crate::reading::{Probe, Reading};
use std::collections::HashMap;
use std::sync::Arc;

const NAME: &str = "sched";
const METRICS: [&str; 2] = ["sched_cpu_ns", "sched_wait_ns"];

/// Nanoseconds that a thread ran, and that it waited for a processor.
type Spent = [u64; METRICS.len()];

/// One watched process, with or without its children.
struct Watched {
    pid: u32,
    with_children: bool,
    subject: Arc<str>,
    threads: Threads,
}

/// The time of the threads of one subject, those that have ended included.
#[derive(Default)]
struct Threads {
    /// The last values of each thread. The map keeps threads that have ended, and threads that a listing of /proc has
    /// missed.
    last: HashMap<u32, Spent>,
    /// The sums of ended threads whose IDs now belong to newer threads.
    replaced: Spent,
}

impl Threads {
    /// Takes the times of living threads, by their numbers; returns the sums of all threads so far.
    fn update(&mut self, alive: HashMap<u32, Spent>) -> Spent {
        for (thread, now) in alive {
            let last = self.last.insert(thread, now).unwrap_or_default();
            // Times never fall, so this is another thread.
            if now.iter().zip(last).any(|(&now, last)| now < last) {
                add(&mut self.replaced, &last);
            }
        }
        let mut sums = self.replaced;
        self.last.values().for_each(|spent| add(&mut sums, spent));
        sums
    }
}

fn add(sums: &mut Spent, spent: &Spent) {
    sums.iter_mut().zip(spent).for_each(|(sum, one)| *sum += one);
}

/// The probe of the worker's threads, and of the server's.
pub struct SchedProbe(Vec<Watched>);

impl SchedProbe {
    /// Makes a probe of this process, and of the server's process and its children if the server runs on this host.
    pub fn new(server_pid: Option<u32>) -> Self {
        let watched = |pid, with_children, subject: &str| Watched {
            pid,
            with_children,
            subject: subject.into(),
            threads: Threads::default(),
        };
        let worker = watched(std::process::id(), false, "worker");
        SchedProbe([Some(worker), server_pid.map(|pid| watched(pid, true, "server"))].into_iter().flatten().collect())
    }
}

impl Watched {
    /// Returns the sums of all threads so far.
    ///
    /// # Errors
    /// The reason why the kernel does not report them.
    fn spent(&mut self) -> Result<Spent, Arc<str>> {
        let mut alive = HashMap::with_capacity(self.threads.last.len());
        read_threads(self.pid, &mut alive)?;
        if self.with_children {
            let children = std::fs::read(format!("/proc/{0}/task/{0}/children", self.pid)).unwrap_or_default();
            for child in fields(&children).filter_map(number).filter_map(|pid| u32::try_from(pid).ok()) {
                // If a thread has ended in the meantime, its last sample stays in the sums.
                let _ = read_threads(child, &mut alive);
            }
        }
        if alive.is_empty() {
            return Err("/proc/PID/task/TID/schedstat cannot be read".into());
        }
        let sums = self.threads.update(alive);
        // Every running process has waited at least some nanoseconds, so 0 means that the kernel does not count.
        if sums.contains(&0) { Err("this kernel counts nothing in schedstat".into()) } else { Ok(sums) }
    }
}

/// Adds the times of a process's living threads to `out`.
fn read_threads(pid: u32, out: &mut HashMap<u32, Spent>) -> Result<(), Arc<str>> {
    let tasks = format!("/proc/{pid}/task");
    let listed = std::fs::read_dir(&tasks).map_err(|error| format!("cannot read {tasks}: {error}"))?;
    for task in listed.flatten() {
        let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
        let text = std::fs::read(task.path().join("schedstat"));
        if let (Some(thread), Ok(text)) = (thread, text)
            && let Some(spent) = schedstat(&text)
        {
            out.insert(thread, spent);
        }
    }
    Ok(())
}

/// Returns the first two of the three fields: time on a processor, time on a run queue.
fn schedstat(text: &[u8]) -> Option<Spent> {
    let mut numbers = fields(text).map(number);
    Some([numbers.next()??, numbers.next()??])
}

impl Probe for SchedProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        for watched in &mut self.0 {
            let spent = watched.spent();
            for (place, metric) in METRICS.into_iter().enumerate() {
                let count = spent
                    .as_ref()
                    .map_err(Arc::clone)
                    .and_then(|spent| i64::try_from(spent[place]).map_err(|_| Arc::from("the count is too large")));
                out.push(Reading::counter_or(NAME, metric, &watched.subject, count));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    fn threads(of: &[(u32, Spent)]) -> HashMap<u32, Spent> {
        of.iter().copied().collect()
    }

    fn counts(probe: &mut SchedProbe, subject: &str) -> Spent {
        let mut out = Vec::new();
        probe.sample(&mut out);
        METRICS.map(|metric| {
            let row = out.iter().find(|row| row.metric == metric && &*row.subject == subject).expect("it is emitted");
            row.count.and_then(|count| u64::try_from(count).ok()).unwrap_or_else(|| panic!("{row:?}"))
        })
    }

    #[test]
    fn threads_that_ended_stay_in_the_sum_and_a_number_used_again_is_another_thread() {
        let mut sums = Threads::default();
        assert_eq!(sums.update(threads(&[(1, [10, 1]), (2, [20, 2])])), [30, 3]);
        assert_eq!(sums.update(threads(&[(1, [15, 1]), (3, [5, 5])])), [40, 8]);
        assert_eq!(sums.update(threads(&[(1, [15, 1]), (3, [1, 0])])), [41, 8]);
        assert_eq!(sums.update(threads(&[])), [41, 8]);
    }

    #[test]
    fn the_kernels_three_fields_are_time_run_time_waited_and_slices() {
        assert_eq!(schedstat(b"96535760 2648445185 456\n"), Some([96_535_760, 2_648_445_185]));
        assert_eq!(schedstat(b"12\n"), None);
        assert_eq!(schedstat(b""), None);
    }

    #[test]
    fn a_thread_that_works_and_ends_leaves_its_time_in_the_workers_sum() {
        let mut probe = SchedProbe::new(None);
        let before = counts(&mut probe, "worker");
        let (send, receive) = std::sync::mpsc::channel();
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let own = crate::DriverThread::current();
            while own.cpu_ns().expect("it lives") < 50_000_000 {}
            send.send(()).ok();
            wait.recv().ok();
        });
        receive.recv().expect("it works");
        let during = counts(&mut probe, "worker");
        stop.send(()).ok();
        thread.join().expect("it ends well");
        let after = counts(&mut probe, "worker");
        assert!(during[0] - before[0] >= 45_000_000, "{before:?} {during:?}");
        assert!(after[0] >= during[0] && after[1] >= during[1], "{during:?} {after:?}");
    }

    #[test]
    fn two_children_that_share_a_processor_wait_for_half_of_their_time() {
        // A shell with two busy children on one processor, as a server and its backends.
        let work = "while :; do :; done";
        let script = format!("({work}) & ({work}) & wait");
        let mut shell = Command::new("taskset")
            .args(["-c", "0", "sh", "-c", &script])
            .stdin(Stdio::null())
            .spawn()
            .expect("a shell");
        let mut probe = SchedProbe::new(Some(shell.id()));
        let begun = Instant::now();
        let mut spent = [0, 0];
        while spent[0] < 300_000_000 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
            let mut out = Vec::new();
            probe.sample(&mut out);
            let told = |metric| out.iter().find(|row| row.metric == metric && &*row.subject == "server")?.count;
            spent = METRICS.map(|metric| told(metric).unwrap_or(0) as u64);
        }
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.id())).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| pid.parse().ok()) {
            // SAFETY: a child of the shell, which has not waited for it.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        shell.kill().expect("it lives");
        shell.wait().expect("it was a child");
        let share = spent[1] as f64 / (spent[0] + spent[1]) as f64;
        // Check no upper limit, because other programs on that processor make the children wait longer.
        assert!(share > 0.4, "{spent:?}");
    }

    #[test]
    fn a_server_that_is_gone_is_null_with_a_reason() {
        let mut child = Command::new("true").spawn().expect("true is everywhere");
        child.wait().expect("it was a child");
        let mut out = Vec::new();
        SchedProbe::new(Some(child.id())).sample(&mut out);
        assert_eq!(out.len(), 4);
        let server: Vec<_> = out.iter().filter(|row| &*row.subject == "server").collect();
        assert!(server.iter().all(|row| row.count.is_none() && row.reason.is_some()), "{server:?}");
    }
}
