//! Finds processes that outlive the tests. A leaked broker occupies a port and a folder, and makes some later
//! run fail.
//!
//! The test runner itself notices only processes that keep its pipe open, which a supervised server does not.

use std::fs::{read, read_dir};
use std::process::{Command, id};
use std::thread::park_timeout;
use std::time::Duration;

/// Environment variable that marks the processes started by the tests. Child processes inherit it.
const MARK_VARIABLE: &str = "RETRO_TESTS_OF";

/// Maximum number of times that the processes are listed. A process that was just told to stop needs a
/// moment.
const POLLS_MAX: u32 = 20;
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Marks every process that `command` starts, directly or indirectly, with an environment variable.
pub(super) fn mark_descendants(command: &mut Command) -> &mut Command {
    command.env(MARK_VARIABLE, id().to_string())
}

/// Lists the marked processes that are still running after up to 2 s, each as its ID and command line.
/// Returns an empty list on systems without `/proc`.
pub(super) fn find_leaked() -> Vec<String> {
    let mut found = list_marked();
    for _ in 1..POLLS_MAX {
        if found.is_empty() {
            break;
        }
        park_timeout(POLL_INTERVAL);
        found = list_marked();
    }
    found
}

fn list_marked() -> Vec<String> {
    let mark = format!("{MARK_VARIABLE}={}", id());
    let Ok(processes) = read_dir("/proc") else {
        return Vec::new();
    };
    let folders = processes.flatten().map(|entry| entry.path());
    let ours = folders.filter(|folder| {
        // The read fails for a process that has just ended or belongs to another user.
        let environment = read(folder.join("environ")).unwrap_or_default();
        // Whole variables are compared, because process 12 must not match the mark of process 123.
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    });
    let lines = ours.map(|folder| {
        let line = read(folder.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let id = folder.file_name().unwrap_or_default().to_string_lossy();
        format!("{id} {}", line.trim_end())
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_running_process_is_listed_and_an_ended_one_is_not() {
        let mut command = Command::new("cat");
        let mut left =
            mark_descendants(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // `spawn` can return before the kernel shows the new program's environment. An answer proves that it
        // does.
        left.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        left.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let found = list_marked();
        assert_eq!(found, [format!("{} cat", left.id())]);
        drop(left.stdin.take());
        left.wait().unwrap();
        assert!(find_leaked().is_empty());
    }
}
