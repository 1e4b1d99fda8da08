//! Reads the file ahead, so that what agents ask for first is in the page cache of the operating system.
//!
//! The memories of a step lie on pages all over the file. Read one after the other from a cold disk, those of many agents
//! at once take longer than agents wait; read in the order of the file, all of them take seconds.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of bytes that are read: a file of some two million memories. A larger one is hardly cached as a whole.
const READ_MAX: u64 = 4 * 1024 * 1024 * 1024;
/// Bytes of one read.
const PART_BYTES: usize = 1024 * 1024;

/// Ends the reading when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadAhead(Arc<AtomicBool>);

impl Default for ReadAhead {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl ReadAhead {
    /// Returns what is `true` until this value is dropped.
    pub(crate) fn is_wanted(&self) -> Arc<AtomicBool> {
        self.0.clone()
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Reads the file from its beginning to its end while it is wanted, at most [`READ_MAX`] bytes, and returns how many it
/// read. Blocks. A file that cannot be read is found by those that need it.
pub(crate) fn read_ahead(path: &Path, is_wanted: &AtomicBool) -> u64 {
    let mut part = vec![0; PART_BYTES];
    let mut read = 0;
    let Ok(mut file) = File::open(path) else { return 0 };
    while read < READ_MAX && is_wanted.load(Ordering::Relaxed) {
        match file.read(&mut part) {
            Ok(0) => break,
            Ok(bytes) => read += bytes as u64,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_a_whole_and_a_missing_one_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("retro.db");
        let reading = ReadAhead::default();
        assert_eq!(read_ahead(&path, &reading.is_wanted()), 0);
        std::fs::write(&path, vec![7; PART_BYTES + 1]).unwrap();
        assert_eq!(read_ahead(&path, &reading.is_wanted()), PART_BYTES as u64 + 1);
        let is_wanted = reading.is_wanted();
        drop(reading);
        assert_eq!(read_ahead(&path, &is_wanted), 0, "the process stops");
    }
}
