//! The database server's processes: processor time, bytes through the storage layer, page faults, resident memory.
//! Sources: /proc/PID/stat (time in ticks of 10 ms), /proc/PID/io (needs the same user, or root), /proc/PID/statm, and
//! /proc/PID/task/PID/children: a server may be a process and its children (`PostgreSQL`), and the probe reads each. A
//! sample reads four small files, about 10 us on the developers' machine, and three for each child.

use crate::cpu::microseconds_per_tick;
use crate::parse::{fields, io, number, process_stat};
use crate::proc_file::ProcFile;
use crate::reading::{Probe, Reading};
use std::sync::Arc;

const NAME: &str = "server";
/// The metric of the bytes that the server read between [`Probe::before_edge`] and the sample: its threads continue to
/// read while bufferlab queries its counters.
const AT_EDGE: &str = "server_edge_read_bytes";
/// The names of the server's counters, in the order of [`Totals`].
const COUNTERS: [&str; 8] = [
    "server_read_bytes",
    "server_write_bytes",
    "server_user_us",
    "server_system_us",
    "server_minor_faults",
    "server_major_faults",
    "server_call_read_bytes",
    "server_call_write_bytes",
];

/// Bytes read and written, clock ticks in user and in system mode, page faults without and with I/O, bytes of read and
/// of write calls.
type Totals = [Option<u64>; COUNTERS.len()];

/// The probe of another process and its children.
///
/// The kernel adds a child's counts to its parent's once the parent has waited for the child. Between a child's death
/// and that moment its counts are missing, so the probe reports no count lower than the previous one.
pub struct ServerProbe {
    io: ProcFile,
    stat: ProcFile,
    statm: ProcFile,
    children: ProcFile,
    told: [i64; COUNTERS.len()],
    /// The bytes that the server had read at [`Probe::before_edge`]; none after the sample at that edge of the window.
    before_edge: Option<u64>,
    page_bytes: f64,
    microseconds_per_tick: u64,
    subject: Arc<str>,
}

impl ServerProbe {
    /// Makes a probe of the process `pid`. Opens the files once, so that it never mistakes a later process with the
    /// same ID for it.
    pub fn new(pid: u32) -> Self {
        let open = |file: &str| ProcFile::open(&format!("/proc/{pid}/{file}"));
        // SAFETY: sysconf only reads a constant of the system.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        Self {
            io: open("io"),
            stat: open("stat"),
            statm: open("statm"),
            children: open(&format!("task/{pid}/children")),
            told: [0; COUNTERS.len()],
            before_edge: None,
            page_bytes: page_bytes as f64,
            microseconds_per_tick: microseconds_per_tick(),
            subject: "".into(),
        }
    }

    /// Returns the process's own counts, with those of the children for which it has waited. Each file that cannot be
    /// read gives its own error.
    fn own(&mut self) -> [Result<Option<u64>, Arc<str>>; COUNTERS.len()] {
        let each = |values: Result<[Option<u64>; 4], Arc<str>>| match values {
            Ok(values) => values.map(Ok),
            Err(reason) => std::array::from_fn(|_| Err(Arc::clone(&reason))),
        };
        in_order(each(self.io.read().map(io::storage_bytes)), each(self.stat.read().map(with_ended_children)))
    }

    /// Returns the process IDs of the server's living children; none if the kernel does not report them.
    fn children(&mut self) -> Vec<u64> {
        self.children.read().map_or_else(|_| Vec::new(), |text| fields(text).filter_map(number).collect())
    }
}

/// Returns a process's ticks and faults, with those of children for which it has waited. The kernel itself adds the bytes
/// of such children to their parent's.
fn with_ended_children(stat: &[u8]) -> [Option<u64>; 4] {
    process_stat::process_stat(stat).map(|[own, children]| own.map(|own| own + children.unwrap_or(0)))
}

/// Puts the values of /proc/PID/io and of /proc/PID/stat into the order of [`Totals`].
fn in_order<T>(io: [T; 4], stat: [T; 4]) -> [T; COUNTERS.len()] {
    let ([read, written, call_read, call_written], [user, system, minor, major]) = (io, stat);
    [read, written, user, system, minor, major, call_read, call_written]
}

