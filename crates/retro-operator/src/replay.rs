//! A person's hand on dead letters: replaying one or many, putting them aside, and saying beforehand what would happen.
//! Each answer is a sentence that says what was done, or why nothing was, and who came before.

mod batch;
mod foresee;
mod http;

use std::sync::Arc;

use retro_core::id::{BatchId, DeadLetterId, Epoch, ReplayId, RetrospectiveId, Tenant};
use retro_core::policy::Policies;
use retro_core::replay::{BATCH_LETTERS_MAX, PaceError};
use retro_core::retrospective::{Retrospective, WorkflowState};
use retro_core::steer::{Act, ActError, NotReopened};
use retro_core::time::Clock;
use retro_events::hosts::DatarefHosts;
use retro_store::{Discarded, HandStore, Reopened, ReplayRow, ReplayState, Replayed, StoreError};
use serde::Serialize;
use tokio::sync::Notify;
use utoipa::ToSchema;

use crate::SharedRedact;
use crate::dead_letters::LetterSearch;
use crate::steer::{Did, whose};
use crate::words;

pub use batch::{Started, batch, batches, progress};
pub use foresee::{Foreseen, Foresight, Will};
pub use http::router as replay_router;
pub(crate) use http::routes;

/// What people may do about dead letters.
#[derive(Clone)]
pub struct Replays {
    store: Arc<dyn HandStore>,
    policies: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    hosts: DatarefHosts,
    redact: SharedRedact,
}

/// Which letters an act is about.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Those that this finds; its limit does not matter.
    pub search: LetterSearch,
    /// That nothing narrows the search is meant.
    pub all: bool,
}

/// What came of an act on one letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct LetterTold {
    /// Whether it was done now, had been done before, or cannot be done as things stand.
    pub did: Did,
    /// The replay that waits or came before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub replay: Option<ReplayId>,
    /// The retrospective that it opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub retrospective: Option<RetrospectiveId>,
    /// Its epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub epoch: Option<Epoch>,
    /// In one sentence.
    pub detail: String,
}

