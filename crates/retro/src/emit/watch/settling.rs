//! Decides which files of a watched folder are finished.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

/// What tells two states of a file apart without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) bytes: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub(super) modified_ns: i128,
    /// Last change of the content, the name or the permissions, in nanoseconds since 1970.
    pub(super) changed_ns: i128,
    pub(super) inode: u64,
}

/// A file in the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundFile {
    /// Path in the folder.
    pub(super) name: String,
    pub(super) fingerprint: Fingerprint,
}

/// Time of an observation.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObservedAt {
    /// Time since any fixed moment. It never goes back.
    pub(super) elapsed: Duration,
    /// Time of day in nanoseconds since 1970, to compare with that of a file.
    pub(super) clock_ns: i128,
}

/// The files of a folder, as observed again and again.
#[derive(Debug)]
pub(super) struct WatchedFiles {
    settle: Duration,
    files: BTreeMap<String, WatchedFile>,
    /// Inodes of the files that were being written under a temporary name.
    temporary: HashSet<u64>,
}

#[derive(Debug)]
struct WatchedFile {
    fingerprint: Fingerprint,
    unchanged_since: Duration,
    /// The file was finished as soon as it was seen.
    is_complete: bool,
    /// The file was handled in this state.
    is_done: bool,
}

impl WatchedFiles {
    /// Creates the files of an empty folder. A file is finished when it has not changed for `settle`.
    pub(super) fn new(settle: Duration) -> Self {
        Self { settle, files: BTreeMap::new(), temporary: HashSet::new() }
    }

    /// Takes the files that are in the folder now, and returns those that are finished and not done, in the order of
    /// their names. A file is finished if
    ///
    /// - it was not observed to change for the time that it must settle, or
    /// - it was last changed longer ago than that when it was first seen, or
    /// - it was renamed into place: the same file was there under a temporary name.
    pub(super) fn observe(&mut self, found: Vec<FoundFile>, at: ObservedAt) -> Vec<FoundFile> {
        let (temporary, found): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|file| is_temporary(&file.name));
        let mut earlier = std::mem::take(&mut self.files);
        for FoundFile { name, fingerprint } in found {
            let unchanged = earlier.remove(&name).filter(|file| file.fingerprint == fingerprint);
            let file = unchanged.unwrap_or_else(|| self.see_changed(fingerprint, at));
            self.files.insert(name, file);
        }
        self.temporary = temporary.iter().map(|file| file.fingerprint.inode).collect();
        let is_ready = |file: &WatchedFile| {
            let settled = at.elapsed.saturating_sub(file.unchanged_since) >= self.settle;
            !file.is_done && (file.is_complete || settled)
        };
        let ready = self.files.iter().filter(|(_, file)| is_ready(file));
        ready.map(|(name, file)| FoundFile { name: name.clone(), fingerprint: file.fingerprint }).collect()
    }

    fn see_changed(&self, fingerprint: Fingerprint, at: ObservedAt) -> WatchedFile {
        let settle_ns = i128::try_from(self.settle.as_nanos()).unwrap_or(i128::MAX);
        // A file from the future is left to what is observed: the clocks of two machines differ.
        let is_old = at.clock_ns.saturating_sub(fingerprint.modified_ns) >= settle_ns;
        let is_renamed = self.temporary.contains(&fingerprint.inode);
        WatchedFile {
            fingerprint,
            unchanged_since: at.elapsed,
            is_complete: is_old || is_renamed,
            is_done: false,
        }
    }

    /// Marks a file as done until it changes.
    pub(super) fn mark_done(&mut self, done: &FoundFile) {
        if let Some(file) = self.files.get_mut(&done.name).filter(|file| file.fingerprint == done.fingerprint)
        {
            file.is_done = true;
        }
    }
}

