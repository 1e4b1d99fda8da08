//! Checks whether the disk has space again for a server that could not write.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// Minimum free space, in bytes, before a server that could not write is restarted. The server reads its store again,
/// and would fail immediately on a disk with space for only a few messages.
const FREE_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// Returns whether the disk that contains a folder has enough free space; `false` if that cannot be determined.
pub(super) fn has_free_space(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() >= FREE_BYTES_MIN)
}
