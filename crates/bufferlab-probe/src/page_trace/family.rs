//! The processes of a server: the first one, and those that it starts.

use std::collections::HashMap;
use std::fs;

/// A server's processes among those asked about so far.
#[derive(Debug)]
pub(super) struct Family {
    server: u32,
    belongs: HashMap<u32, bool>,
    /// The process asked about last: most often the next record has the same.
    last: (u32, bool),
}

impl Family {
    /// Returns the family of this process.
    pub fn of(server: u32) -> Self {
        Self { server, belongs: HashMap::new(), last: (server, true) }
    }

    /// Returns whether a process that runs the server's binary is the server or its child.
    pub fn has(&mut self, pid: u32) -> bool {
        if self.last.0 != pid {
            let server = self.server;
            self.last = (pid, *self.belongs.entry(pid).or_insert_with(|| is_child(pid, server)));
        }
        self.last.1
    }
}

/// Returns true for a child of the server, and for a process that has gone: no other process ran the binary when the
/// server started. Processes outside of this PID namespace have the number 0 or -1, and are not the server's.
fn is_child(pid: u32, server: u32) -> bool {
    if pid == server || pid == 0 || pid == u32::MAX {
        return pid == server;
    }
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The name in brackets may hold anything; then come the state and the parent.
    let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
    parent.and_then(|parent| parent.parse().ok()) == Some(server)
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
        // A process that has gone before the question.
        assert!(Family::of(own).has(child.id()));
    }
}
