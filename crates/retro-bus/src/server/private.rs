//! Files and folders that nobody else on the machine may read, whatever the process was started with.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::ServerError;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
/// The bits of a mode by which others may do something.
const OTHERS: u32 = 0o077;

/// Makes a folder, or closes one to others that is there.
pub(super) fn create_private_folder(path: &Path) -> Result<(), ServerError> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER).create(path);
    made.map_err(ServerError::io(format!("create {}", path.display())))?;
    close_to_others(path)
}

/// Takes from others what they may do with a file or folder.
pub(super) fn close_to_others(path: &Path) -> Result<(), ServerError> {
    let close = || -> io::Result<()> {
        let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
        // One that is closed is left alone: whose it is does not matter then.
        if mode & OTHERS == 0 {
            Ok(())
        } else {
            fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))
        }
    };
    close().map_err(ServerError::io(format!("close {} to others", path.display())))
}

/// Makes a file, whole or not at all.
pub(super) fn create_private(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    let fresh = path.with_extension("new");
    let write = || {
        // What a process that was killed has left would be no new file.
        let _ = fs::remove_file(&fresh);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(FILE).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(ServerError::io(format!("write {}", path.display())))
}

/// Writes a file anew in its place, which takes no room on a disk that has none.
pub(super) fn overwrite_private(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    // Closed while it still has what it had: what is written is open to others at no moment.
    let mut file = append_private(path)?;
    let write = file.set_len(0).and_then(|()| file.write_all(bytes));
    write.map_err(ServerError::io(format!("write {}", path.display())))
}

/// Opens a file to write behind what it holds, and makes it when it is missing.
pub(super) fn append_private(path: &Path) -> Result<File, ServerError> {
    let file = OpenOptions::new().create(true).append(true).mode(FILE).open(path);
    let file = file.map_err(ServerError::io(format!("open {}", path.display())))?;
    close_to_others(path)?;
    Ok(file)
}
