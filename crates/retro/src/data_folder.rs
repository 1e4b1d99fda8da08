//! Keeps the data folder private to the user who runs the program, because it contains the content of runs
//! and the broker's credential.
//!
//! Files created by this program and its broker are private from the start ([`restrict_umask`]). Files that
//! an earlier version left readable are restricted at the next start ([`ensure_private`]). A folder that also
//! contains other files keeps its mode, because their owners may need access; our files in it are still
//! restricted.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::stat::{Mode, umask};
use tracing::{info, warn};

/// Names of our files in the folder. `doctor.probe` remains only if `retro doctor` was killed.
const OWN_FILES: [&str; 9] = [
    "retro.db",
    "retro.db-wal",
    "retro.db-shm",
    "retro.db-journal",
    "lock",
    "instance.json",
    "instance.json.new",
    "doctor.probe",
    BROKER_FOLDER,
];
/// Name of the folder for the supervised broker's store, log, configuration and credential.
pub(crate) const BROKER_FOLDER: &str = "nats";
/// Permission bits of the group and of other users.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Sets the umask, so every file that this process and its children create from now on is private.
pub(crate) fn restrict_umask() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}

/// Creates the folder and restricts its permissions. Fails only if the folder cannot be created; files that
/// cannot be restricted are logged.
pub(crate) fn ensure_private(data_dir: &Path) -> anyhow::Result<()> {
    let created = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    created.with_context(|| format!("cannot create the data folder {}", data_dir.display()))?;
    match restrict_folder(data_dir) {
        Ok(0) => {}
        Ok(count) => info!(
            count,
            "{count} files and folders of {} were accessible to other users of this machine and are private now",
            data_dir.display()
        ),
        Err(problem) => warn!(
            "other users of this machine may be able to read {}: {problem}; make the user that runs retro its \
             owner, or run `chmod -R go-rwx` on it",
            data_dir.display()
        ),
    }
    Ok(())
}

/// Restricts the permissions of our files in the folder. Returns the number of changed files and folders.
fn restrict_folder(data_dir: &Path) -> io::Result<u64> {
    let (mut closed, mut only_ours) = (0, true);
    for entry in fs::read_dir(data_dir)? {
        let entry = entry?;
        if OWN_FILES.iter().any(|name| *name == entry.file_name()) {
            closed += restrict_tree(entry.path())?;
        } else {
            only_ours = false;
        }
    }
    if only_ours {
        closed += restrict_entry(data_dir, &fs::metadata(data_dir)?)?;
    }
    Ok(closed)
}

/// Restricts the permissions of a file, or of a folder and everything in it. The folder itself is changed
/// last, so an interrupted pass is repeated. A folder that is already private is skipped, because no other
/// user can reach its content. Returns the number of changed files and folders.
fn restrict_tree(path: PathBuf) -> io::Result<u64> {
    let mut closed = 0;
    let (mut folders, mut unseen) = (Vec::new(), vec![path]);
    while let Some(path) = unseen.pop() {
        // Links are not followed: a link in the folder must not change the mode of a file elsewhere.
        let metadata = match fs::symlink_metadata(&path) {
            // A running process may have removed the file in the meantime.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_dir() && is_open_to_others(&metadata) {
            for entry in fs::read_dir(&path)? {
                unseen.push(entry?.path());
            }
            folders.push((path, metadata));
        } else if metadata.is_file() {
            closed += restrict_entry(&path, &metadata)?;
        }
    }
    for (path, metadata) in folders.iter().rev() {
        closed += restrict_entry(path, metadata)?;
    }
    Ok(closed)
}

fn restrict_entry(path: &Path, metadata: &Metadata) -> io::Result<u64> {
    if !is_open_to_others(metadata) {
        return Ok(0);
    }
    let mode = metadata.permissions().mode() & 0o7777 & !GROUP_AND_OTHERS;
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Ok(()) => Ok(1),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & GROUP_AND_OTHERS != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn open_to_all(path: &Path) {
        fs::set_permissions(path, Permissions::from_mode(if path.is_dir() { 0o755 } else { 0o644 })).unwrap();
    }

    #[test]
    fn files_left_open_by_an_earlier_version_are_restricted_once() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir_all(data.join("nats/store/jetstream")).unwrap();
        let paths =
            ["retro.db", "retro.db-wal", "lock", "nats/store/jetstream/1.blk", "nats/nats-server.conf"];
        let mut all: Vec<_> = paths.iter().map(|name| data.join(name)).collect();
        all.iter().for_each(|path| fs::write(path, b"x").unwrap());
        all.extend(["nats", "nats/store", "nats/store/jetstream"].map(|name| data.join(name)));
        all.push(data.clone());
        all.iter().for_each(|path| open_to_all(path));

        assert_eq!(restrict_folder(&data).unwrap(), all.len() as u64);
        for path in &all {
            assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        }
        assert_eq!(restrict_folder(&data).unwrap(), 0, "nothing is left to close");
    }

    #[test]
    fn files_of_others_keep_their_mode_and_so_does_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("retro.db"), folder.path().join("theirs"));
        let linked = folder.path().join("lock");
        fs::write(&ours, b"x").unwrap();
        fs::write(&theirs, b"x").unwrap();
        std::os::unix::fs::symlink(&theirs, linked).unwrap();
        [&ours, &theirs, &folder.path().to_owned()].iter().for_each(|path| open_to_all(path));
        ensure_private(folder.path()).unwrap();
        assert_eq!([mode(&ours), mode(&theirs), mode(folder.path())], [0o600, 0o644, 0o755]);
    }

    #[test]
    fn a_new_folder_is_private() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a/b");
        ensure_private(&data).unwrap();
        assert_eq!(mode(&data), 0o700);
    }
}
