//! Files and folders that nobody else on the machine may read, whatever the process was started with.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use super::ServerError;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Makes a folder, or closes one to others that is there.
pub(super) fn create_private_folder(path: &Path) -> Result<(), ServerError> {
    let made = DirBuilder::new().recursive(true).mode(FOLDER).create(path);
    made.map_err(ServerError::io(format!("create {}", path.display())))?;
    let closed = fs::set_permissions(path, Permissions::from_mode(FOLDER));
    closed.map_err(ServerError::io(format!("close {} to others", path.display())))
}

/// Writes a file whole or not at all.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> Result<(), ServerError> {
    let fresh = path.with_extension("new");
    let write = || {
        // One that was left by a process that was killed may be open to others; a new one is not.
        let _ = fs::remove_file(&fresh);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE).open(&fresh)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(ServerError::io(format!("write {}", path.display())))
}

/// Opens a file to write behind what it holds, and makes it when it is missing.
pub(super) fn append_private(path: &Path) -> Result<File, ServerError> {
    let open = || {
        let file = OpenOptions::new().create(true).append(true).mode(FILE).open(path)?;
        file.set_permissions(Permissions::from_mode(FILE))?;
        Ok(file)
    };
    open().map_err(ServerError::io(format!("open {}", path.display())))
}
