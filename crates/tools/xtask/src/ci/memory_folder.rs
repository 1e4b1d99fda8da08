//! Keeps the files of the tests in memory. Hundreds of tests create a database or the store of a broker and remove it
//! again, and both wait for the disk at every commit. The tests kill processes, not the machine, so nothing that they
//! prove depends on a disk; those of full disks mount file systems of their own.

use std::env::var_os;
use std::fs::{Permissions, read_to_string};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};
use tempfile::{Builder, TempDir};

/// Folder of Linux that is in memory.
const SHARED_MEMORY: &str = "/dev/shm";
/// Space and memory that must be free, in bytes. On two cores the tests take 200 MB of it at a time, and a broker does not
/// start where its streams could not have the gigabyte that they reserve.
const FREE_BYTES_MIN: u64 = 4 << 30;

/// Creates a folder in memory for the tests, which is removed when it is dropped. Returns `None` if the machine has no
/// such folder with enough space, or if `TMPDIR` names another one.
pub(super) fn create_memory_folder() -> Option<TempDir> {
    if var_os("TMPDIR").is_some() || !has_room(Path::new(SHARED_MEMORY)) || free_memory()? < FREE_BYTES_MIN {
        return None;
    }
    // Postgres, which root may not run, runs as another user and must get through.
    let permissions = Permissions::from_mode(0o711);
    Builder::new().prefix("retrospect-tests-").permissions(permissions).tempdir_in(SHARED_MEMORY).ok()
}

/// Returns `true` if the folder has enough space and its programs may be run: tests copy Postgres and install Git hooks.
fn has_room(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|found| {
        let free = found.blocks_available().saturating_mul(found.fragment_size());
        free >= FREE_BYTES_MIN && !found.flags().intersects(FsFlags::ST_NOEXEC | FsFlags::ST_RDONLY)
    })
}

/// Returns the memory that new programs can use without swapping, in bytes.
fn free_memory() -> Option<u64> {
    parse_free_memory(&read_to_string("/proc/meminfo").ok()?)
}

fn parse_free_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read_in_bytes() {
        let meminfo = "MemTotal:       24684092 kB\nMemAvailable:   23123456 kB\nBuffers: 1 kB\n";
        assert_eq!(parse_free_memory(meminfo), Some(23_123_456 * 1024));
        assert_eq!(parse_free_memory("MemTotal: 1 kB"), None);
    }

    #[test]
    fn a_missing_folder_has_no_room() {
        assert!(!has_room(Path::new("/missing")));
    }
}
