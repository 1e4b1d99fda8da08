//! Creates files and folders that no other user of the machine may read, regardless of the umask that the
//! process was started with.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::error::ServerError;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Permission bits of group and others.
const OTHERS_MASK: u32 = 0o077;

/// Creates a folder that only its owner can access, or restricts an existing one to its owner.
pub(super) fn create_private_folder(path: &Path) -> Result<(), ServerError> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path);
    made.map_err(ServerError::io_error(format!("create {}", path.display())))?;
    restrict_to_owner(path)
}

/// Removes the permissions of group and others from a file or folder.
pub(super) fn restrict_to_owner(path: &Path) -> Result<(), ServerError> {
    let close = || -> io::Result<()> {
        let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
        // Already restricted: do not change it, even if it belongs to another user.
        if mode & OTHERS_MASK == 0 {
            Ok(())
        } else {
            fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS_MASK))
        }
    };
    close().map_err(ServerError::io_error(format!("restrict {} to its owner", path.display())))
}

/// Creates a file atomically, readable only by its owner.
pub(super) fn create_private_file(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    let fresh = path.with_extension("new");
    let write = || {
        // A file left by a killed process would keep its old mode.
        let _ = fs::remove_file(&fresh);
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(ServerError::io_error(format!("write {}", path.display())))
}

/// Overwrites a file in place, which needs no additional space on a full disk.
pub(super) fn overwrite_private_file(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    // Restricted before the new content is written, so that the content is never readable by others.
    let mut file = append_private_file(path)?;
    let write = file.set_len(0).and_then(|()| file.write_all(bytes));
    write.map_err(ServerError::io_error(format!("write {}", path.display())))
}

/// Opens a file for appending and creates it if it does not exist.
pub(super) fn append_private_file(path: &Path) -> Result<File, ServerError> {
    let file = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path);
    let file = file.map_err(ServerError::io_error(format!("open {}", path.display())))?;
    restrict_to_owner(path)?;
    Ok(file)
}
