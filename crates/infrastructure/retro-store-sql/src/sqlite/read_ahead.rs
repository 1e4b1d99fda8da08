//! Reads the file ahead, so that what agents ask for first is in the page cache of the operating system.
//!
//! The memories of a step lie on pages all over the file. Read one after the other from a cold disk, those of many agents
//! at once take longer than agents wait; read in the order of the file, all of them take seconds. A reading that leaves the
//! disk no pause makes agents wait, too: with 64 of them, 246 got nothing in the first seconds, and none without it. So it
//! takes a quarter of the time.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Result};
use std::path::Path;

use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

/// Maximum number of bytes that are read: a file of some two million memories. A larger one is hardly cached as a whole.
const READ_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of one read, during which a request of an agent may wait.
const PART_BYTES: usize = 256 * 1024;
/// Pause after a read, as a multiple of the time that it took.
const PAUSE_FACTOR: u32 = 3;

/// Reads the file from its beginning to its end, at most [`READ_MAX`] bytes, and returns how many it read. Ends after the
/// next part when it is dropped. A file that cannot be read is found by those that need it.
pub(super) async fn read_ahead(path: &Path) -> u64 {
    let (mut read, Ok(mut file)) = (0, File::open(path)) else { return 0 };
    let mut part = vec![0; PART_BYTES];
    while read < READ_MAX {
        let began = Instant::now();
        let reading = spawn_blocking(move || {
            let bytes = read_part(&mut file, &mut part);
            (bytes, file, part)
        });
        let Ok((Ok(bytes @ 1..), unread, buffer)) = reading.await else { break };
        (read, file, part) = (read + bytes as u64, unread, buffer);
        sleep(began.elapsed() * PAUSE_FACTOR).await;
    }
    read
}

fn read_part(file: &mut File, part: &mut [u8]) -> Result<usize> {
    loop {
        match file.read(part) {
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
