//! Processes as the kernel shows them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A running nats-server, known by its id and the moment at which it started, so that another process that gets the
/// same id is not taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nats {
    pid: u32,
    started: u64,
}

impl Nats {
    /// The broker that this process supervises.
    pub(crate) fn of(parent: u32) -> Option<Self> {
        let processes = fs::read_dir("/proc").expect("the kernel shows processes");
        let pids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut children = pids.filter_map(|pid| Some((pid, Stat::of(pid)?)));
        let broker = |stat: &Stat| stat.parent == parent && stat.name == "nats-server" && stat.lives;
        children.find(|(_, stat)| broker(stat)).map(|(pid, stat)| Self { pid, started: stat.started })
    }

    /// Its process id.
    pub(crate) const fn pid(self) -> u32 {
        self.pid
    }

    pub(crate) fn is_gone(self) -> bool {
        Stat::of(self.pid).is_none_or(|stat| stat.started != self.started || !stat.lives)
    }

    /// Ends it by SIGKILL; it may have ended since it was seen.
    pub(crate) fn kill(self) {
        match kill(id(self.pid), Signal::SIGKILL) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => panic!("our own broker cannot be killed: {error}"),
        }
    }
}

/// What `/proc/<pid>/stat` says.
struct Stat {
    name: String,
    lives: bool,
    stopped: bool,
    parent: u32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
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

/// Asks a process to end.
pub(crate) fn terminate(pid: u32) {
    kill(id(pid), Signal::SIGTERM).expect("our own child");
}

/// The other way to ask.
pub(crate) fn interrupt(pid: u32) {
    kill(id(pid), Signal::SIGINT).expect("our own child");
}

/// Stops a process where it stands.
pub(crate) fn freeze(pid: u32) {
    kill(id(pid), Signal::SIGSTOP).expect("our own child");
}

/// Lets a stopped process go on.
pub(crate) fn wake(pid: u32) {
    kill(id(pid), Signal::SIGCONT).expect("our own child");
}

/// Ends a process by SIGKILL.
pub(crate) fn kill_at_once(pid: u32) {
    kill(id(pid), Signal::SIGKILL).expect("our own child");
}

/// Whether a process is stopped where it stands.
pub(crate) fn is_stopped(pid: u32) -> bool {
    Stat::of(pid).is_some_and(|stat| stat.stopped)
}

/// Whether a process holds a lock of a file by which it writes, as the kernel lists them.
pub(crate) fn holds_write_lock(pid: u32, file: &Path) -> bool {
    let Ok(inode) = fs::metadata(file).map(|found| found.ino()) else { return false };
    let locks = fs::read_to_string("/proc/locks").expect("the kernel shows locks");
    locks.lines().any(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, "WRITE", holder, place, ..] = words[..] else { return false };
        holder == pid.to_string() && place.rsplit(':').next() == Some(&inode.to_string())
    })
}

fn id(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a process id fits"))
}
