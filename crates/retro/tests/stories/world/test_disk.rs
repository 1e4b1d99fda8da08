//! A small file system of a test, whose free space the test decides.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of attempts to shrink a file system. One fails if the program has written more than may be free since its
/// content was measured.
const SHRINK_ATTEMPTS: u32 = 20;

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
        for _ in 1..SHRINK_ATTEMPTS {
            if self
                .build_resize(&self.fitting_size(bytes))
                .output()
                .expect("mount can be run")
                .status
                .success()
            {
                return;
            }
        }
        run_checked(&mut self.build_resize(&self.fitting_size(bytes)));
    }

    fn fitting_size(&self, free: u64) -> String {
        let output = Command::new("du").args(["-s", "-B1"]).arg(&self.0).output().expect("du can be run");
        let used = String::from_utf8(output.stdout).expect("text");
        let used: u64 = used.split_whitespace().next().and_then(|used| used.parse().ok()).expect("a size");
        (used + free).to_string()
    }

    /// Gives the file system its size back.
    pub(crate) fn make_room(&self) {
        run_checked(&mut self.build_resize("8g"));
    }

    fn build_resize(&self, size: &str) -> Command {
        let mut command = Command::new("mount");
        command.args(["-o", &format!("remount,size={size}")]).arg(&self.0);
        command
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
