//! Runs `retro emit --watch`, which sends each finished file of a folder once.
//!
//! The folder is listed once a second. Notifications of the system would save that, but none come from network and bind
//! mounts, they get lost when many come at once, and a file counts as finished by the time since its last change anyway,
//! of which nothing notifies.
//!
//! A file is recorded as sent after the broker has confirmed its events. A crash between the two sends it again under the
//! same event ids, so its runs are counted once.

mod sent;
mod settling;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use retro_adapters::FILE_BYTES_MAX;
use retro_config::Config;
use retro_core::id::Tenant;
use retro_core::time::Clock as _;
use retro_events::run_completed::RunEvent;
use serde::Serialize;
use tokio::time::{Instant, MissedTickBehavior};

use super::sender::{EmitSummary, Sender, import_events};
use crate::cli::{Emit, Output};
use crate::clock::SystemClock;
use crate::exit::Exit;
use crate::output;
use crate::process::Signals;
use sent::SentFiles;
use settling::{Fingerprint, FoundFile, ObservedAt, WatchedFiles};

/// Interval at which the folder is listed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// First and longest wait after a failure to send.
const RETRY_WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Maximum number of files that are watched. Each takes some 200 bytes, and a `stat` a second.
const FILES_MAX: usize = 100_000;
/// Maximum depth of folders in the folder.
const DEPTH_MAX: usize = 8;
/// Name of the record of sent files, unless the caller names another file.
const SENT_FILE: &str = ".retro-emit-sent";

/// A file that was sent.
#[derive(Serialize)]
struct SentLine<'a> {
    file: &'a str,
    runs: usize,
    workflows: Vec<String>,
}

/// Sends the finished files of a folder until a signal arrives. Fails if the folder or the record of sent files cannot be
/// used at the start.
pub(super) async fn watch_folder(
    folder: &Path,
    args: &Emit,
    config: &Config,
    tenant: &Tenant,
    output: Output,
) -> anyhow::Result<Exit> {
    let mut signals = Signals::listen()?;
    let settle = Duration::from_secs(args.settle_s);
    list_files(folder).with_context(|| format!("cannot watch {}", folder.display()))?;
    let sent_file = args.sent_file.clone().unwrap_or_else(|| folder.join(SENT_FILE));
    let workflow = args.import.workflow.as_ref().map(|workflow| workflow.to_string()).unwrap_or_default();
    let sent = SentFiles::open(&sent_file, &format!("{tenant}\n{workflow}"))?;
    let mut watch = Watch {
        folder,
        args,
        config,
        tenant,
        output,
        files: WatchedFiles::new(settle),
        sent,
        sender: None,
        problem: String::new(),
    };
    output::print_notice(&format!(
        "watching {}: a file is sent when it has not changed for {} s, and remembered in {}",
        folder.display(),
        args.settle_s,
        sent_file.display()
    ));
    tokio::select! {
        _ = signals.next() => {}
        ended = watch.run() => ended?,
    }
    output::print_notice("stopped watching; what was not sent yet is sent the next time");
    Ok(Exit::Done)
}

struct Watch<'a> {
    folder: &'a Path,
    args: &'a Emit,
    config: &'a Config,
    tenant: &'a Tenant,
    output: Output,
    files: WatchedFiles,
    sent: SentFiles,
    sender: Option<Sender>,
    /// The last problem of the folder or the broker, which is told once.
    problem: String,
}

