//! A run in which another program drives the server: sysbench, tpcc-mysql, go-tpc, or any other client of MySQL's
//! protocol.
//!
//! The server counts the program's transactions. bufferlab cannot pause the program, so the run samples the edges of
//! the window while the program works. The run does not measure latencies. The program's output goes to this process's
//! standard error, which is the run's log. At its end the run ends the program's process group. If this process dies,
//! the kernel kills the program.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bufferlab_probe::Reading;

use super::session::MysqlServer;
use crate::event::{Edge, Phase};
use crate::failure::{Failure, FailureKind};
use crate::finished::{Finished, Part, WarmedUp};
use crate::gate::{GateEnd, Window};
use crate::gate_feed::GateFeed;
use crate::sampler::EngineCounters;
use crate::server::job::{Counted, ProgramJob};
use crate::server::session::Session;

/// Time between two polls of the server's count of transactions.
const LOOK: Duration = Duration::from_millis(60);
/// Time that the program gets to end on request. Then the run kills it.
const GRACE: Duration = Duration::from_secs(5);

/// The server's counters, and the counter that counts the program's transactions.
pub(super) struct ProgramCounters {
    counters: Box<dyn EngineCounters>,
    rows: &'static [(&'static str, &'static str)],
    subject: Arc<str>,
}

impl ProgramCounters {
    pub fn new(counters: Box<dyn EngineCounters>, counted: Counted) -> Self {
        let rows: &[_] = match counted {
            Counted::Commits => {
                &[("com_commit", "transactions_committed"), ("com_rollback", "transactions_rolled_back")]
            }
            Counted::Questions => &[("questions", "transactions_committed")],
        };
        ProgramCounters { counters, rows, subject: Arc::from("program") }
    }
}

impl EngineCounters for ProgramCounters {
    fn read(&mut self, out: &mut Vec<Reading>) -> Result<(), Failure> {
        let first = out.len();
        self.counters.read(out)?;
        for (counter, metric) in self.rows {
            let count = out[first..].iter().find(|row| row.metric == *counter).and_then(|row| row.count);
            if let Some(count) = count {
                out.push(Reading::counter("workload", metric, &self.subject, count));
            }
        }
        Ok(())
    }
}

/// A running program. Dropping it ends the program.
struct Running<'a> {
    child: Child,
    job: &'a ProgramJob,
    /// Whether this process has waited for the child's end. From then on the child's process ID may belong to another
    /// process.
    reaped: bool,
}

