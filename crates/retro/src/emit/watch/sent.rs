//! Remembers which files were sent, in a file that survives restarts.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;
use retro_core::canonical::sha256_hex;
use serde::{Deserialize, Serialize};

use super::settling::{Fingerprint, FoundFile};

/// Record of the files that were sent: one line of JSON a file, appended and synced after the broker has confirmed.
pub(super) struct SentFiles {
    file: File,
    /// Where the files go, as part of each key: the same file may be sent to two tenants.
    destination: String,
    keys: HashSet<String>,
    by_name: HashMap<String, SentFile>,
}

/// A file that was sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SentFile {
    name: String,
    bytes: u64,
    modified_ns: i64,
    /// Hash of the destination and the content.
    key: String,
    destination: String,
}

impl SentFiles {
    /// Opens the record, or creates it. A line that was cut off by a crash is ignored: its file is sent again, which is
    /// harmless.
    pub(super) fn open(path: &Path, destination: &str) -> anyhow::Result<Self> {
        let of_path = || {
            format!(
                "cannot keep the record of sent files in {}; name another file with --sent-file",
                path.display()
            )
        };
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).with_context(of_path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(of_path)?;
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            file.seek(SeekFrom::End(0)).and_then(|_| file.write_all(b"\n")).with_context(of_path)?;
        }
        let mut sent =
            Self { file, destination: destination.to_owned(), keys: HashSet::new(), by_name: HashMap::new() };
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(entry) = serde_json::from_slice::<SentFile>(line) {
                sent.keys.insert(entry.key.clone());
                if entry.destination == destination {
                    sent.by_name.insert(entry.name.clone(), entry);
                }
            }
        }
        Ok(sent)
    }

    /// Returns `true` if the file was sent and has not changed since, by its size and time.
    pub(super) fn contains_file(&self, file: &FoundFile) -> bool {
        let is_same = |sent: &SentFile| {
            sent.bytes == file.fingerprint.bytes && sent.modified_ns == modified_ns(&file.fingerprint)
        };
        self.by_name.get(&file.name).is_some_and(is_same)
    }

    /// Returns `true` if a file with this content was sent.
    pub(super) fn contains_content(&self, content: &[u8]) -> bool {
        self.keys.contains(&self.key(content))
    }

    /// Records a file as sent. Returns when the record is on disk.
    pub(super) fn record(&mut self, file: &FoundFile, content: &[u8]) -> anyhow::Result<()> {
        let entry = SentFile {
            name: file.name.clone(),
            bytes: file.fingerprint.bytes,
            modified_ns: modified_ns(&file.fingerprint),
            key: self.key(content),
            destination: self.destination.clone(),
        };
        let line = format!("{}\n", serde_json::to_string(&entry)?);
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        written.context("cannot record a file as sent; it may be sent again, which counts no run twice")?;
        self.keys.insert(entry.key.clone());
        self.by_name.insert(entry.name.clone(), entry);
        Ok(())
    }

    fn key(&self, content: &[u8]) -> String {
        sha256_hex(format!("{}\n{}", self.destination, sha256_hex(content)).as_bytes())
    }
}

fn modified_ns(fingerprint: &Fingerprint) -> i64 {
    i64::try_from(fingerprint.modified_ns).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_a_restart_and_a_torn_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sent");
        let fingerprint = Fingerprint { bytes: 3, modified_ns: 7, changed_ns: 7, inode: 1 };
        let file = FoundFile { name: "a.json".to_owned(), fingerprint };
        let mut sent = SentFiles::open(&path, "acme").unwrap();
        assert!(!sent.contains_file(&file) && !sent.contains_content(b"abc"));
        sent.record(&file, b"abc").unwrap();
        std::fs::write(&path, [std::fs::read(&path).unwrap(), b"{\"name\": \"b".to_vec()].concat()).unwrap();

        let mut again = SentFiles::open(&path, "acme").unwrap();
        assert!(again.contains_file(&file) && again.contains_content(b"abc"));
        let touched =
            FoundFile { fingerprint: Fingerprint { modified_ns: 8, ..fingerprint }, ..file.clone() };
        assert!(!again.contains_file(&touched), "its content decides");
        again.record(&touched, b"abd").unwrap();
        assert!(SentFiles::open(&path, "acme").unwrap().contains_content(b"abd"), "after the torn line");
        let other = SentFiles::open(&path, "other").unwrap();
        assert!(
            !other.contains_file(&file) && !other.contains_content(b"abc"),
            "another tenant has none of it"
        );
    }
}