/// Returns a child's counts, and its memory in pages without shared pages; none if the child has ended meanwhile.
fn child(pid: u64) -> Option<(Totals, u64)> {
    let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).ok();
    let stat = with_ended_children(&read("stat")?);
    let totals = in_order(io::storage_bytes(&read("io")?), stat);
    let memory = read("statm")?;
    // Every process's resident memory includes shared memory: count only a child's own pages.
    let own_pages = io::resident_pages(&memory)?.saturating_sub(io::shared_pages(&memory)?);
    Some((totals, own_pages))
}

impl Probe for ServerProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn before_edge(&mut self) {
        self.before_edge = self.own()[0].as_ref().ok().copied().flatten();
    }

    fn sample(&mut self, out: &mut Vec<Reading>) {
        let children: Vec<(Totals, u64)> = self.children().into_iter().filter_map(child).collect();
        let own = self.own();
        if let (Some(before), Ok(Some(now))) = (self.before_edge.take(), &own[0]) {
            out.push(Reading::gauge(NAME, AT_EDGE, &self.subject, now.saturating_sub(before) as f64));
        }
        for (place, (metric, value)) in COUNTERS.into_iter().zip(own).enumerate() {
            let sum = value.and_then(|value| {
                let own = value.ok_or_else(|| Arc::from("the kernel does not tell it"))?;
                let sum = own + children.iter().filter_map(|(totals, _)| totals[place]).sum::<u64>();
                let count =
                    if metric.ends_with("_us") { sum.checked_mul(self.microseconds_per_tick) } else { Some(sum) };
                count.and_then(|count| i64::try_from(count).ok()).ok_or_else(|| Arc::from("the count is too large"))
            });
            let count = sum.map(|count| {
                self.told[place] = self.told[place].max(count);
                self.told[place]
            });
            out.push(Reading::counter_or(NAME, metric, &self.subject, count));
        }
        let resident_pages = self.statm.read().map(io::resident_pages);
        let resident_pages = resident_pages.and_then(|pages| pages.ok_or_else(|| "the kernel does not tell it".into()));
        let of_children: u64 = children.iter().map(|(_, pages)| pages).sum();
        let resident_bytes = resident_pages.map(|pages| (pages + of_children) as f64 * self.page_bytes);
        out.push(Reading::gauge_or(NAME, "server_resident_bytes", &self.subject, resident_bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn another_process_is_read_while_it_lives_and_null_with_a_reason_afterwards() {
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep is everywhere");
        let mut probe = ServerProbe::new(child.id());
        let mut out = Vec::new();
        probe.sample(&mut out);
        assert_eq!(out.len(), COUNTERS.len() + 1);
        assert!(out.iter().all(|row| row.reason.is_none()), "{out:?}");
        assert!(out.iter().any(|row| row.metric == "server_resident_bytes" && row.value > Some(0.0)));
        child.kill().expect("it lives");
        child.wait().expect("it was a child");
        out.clear();
        probe.sample(&mut out);
        assert!(out.iter().all(|row| row.reason.is_some()), "{out:?}");
    }

    #[test]
    fn an_edge_tells_what_was_read_since_it_began_and_other_samples_do_not() {
        let mut probe = ServerProbe::new(std::process::id());
        let edge = |out: &[Reading]| out.iter().find(|row| row.metric == AT_EDGE).map(|row| row.value);
        let mut out = Vec::new();
        probe.before_edge();
        probe.sample(&mut out);
        assert!(edge(&out).flatten().is_some(), "{out:?}");
        out.clear();
        probe.sample(&mut out);
        assert_eq!(edge(&out), None);
    }

    #[test]
    fn the_work_of_children_counts_while_they_live_and_after_they_were_waited_for() {
        // A shell that runs two busy children, one after the other, and then waits for this test.
        let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let script = format!("({work}) ; ({work}) & echo both; wait; echo ended; read line");
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell is everywhere");
        let mut probe = ServerProbe::new(shell.id());
        let mut said = std::io::BufReader::new(shell.stdout.take().expect("it is piped"));
        let mut line = String::new();
        let mut user_us = Vec::new();
        while user_us.len() < 2 {
            line.clear();
            std::io::BufRead::read_line(&mut said, &mut line).expect("it says two words");
            let mut out = Vec::new();
            probe.sample(&mut out);
            let row = out.iter().find(|row| row.metric == "server_user_us").expect("it is told");
            user_us.push(row.count.expect("it is a count"));
        }
        drop(shell.stdin.take());
        shell.wait().expect("it was a child");
        // The shell itself does nothing that a tick of 10 ms would show.
        assert!(user_us[0] > 0 && user_us[1] > user_us[0], "{user_us:?}");
    }
}
