//! Remembers which files were sent, in a file that survives restarts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::Context as _;
use retro_core::canonical::sha256_hex;
use serde::{Deserialize, Serialize};

use super::settling::{Fingerprint, FoundFile};

/// Number of lines of files that no longer exist which a record may have, besides as many as there are files: some 200
/// KiB. Shortening it more often would write more than it saves.
const SPARE_LINES: usize = 1000;
const LOCK_PROBLEM: &str = "cannot lock the record of sent files";

/// Record of the files that were sent: one line of JSON a file, appended and synced after the broker has confirmed.
pub(super) struct SentFiles {
    file: File,
    /// Where the files go, as part of each key: the same file may be sent to two tenants.
    destination: String,
    keys: HashSet<String>,
    by_name: HashMap<String, SentFile>,
    /// Number of lines in the record.
    lines: usize,
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
        let mut sent = Self {
            file,
            destination: destination.to_owned(),
            keys: HashSet::new(),
            by_name: HashMap::new(),
            lines: 0,
        };
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            sent.lines += 1;
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
        let written = self.append(line.as_bytes());
        written.context("cannot record a file as sent; it may be sent again, which counts no run twice")?;
        self.lines += 1;
        self.keys.insert(entry.key.clone());
        self.by_name.insert(entry.name.clone(), entry);
        Ok(())
    }

    /// Returns `true` if the record is much longer than a folder with this number of files needs.
    pub(super) const fn is_too_long_for(&self, files: usize) -> bool {
        self.lines > 2 * files + SPARE_LINES
    }

    /// Forgets the files that no longer exist. `found` are all files of the folder. Does nothing while one of them is not
    /// recorded: it may be a file under another name, which is recognised by its content. What goes to another
    /// destination stays.
    ///
    /// A crash in between loses the record. Its files are then sent again under the same event ids, so no run is counted
    /// twice.
    pub(super) fn forget_missing(&mut self, found: &[FoundFile]) -> anyhow::Result<()> {
        let (kept, destination): (HashSet<&str>, _) =
            (found.iter().map(|file| file.name.as_str()).collect(), &self.destination);
        if found.iter().any(|file| !self.contains_file(file)) {
            return Ok(());
        }
        let is_kept = |sent: &SentFile| sent.destination != *destination || kept.contains(sent.name.as_str());
        // Another process may have appended to the record, so what is on disk counts.
        self.file.lock().context(LOCK_PROBLEM)?;
        let rewritten = rewrite(&mut self.file, &is_kept);
        self.file.unlock().context(LOCK_PROBLEM)?;
        let entries = rewritten.context("cannot shorten the record of sent files")?;
        self.lines = entries.len();
        self.keys = entries.iter().map(|sent| sent.key.clone()).collect();
        self.by_name.retain(|name, _| kept.contains(name.as_str()));
        Ok(())
    }

    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.file.lock()?;
        let written = self.file.write_all(line).and_then(|()| self.file.sync_data());
        self.file.unlock()?;
        written
    }

    fn key(&self, content: &[u8]) -> String {
        sha256_hex(format!("{}\n{}", self.destination, sha256_hex(content)).as_bytes())
    }
}

/// Rewrites the record in its place with the lines that are kept; of several about one file with the last one. In its
/// place, because other processes append to the open file.
fn rewrite(file: &mut File, is_kept: &dyn Fn(&SentFile) -> bool) -> std::io::Result<Vec<SentFile>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let parsed =
        bytes.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<SentFile>(line).ok());
    let mut kept: BTreeMap<(String, String), SentFile> = BTreeMap::new();
    for sent in parsed.filter(is_kept) {
        kept.insert((sent.destination.clone(), sent.name.clone()), sent);
    }
    let entries: Vec<SentFile> = kept.into_values().collect();
    let mut text = String::new();
    for sent in &entries {
        text.push_str(&serde_json::to_string(sent)?);
        text.push('\n');
    }
    file.set_len(0)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    Ok(entries)
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

    #[test]
    fn a_record_forgets_files_that_no_longer_exist_and_recognises_a_renamed_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sent");
        let file = |name: &str| {
            let fingerprint = Fingerprint { bytes: 3, modified_ns: 7, changed_ns: 7, inode: 1 };
            FoundFile { name: name.to_owned(), fingerprint }
        };
        SentFiles::open(&path, "other").unwrap().record(&file("gone-0"), b"of another tenant").unwrap();
        let mut sent = SentFiles::open(&path, "acme").unwrap();
        for nth in 0..SPARE_LINES + 10 {
            sent.record(&file(&format!("gone-{nth}")), nth.to_string().as_bytes()).unwrap();
        }
        sent.record(&file("stays"), b"stays").unwrap();
        assert!(sent.is_too_long_for(1) && !sent.is_too_long_for(100));
        let long = std::fs::metadata(&path).unwrap().len();
        // The new name may be a file that was sent under another one.
        sent.forget_missing(&[file("stays"), file("renamed")]).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), long);
        assert!(sent.contains_content(b"7"));
        sent.record(&file("renamed"), b"7").unwrap();

        // Another process appends in between.
        let mut second = SentFiles::open(&path, "acme").unwrap();
        second.record(&file("appended"), b"appended").unwrap();
        sent.forget_missing(&[file("stays"), file("renamed")]).unwrap();
        second.record(&file("later"), b"later").unwrap();
        assert!(!sent.is_too_long_for(1) && std::fs::metadata(&path).unwrap().len() < 2000);
        let again = SentFiles::open(&path, "acme").unwrap();
        let known = ["stays", "renamed", "later"].map(|name| again.contains_file(&file(name)));
        assert_eq!((known, again.contains_content(b"7")), ([true; 3], true));
        assert!(!again.contains_file(&file("gone-3")) && !again.contains_content(b"3"));
        assert!(
            SentFiles::open(&path, "other").unwrap().contains_file(&file("gone-0")),
            "another tenant's stays"
        );
    }
}
