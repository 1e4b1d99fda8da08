//! Reads the file ahead, so that what agents ask for first is in the page cache of the operating system.
//!
//! The memories of a step lie on pages all over the file. Read one after the other from a cold disk, those of many agents
//! at once take longer than agents wait; read in the order of the file, all of them take seconds. A reading that leaves the
//! disk no pause makes agents wait, too: with 64 of them, 246 got nothing in the first seconds, and none without it. So it
//! takes a quarter of the time.
//!
//! **The file is never closed.** When a process closes any descriptor of a file, POSIX drops all locks that the process holds on
//! it, those of SQLite's connections, too. The next program that opens the database and closes it, such as a shell or a command
//! of this program, then takes itself for the last one and deletes the write-ahead log that this process goes on writing.

use std::collections::HashMap;
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// Maximum number of bytes that are read: a file of some two million memories. A larger one is hardly cached as a whole.
const READ_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of one read, during which a request of an agent may wait.
const PART_BYTES: usize = 256 * 1024;
/// Pause after a read, as a multiple of the time that it took.
const PAUSE_FACTOR: u32 = 3;

/// Descriptors by device and inode, kept until the process ends: one for each database that it opens.
static OPENED: LazyLock<Mutex<HashMap<(u64, u64), &'static File>>> = LazyLock::new(Mutex::default);

/// Reads the file from its beginning to its end, at most [`READ_MAX`] bytes, and returns how many it read. Ends after the
/// next part when it is dropped. A file that cannot be read is found by those that need it.
pub(super) async fn read_ahead(path: &Path) -> u64 {
    let (mut read, Ok(file)) = (0, open_for_ever(path)) else { return 0 };
    let mut part = vec![0; PART_BYTES];
    while read < READ_MAX {
        let began = Instant::now();
        let reading = spawn_blocking(move || {
            let bytes = read_part(file, &mut part, read);
            (bytes, part)
        });
        let Ok((Ok(bytes @ 1..), buffer)) = reading.await else { break };
        (read, part) = (read + bytes as u64, buffer);
        sleep(began.elapsed() * PAUSE_FACTOR).await;
    }
    read
}

/// Opens a file that stays open until the process ends, or returns the descriptor with which it is open already.
fn open_for_ever(path: &Path) -> Result<&'static File> {
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    // By its metadata, because opening it again would mean closing it again.
    let found = std::fs::metadata(path)?;
    if let Some(file) = opened.get(&(found.dev(), found.ino())) {
        return Ok(file);
    }
    let file: &'static File = Box::leak(Box::new(File::open(path)?));
    opened.insert((found.dev(), found.ino()), file);
    Ok(file)
}

fn read_part(file: &File, part: &mut [u8], at: u64) -> Result<usize> {
    loop {
        match file.read_at(part, at) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_as_a_whole_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("retro.db");
        assert_eq!(read_ahead(&path).await, 0);
        std::fs::write(&path, vec![7; 2 * PART_BYTES + 1]).unwrap();
        assert_eq!(read_ahead(&path).await, 2 * PART_BYTES as u64 + 1);
    }
}
