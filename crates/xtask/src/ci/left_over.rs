//! Processes that outlive the tests: a broker that nobody stopped holds a port and a folder, and shows itself in some
//! later run. The test runner sees one only when it kept the runner's pipe, which a supervised server does not.

use std::fs::{read, read_dir};
use std::process::{Command, id};
use std::thread::park_timeout;
use std::time::Duration;

/// What every process that descends from a test carries in its environment.
const NAME: &str = "RETRO_TESTS_OF";

/// How often, and how far apart, the processes are looked at: one that was just told to end needs a moment.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Marks everything that `command` will start.
pub(super) fn mark(command: &mut Command) -> &mut Command {
    command.env(NAME, id().to_string())
}

/// What marked processes are still there: id and command line. None where there is no `/proc`.
pub(super) fn left_over() -> Vec<String> {
    let mut found = marked();
    for _ in 1..LOOKS {
        if found.is_empty() {
            break;
        }
        park_timeout(BETWEEN_LOOKS);
        found = marked();
    }
    found
}

fn marked() -> Vec<String> {
    let mark = format!("{NAME}={}", id());
    let Ok(processes) = read_dir("/proc") else {
        return Vec::new();
    };
    let folders = processes.flatten().map(|entry| entry.path());
    let ours = folders.filter(|folder| {
        // A process that ended a moment ago, or that is somebody else's, cannot be read.
        let environment = read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    });
    let told = ours.map(|folder| {
        let line = read(folder.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        let id = folder.file_name().unwrap_or_default().to_string_lossy();
        format!("{id} {}", line.trim_end())
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_process_that_is_still_there_is_named_and_one_that_ended_is_not() {
        let mut command = Command::new("cat");
        let mut left = mark(&mut command).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The kernel lets `spawn` return before it shows the new program's environment: an answer is proof of it.
        left.stdin.as_mut().unwrap().write_all(b"?").unwrap();
        left.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let found = marked();
        assert_eq!(found, [format!("{} cat", left.id())]);
        drop(left.stdin.take());
        left.wait().unwrap();
        assert!(left_over().is_empty());
    }
}