impl Watch<'_> {
    /// Watches for ever. Fails if a sent file cannot be recorded or nothing can be printed.
    async fn run(&mut self) -> anyhow::Result<()> {
        let started = Instant::now();
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut wait = RETRY_WAITS.0;
        loop {
            ticks.tick().await;
            let found = match list_files(self.folder) {
                Ok(found) => found,
                Err(error) => {
                    self.tell_problem(&format!("cannot list {}: {error}", self.folder.display()));
                    continue;
                }
            };
            if found.len() == FILES_MAX {
                self.tell_problem(&format!("more than {FILES_MAX} files; the others are not watched"));
            }
            let clock_ns = SystemClock.now().as_nanosecond();
            let is_whole = found.len() < FILES_MAX;
            let folder = Some(found.clone()).filter(|_| is_whole && self.sent.is_too_long_for(found.len()));
            for file in self.files.observe(found, ObservedAt { elapsed: started.elapsed(), clock_ns }) {
                match self.handle_file(&file).await? {
                    Ok(()) => wait = RETRY_WAITS.0,
                    Err(problem) => {
                        self.tell_problem(&format!("cannot send {}, trying again: {problem:#}", file.name));
                        self.sender = None;
                        tokio::time::sleep(wait).await;
                        wait = (wait * 2).min(RETRY_WAITS.1);
                        break;
                    }
                }
            }
            if let Some(folder) = folder {
                self.sent.forget_missing(&folder)?;
            }
        }
    }

    fn tell_problem(&mut self, problem: &str) {
        if self.problem != problem {
            problem.clone_into(&mut self.problem);
            output::print_notice(problem);
        }
    }

    /// Sends a finished file, unless it was sent. One that cannot be read is reported and skipped until it changes. The
    /// inner result fails if it cannot be sent now.
    async fn handle_file(&mut self, file: &FoundFile) -> anyhow::Result<anyhow::Result<()>> {
        if self.sent.contains_file(file) {
            self.files.mark_done(file);
            return Ok(Ok(()));
        }
        let content = match self.read_file(file) {
            Ok(Some(content)) => content,
            // It has changed, and is looked at again when it has settled.
            Ok(None) => return Ok(Ok(())),
            Err(reason) => {
                output::print_notice(&format!("refused {}: {reason}", file.name));
                self.files.mark_done(file);
                return Ok(Ok(()));
            }
        };
        if self.sent.contains_content(&content) {
            self.sent.record(file, &content)?;
            self.files.mark_done(file);
            return Ok(Ok(()));
        }
        let events = match import_events(&content, &self.folder.join(&file.name), self.args) {
            Ok(Ok(events)) => events,
            // The file of `--agents-md` may be back at the next try.
            Err(problem) => return Ok(Err(problem)),
            Ok(Err(rejection)) => {
                output::print_notice(&format!("refused {}: {rejection}", file.name));
                self.files.mark_done(file);
                return Ok(Ok(()));
            }
        };
        let runs = events.len();
        let summary = match self.send_events(events).await {
            Ok(summary) => summary,
            Err(problem) => return Ok(Err(problem)),
        };
        self.sent.record(file, &content)?;
        self.files.mark_done(file);
        self.problem.clear();
        self.print_sent(&SentLine {
            file: &file.name,
            runs,
            workflows: summary.workflows.into_keys().collect(),
        })?;
        Ok(Ok(()))
    }

    /// Returns the content of a file; `None` if it changes meanwhile.
    fn read_file(&self, file: &FoundFile) -> Result<Option<Vec<u8>>, String> {
        if file.fingerprint.bytes > FILE_BYTES_MAX as u64 {
            let bytes = file.fingerprint.bytes;
            return Err(format!("{bytes} bytes; at most {FILE_BYTES_MAX} are accepted"));
        }
        let path = self.folder.join(&file.name);
        let content = std::fs::read(&path).map_err(|error| format!("cannot be read: {error}"))?;
        let now = std::fs::symlink_metadata(&path).ok().map(|found| fingerprint(&found));
        Ok(Some(content).filter(|_| now == Some(file.fingerprint)))
    }

    async fn send_events(&mut self, events: Vec<RunEvent>) -> anyhow::Result<EmitSummary> {
        let mut sender = match self.sender.take() {
            Some(sender) => sender,
            None => Sender::connect(self.args, self.config, self.tenant).await?,
        };
        let mut summary = EmitSummary::default();
        Box::pin(sender.send_events(events, &mut summary)).await?;
        self.sender = Some(sender);
        Ok(summary)
    }

    fn print_sent(&self, line: &SentLine<'_>) -> anyhow::Result<()> {
        match self.output {
            Output::Json => output::print_json(&serde_json::to_string(line)?),
            _ => {
                let workflows = line.workflows.join(", ");
                output::print_text(&format!("sent {}: {} runs ({workflows})", line.file, line.runs))
            }
        }
    }
}

/// Lists the files in a folder and the folders in it, up to [`FILES_MAX`]. Links are not followed. Fails if the folder
/// itself cannot be listed.
fn list_files(folder: &Path) -> std::io::Result<Vec<FoundFile>> {
    let mut found = Vec::new();
    let mut folders: Vec<(PathBuf, usize)> = vec![(PathBuf::new(), 0)];
    while let Some((inside, depth)) = folders.pop() {
        let entries = match std::fs::read_dir(folder.join(&inside)) {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(error),
            // It was removed, or is somebody else's.
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            let path = inside.join(entry.file_name());
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            if metadata.is_dir() && depth < DEPTH_MAX && !is_hidden {
                folders.push((path, depth + 1));
            } else if metadata.is_file() && found.len() < FILES_MAX {
                let name = path.to_string_lossy().into_owned();
                found.push(FoundFile { name, fingerprint: fingerprint(&metadata) });
            }
        }
    }
    Ok(found)
}

fn fingerprint(metadata: &std::fs::Metadata) -> Fingerprint {
    let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
    Fingerprint {
        bytes: metadata.len(),
        modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        inode: metadata.ino(),
    }
}
