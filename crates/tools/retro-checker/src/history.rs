//! Writes and reads test histories: JSON Lines files with the start and outcome of each operation.
//!
//! Lines are in the order in which the test's clients observed them. An operation without an end has an
//! unknown outcome: it may or may not have taken effect.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::{CheckError, error_at};

/// Operation of a test client, or injected fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// A client emits events. The outcome `ok` means that the program or its broker has stored all of them.
    Emit {
        /// Transport of the events: `nats` or `http`.
        road: String,
        /// Emitted events.
        events: Vec<Event>,
    },
    /// An agent requests context for a run.
    Context {
        /// Workflow of the run.
        workflow: String,
    },
    /// An agent opens a memory.
    Read {
        /// Id of the memory.
        memory: String,
    },
    /// An operator replays a dead letter.
    Replay {
        /// Id of the dead letter.
        dead_letter: String,
    },
    /// An operator discards a dead letter.
    Discard {
        /// Id of the dead letter.
        dead_letter: String,
    },
    /// An operator cancels a retrospective.
    Cancel {
        /// Id of the retrospective.
        retrospective: String,
    },
    /// A process of the program starts.
    Start {
        /// Name of the started process.
        target: String,
    },
    /// A process is killed or exits at an injected crash point.
    Kill {
        /// Name of the killed process.
        target: String,
        /// Kind of fault, such as `crash` or `sigkill`.
        fault: String,
    },
    /// A fault is injected. The operation ends once the fault is in effect.
    Fault {
        /// Kind of fault, such as `broker_kill`, `stop` or `line_cut`. After [`BROKER_WIPED`], events lost by
        /// the broker are not violations.
        fault: String,
        /// Human-readable details of the fault.
        detail: String,
    },
    /// An injected fault is repaired.
    Heal {
        /// Kind of the repaired fault.
        fault: String,
    },
}

/// Kind of fault that deletes the broker's data.
pub const BROKER_WIPED: &str = "broker_wiped";

/// Outcome of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum OperationOutcome {
    /// The operation succeeded.
    Ok,
    /// The operation certainly had no effect.
    Failed {
        /// Reason why the operation failed.
        reason: String,
    },
    /// The operation may or may not have had an effect.
    Unknown {
        /// Reason why the outcome is unknown.
        reason: String,
    },
}

/// Line of a history file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    Invoked {
        order: u64,
        at_ms: u64,
        client: String,
        #[serde(flatten)]
        operation: Operation,
    },
    Ended {
        /// `order` of the line that started the operation.
        of: u64,
        at_ms: u64,
        #[serde(flatten)]
        end: OperationOutcome,
    },
}

/// Operation with its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedOperation {
    /// Name of the client that performed the operation.
    pub client: String,
    /// Performed operation with its arguments.
    pub operation: Operation,
    /// Outcome of the operation.
    pub end: OperationOutcome,
    /// Start of the operation, in milliseconds since the history file was created.
    pub begun_ms: u64,
    /// End of the operation, in milliseconds since the history file was created; `None` if it never ended.
    pub ended_ms: Option<u64>,
}

/// Recorded operations of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Operations in the order of their start.
    pub operations: Vec<RecordedOperation>,
}

impl History {
    /// Reads a history file. Ignores an incomplete last line. Fails with path and line number if another line
    /// cannot be parsed.
    pub fn read_file(path: &Path) -> Result<Self, CheckError> {
        let text = std::fs::read_to_string(path).map_err(error_at(path.display()))?;
        // A killed test may leave a truncated last line.
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let (mut operations, mut places) = (Vec::new(), HashMap::new());
        for (number, line) in complete.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            match serde_json::from_str(line).map_err(error_at(&place))? {
                Line::Invoked { order, at_ms, client, operation } => {
                    let end = OperationOutcome::Unknown { reason: "no outcome was recorded".to_owned() };
                    places.insert(order, operations.len());
                    operations.push(RecordedOperation {
                        client,
                        operation,
                        end,
                        begun_ms: at_ms,
                        ended_ms: None,
                    });
                }
                Line::Ended { of, at_ms, end } => {
                    let missing =
                        || CheckError { place, problem: format!("operation {of} was never started") };
                    let done: &mut RecordedOperation =
                        &mut operations[*places.get(&of).ok_or_else(missing)?];
                    (done.end, done.ended_ms) = (end, Some(at_ms));
                }
            }
        }
        Ok(Self { operations })
    }

    /// Returns the events whose emission was acknowledged.
    pub fn acknowledged_events(&self) -> impl Iterator<Item = &Event> {
        self.emitted_events(|end| *end == OperationOutcome::Ok)
    }

    /// Returns the events that the program may have received: all except those whose emission certainly
    /// failed.
    pub fn possible_events(&self) -> impl Iterator<Item = &Event> {
        self.emitted_events(|end| !matches!(end, OperationOutcome::Failed { .. }))
    }

    fn emitted_events(&self, wanted: impl Fn(&OperationOutcome) -> bool) -> impl Iterator<Item = &Event> {
        let wanted = self.operations.iter().filter(move |done| wanted(&done.end));
        wanted.flat_map(|done| match &done.operation {
            Operation::Emit { events, .. } => events.as_slice(),
            _ => &[],
        })
    }

    /// Returns the events acknowledged before the last wipe of the broker; none if it was never wiped.
    pub fn acknowledged_before_wipe(&self) -> impl Iterator<Item = &Event> {
        let wiped = |done: &RecordedOperation| matches!(&done.operation, Operation::Fault { fault, .. } if fault == BROKER_WIPED);
        // Without a wipe the result is empty, so every lost event is a violation.
        let until = self.operations.iter().rposition(wiped).unwrap_or(0);
        let before = self.operations[..until].iter().filter(|done| done.end == OperationOutcome::Ok);
        before.flat_map(|done| match &done.operation {
            Operation::Emit { events, .. } => events.as_slice(),
            _ => &[],
        })
    }

    /// Returns the number of injected faults of each kind, including killed processes.
    pub fn faults_by_kind(&self) -> BTreeMap<&str, u64> {
        let mut kinds = BTreeMap::new();
        for done in self.operations.iter().filter(|done| done.end == OperationOutcome::Ok) {
            if let Operation::Kill { fault, .. } | Operation::Fault { fault, .. } = &done.operation {
                *kinds.entry(fault.as_str()).or_default() += 1;
            }
        }
        kinds
    }

    /// Returns the number of times a process was killed or crashed.
    pub fn count_deaths(&self) -> u64 {
        let died = |done: &&RecordedOperation| {
            done.end == OperationOutcome::Ok && matches!(done.operation, Operation::Kill { .. })
        };
        self.operations.iter().filter(died).count() as u64
    }
}