impl<'a> Running<'a> {
    fn start(job: &'a ProgramJob) -> Result<Self, Failure> {
        let unusable = |what: String| {
            let hint = "check the program's name and that it is installed";
            Failure::new(FailureKind::Environment, what, job.argv.join(" "), hint)
        };
        let (program, arguments) = job.argv.split_first().ok_or_else(|| unusable("no program is named".to_owned()))?;
        // The program writes to this process's standard error, because this process's standard output carries events.
        let log = std::io::stderr().as_fd().try_clone_to_owned().map_err(|error| unusable(error.to_string()))?;
        let mut command = Command::new(program);
        command.args(arguments).envs(job.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::from(File::from(log))).process_group(0);
        let parent = std::process::id();
        // SAFETY: the closure makes only calls that are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // Fail if the parent ended before the child asked for the signal at its parent's end.
                if libc::getppid() as u32 == parent { Ok(()) } else { Err(std::io::ErrorKind::Interrupted.into()) }
            });
        }
        let child = command.spawn().map_err(|error| unusable(format!("the program cannot be started: {error}")))?;
        Ok(Running { child, job, reaped: false })
    }

    /// Returns an error when the program has ended by itself.
    fn check(&mut self) -> Result<(), Failure> {
        let ended = if self.has_ended() { self.reap() } else { None };
        ended.map_or(Ok(()), |status| {
            let what = format!("the program ended before its time ({})", said(status));
            let hint = "let it run for longer than warm-up and window; what it printed is in the run's log";
            Err(Failure::new(FailureKind::Usage, what, self.job.argv.join(" "), hint))
        })
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the group was made for the child. Nobody has waited for the child yet, so the number still belongs to
        // it.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), signal) };
    }

    /// Returns true when the program has ended. It does not reap the process, so the process ID still belongs to the
    /// program's group.
    fn has_ended(&self) -> bool {
        // SAFETY: waitid(2) writes into a structure of the right type, for which any bytes are valid.
        unsafe {
            let mut told: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.child.id(), &raw mut told, how) == 0 && told.si_pid() != 0
        }
    }

    /// Kills the rest of the program's process group, and waits for the program.
    fn reap(&mut self) -> Option<ExitStatus> {
        self.signal(libc::SIGKILL);
        self.reaped = true;
        self.child.wait().ok()
    }

    /// Asks the program's process group to end. Kills the rest of the group when the program has ended, or after
    /// [`GRACE`].
    fn stop(&mut self) {
        if self.reaped {
            return;
        }
        self.signal(libc::SIGTERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE && !self.has_ended() {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.reap();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.stop();
    }
}

fn said(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("status {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or(0)),
    }
}

/// Runs warm-up and window while the program runs, then stops the program.
pub(super) fn measure(session: &mut Session<'_, MysqlServer>, program: &ProgramJob) -> Result<Finished, Failure> {
    let job = session.job;
    let mut finished = Finished::default();
    session.sampler.enter(Phase::WarmUp, None, job.warm_up.limit.transactions);
    let (before, first) = look(session, program.counted)?;
    let begun = Instant::now();
    let mut running = Running::start(program)?;
    let mut feed = GateFeed::new(job.frames, job.warm_up.patience, Window::of(before));
    let (mut done, mut gate, mut at_cap) = (0, None, false);
    loop {
        if session.is_cancelled() {
            break;
        }
        running.check()?;
        let (misses, transactions) = look(session, program.counted)?;
        done = transactions - first;
        gate = if feed.is_due(done) { feed.look(done, Window::of(misses)) } else { None };
        if gate.is_none() && (done >= job.warm_up.limit.transactions || begun.elapsed() >= job.warm_up.limit.time()) {
            gate = Some(feed.at_limit());
            at_cap = gate != Some(GateEnd::Cap);
        }
        if gate.is_some() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    let part = Part { transactions: done, seconds: begun.elapsed().as_secs_f64() };
    finished.warm_up = WarmedUp { gate, misses: feed.misses(), at_cap, part };
    finished.interrupted = gate.is_none();
    if !finished.interrupted {
        session.sampler.enter(Phase::Measure, None, job.measure.transactions);
        (finished.measured, finished.interrupted) = window(session, program, &mut running)?;
    }
    running.stop();
    Ok(finished)
}

/// Runs the window. Returns its transactions and seconds, and true when the user interrupted it. The window ends with
/// the first poll that finds its transactions or its time used up.
fn window(
    session: &mut Session<'_, MysqlServer>,
    program: &ProgramJob,
    running: &mut Running<'_>,
) -> Result<(Part, bool), Failure> {
    let limit = session.job.measure;
    session.edge(Edge::Start)?;
    let (_, first) = look(session, program.counted)?;
    let begun = Instant::now();
    let mut done = 0;
    while done < limit.transactions && begun.elapsed() < limit.time() && !session.is_cancelled() {
        std::thread::sleep(LOOK);
        running.check()?;
        done = look(session, program.counted)?.1 - first;
    }
    let part = Part { transactions: done, seconds: begun.elapsed().as_secs_f64() };
    session.edge(Edge::End)?;
    Ok((part, session.is_cancelled()))
}

/// Returns the demand misses, and the program's transactions, since the server started.
fn look(session: &mut Session<'_, MysqlServer>, counted: Counted) -> Result<(u64, u64), Failure> {
    let names: &[&str] = match counted {
        Counted::Commits => &["com_commit", "com_rollback"],
        Counted::Questions => &["questions"],
    };
    session.server.misses.read_with(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(script: &str) -> ProgramJob {
        ProgramJob {
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            env: vec![("GREETING".to_owned(), "hello".to_owned())],
            counted: Counted::Commits,
        }
    }

    fn lives(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// Returns the process ID that a program writes into a file.
    fn written(file: &std::path::Path) -> u32 {
        loop {
            if let Ok(pid) = std::fs::read_to_string(file).unwrap_or_default().trim().parse() {
                return pid;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn assert_ends(child: u32) {
        let begun = Instant::now();
        while lives(child) {
            assert!(begun.elapsed() < Duration::from_secs(10), "the program's child is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_program_and_its_children_end_with_the_run() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("pid");
        // The program and its child both ignore the request to end.
        let job = program(&format!("trap '' TERM; sleep 60 & echo $! > {}; wait; sleep 60", file.display()));
        let mut running = Running::start(&job).expect("sh is everywhere");
        running.check().expect("it runs");
        let child = written(&file);
        assert!(lives(child));
        running.signal(libc::SIGKILL);
        drop(running);
        assert_ends(child);
    }

    #[test]
    fn a_child_that_ignores_the_request_to_end_is_killed_when_its_program_has_ended_on_it() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("pid");
        // Only the child ignores the request to end. The program writes the child's process ID after it has stopped
        // ignoring the request itself.
        let job = program(&format!("trap '' TERM; sleep 60 & trap - TERM; echo $! > {}; wait", file.display()));
        let mut running = Running::start(&job).expect("sh is everywhere");
        let child = written(&file);
        assert!(lives(child));
        running.stop();
        assert_ends(child);
    }

    #[test]
    fn a_child_that_is_left_by_a_program_that_has_ended_is_killed() {
        let place = tempfile::tempdir().expect("a directory");
        let file = place.path().join("pid");
        for is_looked_at in [true, false] {
            let job = program(&format!("sleep 60 & echo $! > {}", file.display()));
            let mut running = Running::start(&job).expect("sh is everywhere");
            let child = written(&file);
            while !running.has_ended() {
                std::thread::yield_now();
            }
            assert!(lives(child));
            if is_looked_at {
                running.check().expect_err("it has ended");
            }
            drop(running);
            assert_ends(child);
            std::fs::remove_file(&file).expect("it was written");
        }
    }

    #[test]
    fn one_that_ends_by_itself_is_a_failure_that_says_how() {
        let job = program("test $GREETING = hello && exit 3");
        let mut running = Running::start(&job).expect("sh is everywhere");
        let failure = loop {
            if let Err(failure) = running.check() {
                break failure;
            }
        };
        assert!(failure.what.contains("status 3"), "{failure}");
        assert_eq!(failure.kind, FailureKind::Usage);
    }

    #[test]
    fn one_that_does_not_exist_is_named() {
        let job = ProgramJob { argv: vec!["no-such-program".to_owned()], env: Vec::new(), counted: Counted::Questions };
        let failure = Running::start(&job).err().expect("it does not exist");
        assert!(failure.place.contains("no-such-program"), "{failure}");
    }
}