/// Returns `true` if programs write under such a name before they rename the file.
fn is_temporary(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let endings = [".tmp", ".temp", ".part", ".partial", ".crdownload", ".swp", "~"];
    name.starts_with('.') || endings.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTLE_S: u64 = 5;
    /// Any time of day.
    const DAY_S: u64 = 1_800_000_000;

    fn at(second: u64) -> ObservedAt {
        ObservedAt { elapsed: Duration::from_secs(second), clock_ns: nanoseconds(DAY_S + second) }
    }

    fn nanoseconds(seconds: u64) -> i128 {
        i128::from(seconds) * 1_000_000_000
    }

    /// A file that was last changed at this second.
    fn file(name: &str, inode: u64, second: u64) -> FoundFile {
        let modified_ns = nanoseconds(DAY_S + second);
        let fingerprint = Fingerprint { bytes: second, modified_ns, changed_ns: modified_ns, inode };
        FoundFile { name: name.to_owned(), fingerprint }
    }

    fn watch() -> WatchedFiles {
        WatchedFiles::new(Duration::from_secs(SETTLE_S))
    }

    /// Observes these files, and returns the names of those that are ready.
    fn observe(files: &mut WatchedFiles, found: &[&FoundFile], second: u64) -> Vec<String> {
        let found = found.iter().map(|file| (*file).clone()).collect();
        files.observe(found, at(second)).into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn a_file_is_finished_when_it_has_not_changed_for_a_while_and_is_returned_until_it_is_done() {
        let mut files = watch();
        let early = file("a.json", 1, 10);
        assert_eq!(observe(&mut files, &[&early], 10), [""; 0]);
        assert_eq!(observe(&mut files, &[&early], 14), [""; 0]);
        let grown = file("a.json", 1, 14);
        assert_eq!(observe(&mut files, &[&grown], 15), [""; 0], "it grows");
        assert_eq!(observe(&mut files, &[&grown], 19), [""; 0]);
        assert_eq!(observe(&mut files, &[&grown], 20), ["a.json"]);
        assert_eq!(observe(&mut files, &[&grown], 21), ["a.json"], "it could not be sent");
        files.mark_done(&grown);
        assert_eq!(observe(&mut files, &[&grown], 40), [""; 0]);
        let again = file("a.json", 1, 40);
        assert_eq!(observe(&mut files, &[&again], 40), [""; 0]);
        assert_eq!(observe(&mut files, &[&again], 45), ["a.json"], "it goes on");
    }

    #[test]
    fn what_changes_while_it_is_sent_is_not_done() {
        let mut files = watch();
        let read = file("a.json", 1, 0);
        assert_eq!(observe(&mut files, &[&read], 10), ["a.json"]);
        let grown = file("a.json", 1, 11);
        assert_eq!(observe(&mut files, &[&grown], 11), [""; 0]);
        files.mark_done(&read);
        assert_eq!(observe(&mut files, &[&grown], 16), ["a.json"]);
    }

    #[test]
    fn an_old_file_and_one_that_is_renamed_into_place_are_finished_at_once() {
        let mut files = watch();
        let (old, written) = (file("old.json", 1, 5), file(".new.json", 2, 9));
        assert_eq!(observe(&mut files, &[&old, &written], 10), ["old.json"]);
        files.mark_done(&old);
        assert_eq!(observe(&mut files, &[&old, &file("new.json", 2, 9)], 11), ["new.json"]);
        let other = file("other.json", 3, 11);
        assert_eq!(
            observe(&mut files, &[&old, &other], 11),
            [""; 0],
            "nobody has seen it under another name"
        );
    }

    #[test]
    fn a_file_under_a_temporary_name_is_never_finished() {
        let mut files = watch();
        for name in [".a.json", "sub/.a.json", "a.json.tmp", "a.json.part", "a.json~"] {
            assert_eq!(observe(&mut files, &[&file(name, 1, 0)], 100), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_makes_no_file_finished() {
        let mut files = watch();
        let future = file("a.json", 1, 1_000);
        assert_eq!(observe(&mut files, &[&future], 10), [""; 0]);
        assert_eq!(observe(&mut files, &[&future], 15), ["a.json"]);
    }
}