/// Writes a history file while the test runs. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Recorder {
    file: Arc<Mutex<HistoryFile>>,
    begun: Instant,
}

#[derive(Debug)]
struct HistoryFile {
    file: File,
    next_order: u64,
}

/// Started operation. If dropped without an end, its outcome remains unknown.
#[derive(Debug)]
#[must_use = "an operation without an end has an unknown outcome"]
pub struct PendingOperation {
    recorder: Recorder,
    order: u64,
}

impl Recorder {
    /// Creates a history file. Fails if the file exists, because histories are never overwritten.
    pub fn create(path: &Path) -> Result<Self, CheckError> {
        let file = File::create_new(path).map_err(error_at(path.display()))?;
        Ok(Self { file: Arc::new(Mutex::new(HistoryFile { file, next_order: 1 })), begun: Instant::now() })
    }

    /// Records the start of an operation.
    pub fn begin_operation(&self, client: &str, operation: Operation) -> PendingOperation {
        let (at_ms, client) = (self.at_ms(), client.to_owned());
        let order = self.write_line(|order| Line::Invoked { order, at_ms, client, operation });
        PendingOperation { recorder: self.clone(), order }
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes a line with the next order number, and returns the number.
    fn write_line(&self, line: impl FnOnce(u64) -> Line) -> u64 {
        // Number and write under one lock, so the lines are in the order of their numbers. A panic of one
        // client must not stop the others from recording, so a poisoned lock is used anyway.
        let mut written = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let order = written.next_order;
        written.next_order += 1;
        let mut text = serde_json::to_string(&line(order)).expect("a line is plain data");
        text.push('\n');
        written.file.write_all(text.as_bytes()).expect("the history can be written");
        order
    }
}

impl PendingOperation {
    /// Records that the operation succeeded.
    pub fn finish_ok(self) {
        self.finish(OperationOutcome::Ok);
    }

    /// Records that the operation certainly had no effect.
    pub fn finish_failed(self, reason: impl Into<String>) {
        self.finish(OperationOutcome::Failed { reason: reason.into() });
    }

    /// Records that the operation may or may not have had an effect.
    pub fn finish_unknown(self, reason: impl Into<String>) {
        self.finish(OperationOutcome::Unknown { reason: reason.into() });
    }

    fn finish(self, end: OperationOutcome) {
        let (of, at_ms) = (self.order, self.recorder.at_ms());
        self.recorder.write_line(|_| Line::Ended { of, at_ms, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_operations_are_read_in_order_and_a_truncated_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::create(&path).unwrap();
        let kill = Operation::Kill { target: "up".into(), fault: "sigkill".into() };
        let first = recorder.begin_operation("driver", kill.clone());
        let second = recorder.begin_operation("reader", Operation::Read { memory: "m".into() });
        second.finish_failed("404");
        first.finish_ok();
        let _never_ended = recorder.begin_operation("driver", Operation::Start { target: "up".into() });
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"line\":").unwrap();

        let history = History::read_file(&path).unwrap();
        let ends: Vec<_> = history.operations.iter().map(|done| &done.end).collect();
        assert_eq!(history.operations[0].operation, kill);
        assert!(
            matches!(
                ends[..],
                [OperationOutcome::Ok, OperationOutcome::Failed { .. }, OperationOutcome::Unknown { .. }]
            ),
            "{ends:?}"
        );
        assert_eq!((history.count_deaths(), history.faults_by_kind()["sigkill"]), (1, 1));
        assert!(Recorder::create(&path).is_err(), "a history is not written over");
    }
}
