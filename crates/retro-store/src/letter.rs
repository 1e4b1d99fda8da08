//! What belongs to a dead letter beside the letter itself: what became of each attempt, and the versions that people make
//! of it.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_core::steer::Act;
use serde::{Deserialize, Serialize};

use crate::{AuditStore, CounterStore, DeadLetterFilter, OperatorStore, Position, ReplayRow, Result};

/// Attempts that are kept of one letter: the first, and the newest. A life has five; replays add theirs.
pub const ATTEMPTS_KEPT: u32 = 50;

/// Longest reason of a failed attempt, in characters: what a database or a broker says of itself. The rest is cut off.
pub const FAILURE_CHARS_MAX: usize = 2000;

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which one, from 1.
    pub attempt: u32,
    /// Why the message was given up; `None` when it is to be tried again.
    pub code: Option<Code>,
    /// The field that is to blame.
    pub path: Option<String>,
    /// In one sentence, at most [`FAILURE_CHARS_MAX`] characters. Never holds the message's own secrets: it is shown.
    pub detail: String,
}

impl Failure {
    /// An attempt after which another follows.
    pub fn passing(attempt: u32, detail: &str) -> Self {
        Self { attempt, code: None, path: None, detail: bounded(detail) }
    }

    /// The last attempt of a message that is given up.
    pub fn last(attempt: u32, rejection: &Rejection) -> Self {
        let Rejection { code, path, detail } = rejection;
        Self { attempt, code: Some(*code), path: path.clone(), detail: bounded(detail) }
    }
}

fn bounded(text: &str) -> String {
    text.chars().take(FAILURE_CHARS_MAX).collect()
}

/// An attempt as kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// Who tried, and where the message stood.
    pub position: Position,
    /// Which attempt at the message in this place, from 1.
    pub attempt: u32,
    /// When it was counted, by the database's clock; `None` for the first delivery, which is not.
    pub begun_at: Option<Timestamp>,
    /// When it failed; `None` when it left no word, as when the process died.
    pub failed_at: Option<Timestamp>,
    /// Why the message was given up; `None` when it was to be tried again.
    pub code: Option<Code>,
    /// The field that is to blame.
    pub path: Option<String>,
    /// In one sentence; `None` when it left no word.
    pub detail: Option<String>,
    /// The version of the program that tried.
    pub program_version: String,
}

/// A message as a version of a letter has it: what a replay of the version sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The headers, in order.
    pub headers: Vec<(String, String)>,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// A version that a person made of a letter. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterVersion {
    /// Its number, from 1; the letter as it came is version 0.
    pub version: u32,
    /// The version that it was made from.
    pub based_on: u32,
    /// What it says.
    pub content: Content,
    /// SHA-256 of the payload, hex.
    pub payload_sha256: String,
    /// Who made it, why, and when.
    pub act: Act,
}

/// How a version is named: [`LetterVersion`] without its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRow {
    /// Its number, from 1.
    pub version: u32,
    /// The version that it was made from.
    pub based_on: u32,
    /// Size of its payload, bytes.
    pub payload_bytes: u64,
    /// SHA-256 of its payload, hex.
    pub payload_sha256: String,
    /// Who made it, why, and when.
    #[serde(flatten)]
    pub act: Act,
}

/// Reading what belongs to a letter. Another tenant's letter has nothing of all this.
#[async_trait]
pub trait LetterStore: Send + Sync {
    /// What became of each attempt at a letter, the first one first; at most [`ATTEMPTS_KEPT`].
    async fn attempts(&self, tenant: &Tenant, letter: DeadLetterId) -> Result<Vec<Attempt>>;

    /// The versions that people made of a letter, the first one first.
    async fn versions(&self, tenant: &Tenant, letter: DeadLetterId) -> Result<Vec<VersionRow>>;

    /// One version of a letter, from 1.
    async fn version(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: u32,
    ) -> Result<Option<LetterVersion>>;

    /// The replays of a letter, the first one first.
    async fn replays(&self, tenant: &Tenant, letter: DeadLetterId) -> Result<Vec<ReplayRow>>;

    /// The tenant's letters that fit, counted by what is the same of them word for word; those of which one came last
    /// come first, at most as many as the filter's limit. Where to go on (`behind`) means nothing here.
    async fn counts(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<LetterCount>>;
}

/// Letters with the same rejection of one consumer and workflow, counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LetterCount {
    /// Why they were given up, word for word.
    pub rejection: Rejection,
    /// Who gave up.
    pub consumer: String,
    /// The workflow of the subject; `None` when it could not be read.
    pub workflow: Option<Workflow>,
    /// How many.
    pub letters: u64,
    /// How many of them nobody has acted on.
    pub open: u64,
    /// When the first was given up, by the database's clock.
    pub first_seen: Timestamp,
    /// When the last was given up.
    pub last_seen: Timestamp,
    /// The last one.
    pub example: DeadLetterId,
}

/// Making versions of letters, which are read first and whose reading is written down. The letter itself is never touched.
#[async_trait]
pub trait MendStore: OperatorStore + AuditStore + CounterStore {
    /// One transaction: stores the next version of a letter, made from version `based_on`, and the act. Returns its
    /// number, from 1; `None` when the tenant has no such letter. Of two at once each has a number of its own.
    async fn mend(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        based_on: u32,
        content: &Content,
        act: &Act,
    ) -> Result<Option<u32>>;
}