/// Why an act could not even be asked for.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It does not say who or why.
    #[error(transparent)]
    Act(#[from] ActError),
    /// The pace cannot be kept.
    #[error(transparent)]
    Pace(#[from] PaceError),
    /// Nothing says which letters.
    #[error("nothing says which letters: name some, give a filter, or say that all are meant")]
    NothingChosen,
    /// More than one act may be about.
    #[error("more than {BATCH_LETTERS_MAX} letters fit, which nobody has looked at: narrow the filter")]
    TooMany,
    /// No letter fits.
    #[error("no dead letter fits")]
    NoneFits,
    /// The database did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Replays {
    /// A hand over its ports; `outbox` is rung when there may be something to send.
    pub fn new(
        store: Arc<dyn HandStore>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
        redact: SharedRedact,
    ) -> Self {
        Self { store, policies, clock, outbox, hosts: DatarefHosts::default(), redact }
    }

    /// The same, where bodies may lie at these hosts: what would happen depends on it.
    pub fn taking_bodies_at(self, hosts: DatarefHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Replays one letter: it waits for the relay, or, if it tells of a failed retrospective, the next one opens at once.
    /// `None` when the tenant has no such letter.
    pub async fn one(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
        by: &str,
        reason: &str,
    ) -> Result<Option<LetterTold>, ReplayError> {
        let act = self.act(by, reason)?;
        let told = match self.store.replay(tenant, letter, version, &act).await? {
            Replayed::OtherWay => self.follow(tenant, letter, &act).await?,
            other => replayed(&other, version),
        };
        self.outbox.notify_one();
        Ok(told)
    }

    /// Puts one letter aside. `None` when the tenant has no such letter.
    pub async fn discard_one(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        by: &str,
        reason: &str,
    ) -> Result<Option<LetterTold>, ReplayError> {
        let act = self.act(by, reason)?;
        let mut answers = self.store.discard(tenant, &[letter], &act).await?;
        Ok(answers.pop().and_then(|answer| discarded(&answer)))
    }

    /// Opens what follows a failed retrospective.
    async fn follow(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        act: &Act,
    ) -> Result<Option<LetterTold>, StoreError> {
        let decide = |failed: &Retrospective, mut state: WorkflowState| {
            let opening = state.reopen(failed, &self.policies.of(&failed.key), act.at)?;
            Ok((state, opening))
        };
        Ok(reopened(self.store.reopen(tenant, letter, act, &decide).await?))
    }

    /// Who, why and when; a secret in the words is not kept.
    fn act(&self, by: &str, reason: &str) -> Result<Act, ActError> {
        Act::new(&(self.redact)(by), &(self.redact)(reason), self.clock.now())
    }
}

impl LetterTold {
    const fn plain(did: Did, detail: String) -> Self {
        Self { did, replay: None, retrospective: None, epoch: None, detail }
    }

    fn about(did: Did, one: &Retrospective, detail: String) -> Self {
        Self { retrospective: Some(one.id), epoch: Some(one.epoch), ..Self::plain(did, detail) }
    }
}

fn replayed(answer: &Replayed, version: Option<u32>) -> Option<LetterTold> {
    Some(match answer {
        Replayed::Unknown | Replayed::OtherWay => return None,
        Replayed::Now(row) => LetterTold {
            replay: Some(row.id),
            ..LetterTold::plain(Did::Done, format!("{} waits for the relay", number(row)))
        },
        Replayed::Before(row) => LetterTold {
            replay: Some(row.id),
            ..LetterTold::plain(Did::DoneBefore, format!("the letter was replayed before: {}", came_of(row)))
        },
        Replayed::NoVersion => {
            let asked = version.unwrap_or_default();
            LetterTold::plain(
                Did::Refused,
                format!("the letter has no version {asked}: the letter stays as it is"),
            )
        }
    })
}

fn discarded(answer: &Discarded) -> Option<LetterTold> {
    let stays = "the letter stays as it is";
    Some(match answer {
        Discarded::Unknown => return None,
        Discarded::Now => LetterTold::plain(
            Did::Done,
            "the letter is put aside; it is kept, and can be replayed all the same".to_owned(),
        ),
        Discarded::Before(act) => {
            LetterTold::plain(Did::DoneBefore, format!("the letter was put aside before, {}", whose(act)))
        }
        Discarded::Replayed(row) => LetterTold {
            replay: Some(row.id),
            ..LetterTold::plain(Did::Refused, format!("{}: {stays}", came_of(row)))
        },
        Discarded::Reopened => {
            LetterTold::plain(Did::Refused, format!("its replay opened the next retrospective: {stays}"))
        }
    })
}

/// A replay and what came of it, in one sentence without its end. Quotes what a rejection quotes: redact it.
pub fn came_of(row: &ReplayRow) -> String {
    let came = match (&row.outcome, row.state) {
        (Some(outcome), _) => outcome.to_string(),
        (None, ReplayState::Waiting) => "it waits to be sent".to_owned(),
        (None, _) => "it was sent, and nothing has come of it yet".to_owned(),
    };
    format!("{}, {}; {came}", number(row), whose(&row.act))
}

fn number(row: &ReplayRow) -> String {
    let bytes = match row.version {
        0 => String::new(),
        version => format!(" (version {version} of its bytes)"),
    };
    let batch = row.batch.map(|batch: BatchId| format!(" in batch {batch}")).unwrap_or_default();
    format!("replay {}{bytes}{batch}", row.number)
}

fn reopened(answer: Reopened) -> Option<LetterTold> {
    let name = crate::steer::name;
    Some(match answer {
        Reopened::Unknown | Reopened::OtherCode(_) => return None,
        Reopened::Now(one) => {
            let detail = format!(
                "{} is open over runs {} to {}, with a seed of its own; no pause holds it back",
                name(&one),
                one.first,
                one.last
            );
            LetterTold::about(Did::Done, &one, detail)
        }
        Reopened::Before { act, opened: one } => {
            let state = one.state.as_str();
            let detail = format!(
                "the letter was replayed before, {}: that opened {}, which is {state}",
                whose(&act),
                name(&one)
            );
            LetterTold::about(Did::DoneBefore, &one, detail)
        }
        Reopened::Not(why) => LetterTold::plain(Did::Refused, not_reopened(why)),
    })
}

pub(crate) fn not_reopened(why: NotReopened) -> String {
    match why {
        NotReopened::OneIsOpen { epoch } => format!(
            "retrospective {epoch} of the workflow is open already and the released runs are in it: there is nothing \
             to open, and the letter stays as it is"
        ),
        NotReopened::ClaimedSince { claimed } => format!(
            "a later retrospective has looked back at the released runs (up to run {claimed} all are claimed): there \
             is nothing to open, and the letter stays as it is"
        ),
    }
}

/// A number of letters.
fn letters(count: usize) -> String {
    words::count(count as u64, "letter")
}

#[cfg(test)]
mod tests;
