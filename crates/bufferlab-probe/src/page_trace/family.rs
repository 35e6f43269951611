//! The processes of a server: the first one, and those that it starts.

use std::collections::HashMap;
use std::fs;

/// A server's processes among those asked about so far.
#[derive(Debug)]
pub(super) struct Family {
    server: u32,
    belongs: HashMap<u32, bool>,
    /// Whether a process of the binary that ended before we asked counts as the server's.
    had_the_gone: bool,
    /// The process asked about last: most often the next record has the same.
    last: (u32, bool),
}

impl Family {
    /// Returns the family of this process.
    pub fn of(server: u32) -> Self {
        Self { server, belongs: HashMap::new(), had_the_gone: true, last: (server, true) }
    }

    /// Returns the processes that ran the server's binary and did not belong to it.
    pub fn strangers(&self) -> Vec<u32> {
        let mut strangers: Vec<u32> =
            self.belongs.iter().filter(|(_, belongs)| !**belongs).map(|(pid, _)| *pid).collect();
        strangers.sort_unstable();
        strangers
    }

    /// Returns whether a process that runs the server's binary is the server or its child.
    pub fn has(&mut self, pid: u32) -> bool {
        if self.last.0 != pid {
            let Self { server, had_the_gone, .. } = *self;
            let belongs = *self.belongs.entry(pid).or_insert_with(|| is_child(pid, server).unwrap_or(had_the_gone));
            // From now on a process that has ended may have belonged to another server.
            self.had_the_gone &= belongs || is_outside(pid);
            self.last = (pid, belongs);
        }
        self.last.1
    }
}

/// Returns true for the server and its children, and none for a process that has ended. Until another process of the
/// binary is seen, that one was the server's, since no other ran it when the trace began.
fn is_child(pid: u32, server: u32) -> Option<bool> {
    if pid == server || is_outside(pid) {
        return Some(pid == server);
    }
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything; then come the state and the parent.
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
    Some(parent.and_then(|parent| parent.parse().ok()) == Some(server))
}

/// Returns true for the numbers that processes outside of this PID namespace have: they are not the server's.
fn is_outside(pid: u32) -> bool {
    pid == 0 || pid == u32::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_and_its_children_belong_and_strangers_do_not() {
        let own = std::process::id();
        let mut family = Family::of(own);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        assert!(family.has(own) && family.has(child.id()) && family.has(own));
        // The first process, numbers of processes outside of this namespace, and our parent.
        let strangers = [1, 0, u32::MAX, std::os::unix::process::parent_id()].map(|pid| family.has(pid));
        assert_eq!(strangers, [false; 4]);
        let mut others = Family::of(child.id());
        assert!(!others.has(own));
        child.kill().expect("it lives");
        child.wait().expect("it was ours");
        // A process that ended before the question is ours, unless another server's process was seen.
        let mut gone = std::process::Command::new("true").spawn().expect("a child");
        gone.wait().expect("it ends");
        let (mut alone, mut beside) = (Family::of(own), Family::of(own));
        assert!(!alone.has(0) && alone.has(gone.id()) && alone.strangers() == [0]);
        assert!(!beside.has(1) && !beside.has(gone.id()) && beside.strangers() == [1, gone.id()]);
    }
}
