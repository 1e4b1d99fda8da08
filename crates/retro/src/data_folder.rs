//! The data folder belongs to whoever runs the program, and to nobody else on the machine: it holds what runs said, and
//! the broker's credential.
//!
//! What this program and its broker make is private from the start ([`restrict_umask`]). What an earlier version left open is
//! closed at the next start ([`secure`]). A folder that holds other things too keeps its own mode, since others may need
//! those; our files in it are private all the same.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use nix::sys::stat::{Mode, umask};
use tracing::{info, warn};

/// What the folder holds of ours. `doctor.probe` is left by a `retro doctor` that was killed.
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
/// The supervised broker's store, log, configuration and credential.
pub(crate) const BROKER_FOLDER: &str = "nats";
/// The bits of a mode by which others may do something.
const OTHERS: u32 = 0o077;

/// Lets nobody else read what this process and its children make from now on, whatever it was started with.
pub(crate) fn restrict_umask() {
    umask(Mode::S_IRWXG | Mode::S_IRWXO);
}

/// Makes the folder, and closes to others what was left open in it. Fails only when there can be no folder; what cannot
/// be closed is told.
pub(crate) fn secure(data_dir: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(data_dir);
    made.with_context(|| format!("cannot make the data folder {}", data_dir.display()))?;
    match close(data_dir) {
        Ok(0) => {}
        Ok(count) => info!(
            count,
            "{count} files and folders of {} were open to other users of this machine and are its owner's alone now",
            data_dir.display()
        ),
        Err(problem) => warn!(
            "others on this machine may read what is in {}: {problem}; let the user that runs retro own it, or do \
             `chmod -R go-rwx` on it",
            data_dir.display()
        ),
    }
    Ok(())
}

/// Returns how many files and folders were closed.
fn close(data_dir: &Path) -> io::Result<u64> {
    let (mut closed, mut only_ours) = (0, true);
    for entry in fs::read_dir(data_dir)? {
        let entry = entry?;
        if OWN_FILES.iter().any(|name| *name == entry.file_name()) {
            closed += close_all(entry.path())?;
        } else {
            only_ours = false;
        }
    }
    if only_ours {
        closed += close_one(data_dir, &fs::metadata(data_dir)?)?;
    }
    Ok(closed)
}

/// Closes a file, or a folder with all that is in it: the folder last, so that one that was interrupted is done again.
/// What a closed folder holds nobody else can reach, so it is not looked at.
fn close_all(path: PathBuf) -> io::Result<u64> {
    let mut closed = 0;
    let (mut folders, mut unseen) = (Vec::new(), vec![path]);
    while let Some(path) = unseen.pop() {
        let metadata = match fs::symlink_metadata(&path) {
            // A running process may have taken it away since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_dir() && is_open(&metadata) {
            for entry in fs::read_dir(&path)? {
                unseen.push(entry?.path());
            }
            folders.push((path, metadata));
        } else if metadata.is_file() {
            closed += close_one(&path, &metadata)?;
        }
    }
    for (path, metadata) in folders.iter().rev() {
        closed += close_one(path, metadata)?;
    }
    Ok(closed)
}

fn close_one(path: &Path, metadata: &Metadata) -> io::Result<u64> {
    if !is_open(metadata) {
        return Ok(0);
    }
    let mode = metadata.permissions().mode() & 0o7777 & !OTHERS;
    match fs::set_permissions(path, Permissions::from_mode(mode)) {
        Ok(()) => Ok(1),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

fn is_open(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & OTHERS != 0
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
    fn what_an_earlier_version_left_open_is_closed_once() {
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

        assert_eq!(close(&data).unwrap(), all.len() as u64);
        for path in &all {
            assert_eq!(mode(path), if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        }
        assert_eq!(close(&data).unwrap(), 0, "nothing is left to close");
    }

    #[test]
    fn what_is_not_ours_keeps_its_mode_and_so_does_the_folder_around_it() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("retro.db"), folder.path().join("theirs"));
        let linked = folder.path().join("lock");
        fs::write(&ours, b"x").unwrap();
        fs::write(&theirs, b"x").unwrap();
        std::os::unix::fs::symlink(&theirs, linked).unwrap();
        [&ours, &theirs, &folder.path().to_owned()].iter().for_each(|path| open_to_all(path));
        secure(folder.path()).unwrap();
        assert_eq!([mode(&ours), mode(&theirs), mode(folder.path())], [0o600, 0o644, 0o755]);
    }

    #[test]
    fn a_new_folder_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("a/b");
        secure(&data).unwrap();
        assert_eq!(mode(&data), 0o700);
    }
}
