//! What would happen if a letter were replayed now: read by the code that would read it, decided by the function that
//! would decide it, over what is stored at this moment. Nothing is written. What others send meanwhile may change it.

use bytes::Bytes;
use retro_core::count::{self, Arrival, Disposition, Effects};
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{DeadLetterId, Tenant};
use retro_core::message::Notice;
use retro_core::retrospective::{Retrospective, State};
use retro_events::{Delivery, Role, github, run_completed};
use retro_store::replay::is_followed;
use retro_store::{DeadLetter, LetterStatus, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Chosen, ReplayError, Replays, came_of};
use crate::steer::name;
use crate::words;

/// What a replay would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Will {
    /// The run counts.
    Count,
    /// The run is known, and its facts become the message's.
    Update,
    /// The run is kept and does not count.
    Record,
    /// It was handled before: nothing changes.
    Nothing,
    /// It is given up again.
    FailAgain,
    /// The next retrospective opens.
    Open,
    /// A stage is woken, and finds something to do.
    Wake,
    /// What happened at GitHub is heard, unless it was before.
    Hear,
    /// It is not sent: somebody is replaying it, or it was handled.
    NotSent,
}

impl Will {
    /// The word as shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Update => "update",
            Self::Record => "record",
            Self::Nothing => "nothing",
            Self::FailAgain => "fail_again",
            Self::Open => "open",
            Self::Wake => "wake",
            Self::Hear => "hear",
            Self::NotSent => "not_sent",
        }
    }

    /// The same for people, before the reason.
    const fn sentence(self) -> &'static str {
        match self {
            Self::Count => "it would count",
            Self::Update => "it would update its run",
            Self::Record => "it would be kept and not count",
            Self::Nothing => "it would change nothing",
            Self::FailAgain => "it would fail again",
            Self::Open => "it would open the next retrospective",
            Self::Wake => "it would wake its stage",
            Self::Hear => "it would be heard",
            Self::NotSent => "it would not be sent",
        }
    }
}

/// What would come of one letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Foresight {
    /// The letter.
    #[schema(value_type = String)]
    pub letter: DeadLetterId,
    /// What it would do.
    pub will: Will,
    /// The code that it would be given up with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The path of the field that is to blame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why, in one sentence; redacted.
    pub why: String,
}

impl Foresight {
    /// A line for a terminal.
    pub fn text(&self) -> String {
        let Self { letter, will, code, path, why } = self;
        let code = code.as_deref().map(|code| format!(", {code}")).unwrap_or_default();
        let path = path.as_deref().map(|path| format!(" at {}", words::line(path))).unwrap_or_default();
        format!("{letter}  {}{code}{path}: {}\n", will.sentence(), words::line(why))
    }
}

/// What would come of many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Foreseen {
    /// Of each, in the order in which they would go: the oldest first.
    pub items: Vec<Foresight>,
}

/// What is known of a letter before the counter's facts are.
enum Read {
    Known(Will, String),
    Refused(Rejection),
    Arrived(Box<Arrival>),
}

impl Replays {
    /// What would come of replaying these letters now, the oldest first.
    pub async fn foresee(&self, tenant: &Tenant, chosen: &Chosen) -> Result<Foreseen, ReplayError> {
        let letters = self.choose(tenant, chosen).await?;
        Ok(Foreseen { items: self.foresee_all(tenant, &letters, None).await? })
    }

