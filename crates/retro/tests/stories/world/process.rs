//! Reads processes and locks from `/proc`, and sends signals.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running nats-server, identified by its process id and start time, so a process that reuses the id is not
/// mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokerProcess {
    pid: u32,
    started: u64,
}

impl BrokerProcess {
    /// Finds the running nats-server that is a child of this process.
    pub(crate) fn find_child(parent: u32) -> Option<Self> {
        let processes = fs::read_dir("/proc").expect("the kernel shows processes");
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut children = pids.filter_map(|pid| Some((pid, ProcessStat::read(pid)?)));
        let broker = |stat: &ProcessStat| stat.parent == parent && stat.name == "nats-server" && stat.lives;
        children.find(|(_, stat)| broker(stat)).map(|(pid, stat)| Self { pid, started: stat.started })
    }

    /// Returns the process id of the broker.
    pub(crate) const fn pid(self) -> u32 {
        self.pid
    }

    pub(crate) fn is_gone(self) -> bool {
        ProcessStat::read(self.pid).is_none_or(|stat| stat.started != self.started || !stat.lives)
    }

    /// Kills the broker with SIGKILL. The broker may have ended already.
    pub(crate) fn kill(self) {
        match kill(to_pid(self.pid), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => panic!("our own broker cannot be killed: {error}"),
        }
    }
}

/// Fields of `/proc/<pid>/stat`.
struct ProcessStat {
    name: String,
    lives: bool,
    stopped: bool,
    parent: u32,
    started: u64,
}

impl ProcessStat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (before, after) = text.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<_> = after.split_whitespace().collect();
        Some(Self {
            name: name.to_owned(),
            stopped: *fields.first()? == "T",
            lives: !matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Sends SIGTERM to a process.
pub(crate) fn terminate(pid: u32) {
    kill(to_pid(pid), Signal::SIGTERM).expect("our own child");
}

/// Sends a process SIGINT.
pub(crate) fn interrupt(pid: u32) {
    kill(to_pid(pid), Signal::SIGINT).expect("our own child");
}

/// Stops a process with SIGSTOP.
pub(crate) fn freeze(pid: u32) {
    kill(to_pid(pid), Signal::SIGSTOP).expect("our own child");
}

/// Resumes a stopped process.
pub(crate) fn resume(pid: u32) {
    kill(to_pid(pid), Signal::SIGCONT).expect("our own child");
}

/// Kills a process with SIGKILL.
pub(crate) fn kill_process(pid: u32) {
    kill(to_pid(pid), Signal::SIGKILL).expect("our own child");
}

/// Returns `true` if a process is stopped.
pub(crate) fn is_stopped(pid: u32) -> bool {
    ProcessStat::read(pid).is_some_and(|stat| stat.stopped)
}

/// Returns `true` if a process has a write lock on a file, according to `/proc/locks`.
pub(crate) fn holds_write_lock(pid: u32, file: &Path) -> bool {
    let Ok(inode) = fs::metadata(file).map(|found| found.ino()) else { return false };
    let locks = fs::read_to_string("/proc/locks").expect("the kernel shows locks");
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, "WRITE", holder, place, ..] = words[..] else { return false };
        holder == pid.to_string() && place.rsplit(':').next() == Some(&inode.to_string())
    })
}

fn to_pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a process id fits"))
}
