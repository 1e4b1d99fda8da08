//! A small file system of a test, whose free space the test decides.

use std::path::{Path, PathBuf};
use std::process::Command;

/// An in-memory file system with an adjustable size, removed at the end of the test.
pub(crate) struct TestDisk(PathBuf);

impl TestDisk {
    /// Mounts the file system at a folder, which requires root.
    pub(crate) fn mount(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).expect("a folder");
        // The broker reserves the size of its streams and does not start with less.
        run_checked(Command::new("mount").args(["-t", "tmpfs", "-o", "size=8g", "tmpfs"]).arg(folder));
        Self(folder.to_owned())
    }

    /// Shrinks the file system to its content plus this many free bytes.
    pub(crate) fn leave_free(&self, bytes: u64) {
        let output = Command::new("du").args(["-s", "-B1"]).arg(&self.0).output().expect("du can be run");
        let used = String::from_utf8(output.stdout).expect("text");
        let used: u64 = used.split_whitespace().next().and_then(|used| used.parse().ok()).expect("a size");
        self.resize(&(used + bytes).to_string());
    }

    /// Gives the file system its size back.
    pub(crate) fn make_room(&self) {
        self.resize("8g");
    }

    fn resize(&self, size: &str) {
        run_checked(Command::new("mount").args(["-o", &format!("remount,size={size}")]).arg(&self.0));
    }
}

impl Drop for TestDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Runs a command. Panics with its output if it fails.
pub(crate) fn run_checked(command: &mut Command) {
    let ran = command.output().expect("mount can be run");
    assert!(ran.status.success(), "{command:?}: {}", String::from_utf8_lossy(&ran.stderr));
}