    /// What would come of replaying one letter now; `None` when the tenant has no such letter.
    pub async fn foresee_one(
        &self,
        tenant: &Tenant,
        letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<Foresight>, ReplayError> {
        let Some(letter) = self.store.dead_letter(tenant, letter).await? else { return Ok(None) };
        Ok(self.foresee_all(tenant, &[letter], version).await?.pop())
    }

    async fn foresee_all(
        &self,
        tenant: &Tenant,
        letters: &[DeadLetter],
        version: Option<u32>,
    ) -> Result<Vec<Foresight>, StoreError> {
        let mut read = Vec::with_capacity(letters.len());
        for letter in letters {
            read.push(self.read(tenant, letter, version).await?);
        }
        let arrivals: Vec<Arrival> = read.iter().filter_map(Read::arrival).cloned().collect();
        let facts = self.store.known(&arrivals).await?;
        let effects = count::decide(facts, &arrivals, &*self.policies, self.clock.now());
        let mut counted = arrivals.iter().zip(&effects.counted);
        let mut seen = Vec::with_capacity(letters.len());
        for (letter, read) in letters.iter().zip(read) {
            seen.push(self.tell(
                letter.id,
                match read {
                    Read::Known(will, why) => Ok((will, why)),
                    Read::Refused(rejection) => Err(rejection),
                    Read::Arrived(_) => {
                        let (arrival, counted) = counted.next().expect("a decision has one entry an arrival");
                        decided(arrival, &counted.disposition, &effects)
                    }
                },
            ));
        }
        Ok(seen)
    }

    fn tell(&self, letter: DeadLetterId, found: Result<(Will, String), Rejection>) -> Foresight {
        let redact = &self.redact;
        match found {
            Ok((will, why)) => Foresight { letter, will, code: None, path: None, why: redact(&why) },
            Err(Rejection { code, path, detail }) => Foresight {
                letter,
                will: Will::FailAgain,
                code: Some(code.to_string()),
                path: path.as_deref().map(|path| redact(path)),
                why: redact(&detail),
            },
        }
    }

    async fn read(
        &self,
        tenant: &Tenant,
        letter: &DeadLetter,
        version: Option<u32>,
    ) -> Result<Read, StoreError> {
        if is_followed(letter.letter.rejection.code) {
            return self.followed(tenant, letter).await;
        }
        if !matches!(letter.status, LetterStatus::Open | LetterStatus::Discarded) {
            let last = self.store.replays(tenant, letter.id).await?.pop();
            let why = last.map_or_else(|| letter.status.as_str().to_owned(), |row| came_of(&row));
            return Ok(Read::Known(Will::NotSent, format!("the letter was replayed before: {why}")));
        }
        let Some((_, content)) = self.store.content(tenant, letter.id, version).await? else {
            let asked = version.unwrap_or_default();
            return Ok(Read::Known(Will::NotSent, format!("the letter has no version {asked}")));
        };
        let delivery = Delivery {
            stream: letter.letter.position.stream.clone(),
            subject: letter.letter.subject.clone(),
            sequence: letter.letter.position.sequence,
            headers: content.headers,
            payload: Bytes::from(content.payload),
            delivered: 1,
            // It would be stored now.
            stored_at: self.clock.now(),
        };
        let consumer = letter.letter.position.consumer.as_str();
        if [Role::Reviewer, Role::Tracker].map(Role::as_str).contains(&consumer) {
            return Ok(heard(consumer, &delivery));
        }
        if consumer != Role::Counter.as_str() {
            return self.woken(tenant, consumer, &delivery).await;
        }
        Ok(match run_completed::read(&delivery, &self.hosts) {
            Err(rejection) => Read::Refused(rejection),
            Ok(event) => {
                let run_completed::RunCompleted { event, key, content_hash, run, .. } = event;
                Read::Arrived(Box::new(Arrival { event, key, content_hash, run }))
            }
        })
    }

    /// What following a failed retrospective would open.
    async fn followed(&self, tenant: &Tenant, letter: &DeadLetter) -> Result<Read, StoreError> {
        let gone = || Read::Known(Will::NotSent, "its retrospective is not there".to_owned());
        if letter.status == LetterStatus::Replayed {
            return Ok(Read::Known(
                Will::NotSent,
                "its replay opened the next retrospective before".to_owned(),
            ));
        }
        let Some(id) = retro_store::steer::failed_retrospective(&letter.letter) else { return Ok(gone()) };
        let Some(failed) = self.store.retrospective(tenant, id).await?.map(|one| one.retrospective) else {
            return Ok(gone());
        };
        let workflows = self.store.workflows(tenant).await?;
        let Some(row) = workflows.into_iter().find(|row| row.key == failed.key) else { return Ok(gone()) };
        let mut state = row.state;
        Ok(match state.reopen(&failed, &self.policies.of(&failed.key), self.clock.now()) {
            Err(why) => Read::Known(Will::NotSent, super::not_reopened(why)),
            Ok(opening) => {
                let one = opening.retrospective;
                let why = format!("{} opens over runs {} to {}", name(&one), one.first, one.last);
                Read::Known(Will::Open, why)
            }
        })
    }

    /// What a message of our own would wake.
    async fn woken(&self, tenant: &Tenant, consumer: &str, delivery: &Delivery) -> Result<Read, StoreError> {
        let message = match delivery.message() {
            Ok(message) => message,
            Err(rejection) => return Ok(Read::Refused(rejection)),
        };
        let (role, id) = match message.notice {
            Notice::RetrospectiveDue { retrospective } => (Role::Sampler, retrospective),
            Notice::InvestigationDue { retrospective, .. } => (Role::Investigator, retrospective),
            Notice::MutationsDue { retrospective } => (Role::Writer, retrospective),
            Notice::RulesDue { batch } => {
                let why = format!("the writer wakes, and applies batch {batch} of rules unless it has");
                return Ok(Read::Known(Will::Wake, why));
            }
            Notice::OutcomesDue { pull_request, .. } => {
                let why = format!("the writer wakes, and credits what waits behind {pull_request}");
                return Ok(Read::Known(Will::Wake, why));
            }
            ref other => {
                let detail = format!("the {consumer} was sent {}", other.kind());
                return Ok(Read::Refused(Rejection::at(Code::FieldInvalid, "notice", detail)));
            }
        };
        // Another tenant's is not there.
        let found = match message.tenant == *tenant {
            true => self.store.retrospective(tenant, id).await?.map(|one| one.retrospective),
            false => None,
        };
        Ok(match found {
            Some(one) => wakes(role, &one),
            None if role == Role::Investigator => {
                Read::Known(Will::Nothing, "an investigator wakes, and claims whatever is due".to_owned())
            }
            None => Read::Refused(Rejection::at(
                Code::UnknownReference,
                "notice.retrospective",
                format!("there is no retrospective {id} in tenant {}", message.tenant),
            )),
        })
    }
}

impl Read {
    fn arrival(&self) -> Option<&Arrival> {
        match self {
            Self::Arrived(arrival) => Some(arrival),
            Self::Known(..) | Self::Refused(_) => None,
        }
    }
}

/// Whoever hears what happened at GitHub keeps it once, and as it was said last.
fn heard(consumer: &str, delivery: &Delivery) -> Read {
    match github::read(delivery) {
        Err(rejection) => Read::Refused(rejection),
        Ok(event) => {
            let (kind, repo) = (event.data.what.kind(), words::line(&event.data.repo));
            let why = format!("the {consumer} hears {kind} of {repo}, unless it has heard this event before");
            Read::Known(Will::Hear, why)
        }
    }
}

fn wakes(role: Role, one: &Retrospective) -> Read {
    let waits = match role {
        Role::Sampler => one.state == State::Due,
        Role::Investigator => one.state == State::Investigating,
        _ => one.state == State::Settling,
    };
    if waits {
        Read::Known(Will::Wake, format!("it wakes the {role}, and {} goes on", name(one)))
    } else {
        let state = one.state.as_str();
        Read::Known(
            Will::Nothing,
            format!("it wakes the {role}, which has nothing to do: {} is {state}", name(one)),
        )
    }
}

fn decided(arrival: &Arrival, found: &Disposition, effects: &Effects) -> Result<(Will, String), Rejection> {
    let (run, workflow) =
        (words::line(arrival.run.run_id.as_str()), words::line(arrival.key.workflow.as_str()));
    Ok(match found {
        Disposition::Conflict(rejection) => return Err(rejection.clone()),
        Disposition::Counted(ordinal) => {
            let opens = effects.opened.iter().find(|opening| {
                opening.retrospective.key == arrival.key && opening.retrospective.last == *ordinal
            });
            let opens =
                opens.map(|one| format!(", and opens {}", name(&one.retrospective))).unwrap_or_default();
            (Will::Count, format!("run {run} counts as run {ordinal} of workflow {workflow}{opens}"))
        }
        Disposition::Updated => {
            (Will::Update, format!("run {run} of workflow {workflow} is known; its facts change"))
        }
        Disposition::Recorded => {
            (Will::Record, format!("run {run} of workflow {workflow} is kept and does not count"))
        }
        Disposition::Superseded => (
            Will::Nothing,
            format!(
                "run {run} of workflow {workflow} is known by a later attempt, or claimed: it keeps its facts"
            ),
        ),
        Disposition::Duplicate => (Will::Nothing, "the event was handled before: nothing changes".to_owned()),
    })
}
