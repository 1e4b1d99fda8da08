//! What was done to the program, as one file of JSON lines: every operation as it was begun, and how it ended.
//!
//! The order of the lines is the order in which the test's clients saw things. An operation that was begun and never
//! ended has an unknown outcome, like one that says so: it may have happened or not.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::{CheckError, about};

/// One thing that a client did, or that was done to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "snake_case")]
pub enum Operation {
    /// Events were handed over: answered with ok, the program or its broker has every one of them.
    Emit {
        /// By which road: `nats` or `http`.
        road: String,
        /// Which.
        events: Vec<Event>,
    },
    /// An agent asked for its context.
    Context {
        /// Of this workflow.
        workflow: String,
    },
    /// A memory was opened.
    Read {
        /// Its id.
        memory: String,
    },
    /// A dead letter was sent again.
    Replay {
        /// Its id.
        letter: String,
    },
    /// A dead letter was put aside.
    Discard {
        /// Its id.
        letter: String,
    },
    /// A retrospective was called off.
    Cancel {
        /// Its id.
        retrospective: String,
    },
    /// A process was started.
    Start {
        /// Which.
        target: String,
    },
    /// A process was killed, or died where it was told to.
    Kill {
        /// Which.
        target: String,
        /// The kind of fault that this is: `crash`, `sigkill`, …
        fault: String,
    },
    /// Something was broken. Ended when it was.
    Fault {
        /// Its kind: `broker_kill`, `stop`, `line_cut`, … [`WIPED`] excuses what the broker lost.
        fault: String,
        /// What exactly.
        detail: String,
    },
    /// What was broken works again.
    Mend {
        /// The kind of fault.
        fault: String,
    },
}

/// The kind of fault after which the broker has lost what it had.
pub const WIPED: &str = "broker_wiped";

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum End {
    /// It was done.
    Ok,
    /// It was not done, for certain.
    Failed {
        /// Why.
        reason: String,
    },
    /// Nobody knows.
    Unknown {
        /// Why.
        reason: String,
    },
}

/// A line of the file.
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
        /// The order of the line that began it.
        of: u64,
        at_ms: u64,
        #[serde(flatten)]
        end: End,
    },
}

/// An operation with its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Who did it.
    pub client: String,
    /// What.
    pub operation: Operation,
    /// How it ended.
    pub end: End,
    /// Milliseconds since the file was begun.
    pub begun_ms: u64,
    /// The same; `None`: never.
    pub ended_ms: Option<u64>,
}

/// Everything that was done, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The operations, in the order in which they were begun.
    pub operations: Vec<Done>,
}

impl History {
    /// Reads a file. Fails with its path and line when one cannot be understood; the last line may be cut off.
    pub fn read(path: &Path) -> Result<Self, CheckError> {
        let text = std::fs::read_to_string(path).map_err(about(path.display()))?;
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let (mut operations, mut places) = (Vec::new(), HashMap::new());
        for (number, line) in complete.lines().enumerate() {
            let place = format!("{}:{}", path.display(), number + 1);
            match serde_json::from_str(line).map_err(about(&place))? {
                Line::Invoked { order, at_ms, client, operation } => {
                    let end = End::Unknown { reason: "nobody said how it ended".to_owned() };
                    places.insert(order, operations.len());
                    operations.push(Done { client, operation, end, begun_ms: at_ms, ended_ms: None });
                }
                Line::Ended { of, at_ms, end } => {
                    let missing = || CheckError { place, problem: format!("operation {of} was not begun") };
                    let done: &mut Done = &mut operations[*places.get(&of).ok_or_else(missing)?];
                    (done.end, done.ended_ms) = (end, Some(at_ms));
                }
            }
        }
        Ok(Self { operations })
    }

    /// Events that were acknowledged.
    pub fn acknowledged(&self) -> impl Iterator<Item = &Event> {
        self.emitted(|end| *end == End::Ok)
    }

    /// Events that the program may have: all but those that were refused for certain.
    pub fn possible(&self) -> impl Iterator<Item = &Event> {
        self.emitted(|end| !matches!(end, End::Failed { .. }))
    }

    fn emitted(&self, wanted: impl Fn(&End) -> bool) -> impl Iterator<Item = &Event> {
        let wanted = self.operations.iter().filter(move |done| wanted(&done.end));
        wanted.flat_map(|done| match &done.operation {
            Operation::Emit { events, .. } => events.as_slice(),
            _ => &[],
        })
    }

