//! Checks whether the disk of a server that could not write has space again.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Minimum free space, in bytes, for restarting a server that could not write. The server reads its store
/// again, and would fail immediately on a disk with space for only a few messages.
const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// Returns `true` if the folder's disk has enough free space, and `false` if that cannot be determined.
pub(super) fn has_free_space(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() >= FREE_BYTES_MIN)
}
