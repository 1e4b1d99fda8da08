//! Whether the disk has room again for a server that could not write.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// A server that could not write is started again once so much is free: it reads its store anew, and would fail at
/// once on a disk that has room for a few messages only.
const FREE_BYTES: u64 = 64 * 1024 * 1024;

/// Whether a folder's disk has room. One that cannot be asked is taken to have none.
pub(super) fn is_there(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|disk| disk.blocks_available() * disk.fragment_size() >= FREE_BYTES)
}
