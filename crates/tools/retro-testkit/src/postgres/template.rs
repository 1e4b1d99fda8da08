//! Keeps an initialised cluster beside the test programs and copies it for each test: `initdb` takes about a
//! second of CPU, a copy a few hundredths.

use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Copies the cluster of these binaries to `data_dir`. Returns `false` if no test has kept one yet.
pub(super) fn copy_to(binaries: &Path, data_dir: &Path) -> bool {
    template_dir(binaries).is_some_and(|template| template.is_dir() && copy_folder(&template, data_dir))
}

/// Keeps a copy of a new cluster for later tests, unless another test has done so by now. A copy that fails is
/// not an error: later tests then make their own clusters.
pub(super) fn keep_copy(binaries: &Path, data_dir: &Path) {
    let Some(template) = template_dir(binaries).filter(|template| !template.exists()) else { return };
    // Renamed when it is whole, because other tests read it at the same time.
    let partial = template.with_extension(std::process::id().to_string());
    if !copy_folder(data_dir, &partial) || std::fs::rename(&partial, &template).is_err() {
        let _ = std::fs::remove_dir_all(&partial);
    }
}

/// Returns the folder of the template, whose name changes with the installation.
fn template_dir(binaries: &Path) -> Option<PathBuf> {
    let server = std::fs::metadata(binaries.join("postgres")).ok()?;
    let mut hasher = DefaultHasher::new();
    (binaries, server.len(), server.mtime(), server.ino()).hash(&mut hasher);
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.join(format!("postgres-template-{:016x}", hasher.finish())))
}

/// Copies a folder with its owners and permissions.
fn copy_folder(from: &Path, to: &Path) -> bool {
    let copied = Command::new("cp").args([OsStr::new("-a"), from.as_os_str(), to.as_os_str()]).output();
    copied.is_ok_and(|done| done.status.success())
}