    /// Events that were acknowledged before the broker lost what it had.
    pub fn acknowledged_before_wiping(&self) -> impl Iterator<Item = &Event> {
        let wiped = |done: &Done| matches!(&done.operation, Operation::Fault { fault, .. } if fault == WIPED);
        let until = self.operations.iter().rposition(wiped).unwrap_or(0);
        let before = self.operations[..until].iter().filter(|done| done.end == End::Ok);
        before.flat_map(|done| match &done.operation {
            Operation::Emit { events, .. } => events.as_slice(),
            _ => &[],
        })
    }

    /// Faults that happened, by kind.
    pub fn faults(&self) -> BTreeMap<&str, u64> {
        let mut kinds = BTreeMap::new();
        for done in self.operations.iter().filter(|done| done.end == End::Ok) {
            if let Operation::Kill { fault, .. } | Operation::Fault { fault, .. } = &done.operation {
                *kinds.entry(fault.as_str()).or_default() += 1;
            }
        }
        kinds
    }

    /// How often a process died.
    pub fn deaths(&self) -> u64 {
        let died = |done: &&Done| done.end == End::Ok && matches!(done.operation, Operation::Kill { .. });
        self.operations.iter().filter(died).count() as u64
    }
}

/// Writes a history while it happens. Clones write to the same file.
#[derive(Debug, Clone)]
pub struct Recorder {
    file: Arc<Mutex<Written>>,
    begun: Instant,
}

#[derive(Debug)]
struct Written {
    file: File,
    next: u64,
}

/// An operation that was begun. Dropped without an end, its outcome is unknown.
#[derive(Debug)]
#[must_use = "an operation without an end has an unknown outcome"]
pub struct Begun {
    recorder: Recorder,
    order: u64,
}

impl Recorder {
    /// A new file. Fails when it is there already: histories are append-only.
    pub fn create(path: &Path) -> Result<Self, CheckError> {
        let file = File::create_new(path).map_err(about(path.display()))?;
        Ok(Self { file: Arc::new(Mutex::new(Written { file, next: 1 })), begun: Instant::now() })
    }

    /// A client begins something.
    pub fn begin(&self, client: &str, operation: Operation) -> Begun {
        let (at_ms, client) = (self.at_ms(), client.to_owned());
        let order = self.write(|order| Line::Invoked { order, at_ms, client, operation });
        Begun { recorder: self.clone(), order }
    }

    fn at_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Writes a line under the next number, which it returns.
    fn write(&self, line: impl FnOnce(u64) -> Line) -> u64 {
        let mut written = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let order = written.next;
        written.next += 1;
        let mut text = serde_json::to_string(&line(order)).expect("a line is plain data");
        text.push('\n');
        written.file.write_all(text.as_bytes()).expect("the history can be written");
        order
    }
}

impl Begun {
    /// It was done.
    pub fn ok(self) {
        self.end(End::Ok);
    }

    /// It was not done, for certain.
    pub fn failed(self, reason: impl Into<String>) {
        self.end(End::Failed { reason: reason.into() });
    }

    /// Nobody knows.
    pub fn unknown(self, reason: impl Into<String>) {
        self.end(End::Unknown { reason: reason.into() });
    }

    fn end(self, end: End) {
        let (of, at_ms) = (self.order, self.recorder.at_ms());
        self.recorder.write(|_| Line::Ended { of, at_ms, end });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_read_in_order_and_a_line_that_was_cut_off_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::create(&path).unwrap();
        let kill = Operation::Kill { target: "up".into(), fault: "sigkill".into() };
        let first = recorder.begin("driver", kill.clone());
        let second = recorder.begin("reader", Operation::Read { memory: "m".into() });
        second.failed("404");
        first.ok();
        let _never_ended = recorder.begin("driver", Operation::Start { target: "up".into() });
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"line\":").unwrap();

        let history = History::read(&path).unwrap();
        let ends: Vec<_> = history.operations.iter().map(|done| &done.end).collect();
        assert_eq!(history.operations[0].operation, kill);
        assert!(matches!(ends[..], [End::Ok, End::Failed { .. }, End::Unknown { .. }]), "{ends:?}");
        assert_eq!((history.deaths(), history.faults()["sigkill"]), (1, 1));
        assert!(Recorder::create(&path).is_err(), "a history is not written over");
    }
}
