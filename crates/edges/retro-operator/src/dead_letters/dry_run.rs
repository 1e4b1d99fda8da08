//! Predicts the result of a replay without performing it. The consumer's own parser and pure decision
//! function run on the state that is stored at this moment, and nothing is written. Messages that arrive
//! before the actual replay may change its result.

use bytes::Bytes;
use retro_core::count::{self, Arrival, CountingEffects, Disposition, IntakeProgress};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{DeadLetterId, Tenant};
use retro_core::message::Notice;
use retro_core::retrospective::{Retrospective, RetrospectiveState};
use retro_events::{Delivery, Role, github, run_completed};
use retro_store::replay::is_reopenable;
use retro_store::{DeadLetter, DeadLetterStatus, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use super::describe_replay::{SPANS_NOT_SENT, describe_reopen_error, describe_replay};
use super::{DeadLetterSelection, ReplayError, ReplayService};
use crate::cancel::retrospective_name;
use crate::text;

/// Predicted effect of a replay or a discard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PredictedEffect {
    /// The run would be counted.
    Count,
    /// The facts of a known run would be replaced.
    Update,
    /// The run would be recorded but not counted.
    Record,
    /// Nothing would change, for example because the message was handled before.
    Nothing,
    /// The message would be dead-lettered again.
    FailAgain,
    /// The next retrospective would open.
    Open,
    /// The message would wake its stage.
    Wake,
    /// The GitHub event would be recorded, unless it was recorded before.
    RecordEvent,
    /// The message would not be sent, for example because a replay is under way or the message was handled.
    NotSent,
    /// The dead letter would be discarded.
    Discard,
}

impl PredictedEffect {
    /// Returns a clause that describes the effect, to be followed by the reason.
    const fn describe_effect(self) -> &'static str {
        match self {
            Self::Count => "it would be counted",
            Self::Update => "it would update its run",
            Self::Record => "it would be recorded but not counted",
            Self::Nothing => "it would change nothing",
            Self::FailAgain => "it would fail again",
            Self::Open => "it would open the next retrospective",
            Self::Wake => "it would wake its stage",
            Self::RecordEvent => "it would be recorded",
            Self::NotSent => "it would not be sent",
            Self::Discard => "it would be discarded",
        }
    }
}

/// Predicted result of replaying or discarding one dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Prediction {
    /// Id of the dead letter.
    #[schema(value_type = String)]
    pub dead_letter: DeadLetterId,
    /// Predicted effect of the command.
    pub effect: PredictedEffect,
    /// Code with which the message would be dead-lettered again; absent if it would not be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Path of the field that would cause the rejection; absent if no single field would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Reason for the predicted effect, in one sentence with secrets redacted.
    pub reason: String,
}

impl Prediction {
    /// Renders the prediction as one line for a terminal.
    pub fn render_text(&self) -> String {
        let Self { dead_letter, effect, code, path, reason } = self;
        let code = code.as_deref().map(|code| format!(", {code}")).unwrap_or_default();
        let path = path.as_deref().map(|path| format!(" at {}", text::single_line(path))).unwrap_or_default();
        format!("{dead_letter}  {}{code}{path}: {}\n", effect.describe_effect(), text::single_line(reason))
    }
}

/// Predicted results of replaying many dead letters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct DryRunResult {
    /// One prediction per dead letter, oldest first, which is the order of the replay.
    pub items: Vec<Prediction>,
}

/// First assessment of a dead letter. The effect of a countable one depends on the counter's facts, which are
/// loaded later for all arrivals together.
enum Assessment {
    Decided(PredictedEffect, String),
    Rejected(Rejection),
    Countable(Box<Arrival>),
}

impl ReplayService {
    /// Predicts the results of replaying the selected dead letters now, oldest first.
    pub async fn dry_run(
        &self,
        tenant: &Tenant,
        chosen: &DeadLetterSelection,
    ) -> Result<DryRunResult, ReplayError> {
        let dead_letters = self.select_dead_letters(tenant, chosen).await?;
        Ok(DryRunResult { items: self.predict_all(tenant, &dead_letters, None).await? })
    }

    /// Predicts the result of replaying one dead letter now. Returns `None` if the tenant has no such dead letter.
    pub async fn dry_run_one(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: Option<u32>,
    ) -> Result<Option<Prediction>, ReplayError> {
        let Some(dead_letter) = self.store.find_dead_letter(tenant, dead_letter).await? else {
            return Ok(None);
        };
        Ok(self.predict_all(tenant, &[dead_letter], version).await?.pop())
    }

    async fn predict_all(
        &self,
        tenant: &Tenant,
        dead_letters: &[DeadLetter],
        version: Option<u32>,
    ) -> Result<Vec<Prediction>, StoreError> {
        let mut assessments = Vec::with_capacity(dead_letters.len());
        for dead_letter in dead_letters {
            assessments.push(self.assess_dead_letter(tenant, dead_letter, version).await?);
        }
        let arrivals: Vec<Arrival> = assessments.iter().filter_map(Assessment::arrival).cloned().collect();
        // All arrivals are decided together, as in a batch of the counter, because an earlier one can change
        // the result of a later one.
        let facts = self.store.load_counting_facts(&arrivals).await?;
        let effects = count::count_arrivals(
            facts,
            &arrivals,
            IntakeProgress::NotAwaited,
            &*self.policies,
            self.clock.now(),
        );
        // Arrivals are in the order of the countable assessments, so one iterator can be consumed below.
        let mut counted = arrivals.iter().zip(&effects.decisions);
        let mut predictions = Vec::with_capacity(dead_letters.len());
        for (dead_letter, assessments) in dead_letters.iter().zip(assessments) {
            predictions.push(self.build_prediction(
                dead_letter.id,
                match assessments {
                    Assessment::Decided(effect, reason) => Ok((effect, reason)),
                    Assessment::Rejected(rejection) => Err(rejection),
                    Assessment::Countable(_) => {
                        let (arrival, counted) =
                            counted.next().expect("the decision has one entry per arrival");
                        predict_count(arrival, &counted.disposition, &effects)
                    }
                },
            ));
        }
        Ok(predictions)
    }

    pub(super) fn build_prediction(
        &self,
        dead_letter: DeadLetterId,
        found: Result<(PredictedEffect, String), Rejection>,
    ) -> Prediction {
        let redact = &self.redact;
        match found {
            Ok((effect, reason)) => {
                Prediction { dead_letter, effect, code: None, path: None, reason: redact(&reason) }
            }
            Err(Rejection { code, path, detail }) => Prediction {
                dead_letter,
                effect: PredictedEffect::FailAgain,
                code: Some(code.to_string()),
                path: path.as_deref().map(|path| redact(path)),
                reason: redact(&detail),
            },
        }
    }

    async fn assess_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: &DeadLetter,
        version: Option<u32>,
    ) -> Result<Assessment, StoreError> {
        // These dead letters are never sent again: their replay opens the next retrospective instead.
        if is_reopenable(dead_letter.message.rejection.code) {
            return self.assess_reopen(tenant, dead_letter).await;
        }
        if dead_letter.message.holds_spans() {
            return Ok(Assessment::Decided(PredictedEffect::NotSent, SPANS_NOT_SENT.to_owned()));
        }
        if !matches!(dead_letter.status, DeadLetterStatus::Open | DeadLetterStatus::Discarded) {
            let last = self.store.list_replays(tenant, dead_letter.id).await?.pop();
            let reason =
                last.map_or_else(|| dead_letter.status.as_str().to_owned(), |row| describe_replay(&row));
            return Ok(Assessment::Decided(
                PredictedEffect::NotSent,
                format!("the dead letter was replayed before: {reason}"),
            ));
        }
        let Some((_, content)) = self.store.find_replay_content(tenant, dead_letter.id, version).await?
        else {
            let version = version.unwrap_or_default();
            return Ok(Assessment::Decided(
                PredictedEffect::NotSent,
                format!("the dead letter has no version {version}"),
            ));
        };
        let delivery = Delivery {
            stream: dead_letter.message.position.stream.clone(),
            subject: dead_letter.message.subject.clone(),
            sequence: dead_letter.message.position.sequence,
            headers: content.headers,
            payload: Bytes::from(content.payload),
            delivered: 1,
            // A replay is stored as a new message, so the broker would stamp it with the time of the replay.
            stored_at: self.clock.now(),
        };
        let consumer = dead_letter.message.position.consumer.as_str();
        if [Role::Reviewer, Role::Tracker].map(Role::as_str).contains(&consumer) {
            return Ok(assess_github_event(consumer, &delivery));
        }
        if consumer != Role::Counter.as_str() {
            return self.assess_wake_up(tenant, consumer, &delivery).await;
        }
        Ok(match run_completed::parse_delivery(&delivery, &self.hosts) {
            Err(rejection) => Assessment::Rejected(rejection),
            Ok(event) => {
                let run_completed::RunCompleted { event, key, content_hash, run, .. } = event;
                let position = delivery.sequence;
                Assessment::Countable(Box::new(Arrival { event, key, content_hash, position, run }))
            }
        })
    }

    /// Predicts which retrospective the replay would open after the failed retrospective of this dead letter.
    async fn assess_reopen(
        &self,
        tenant: &Tenant,
        dead_letter: &DeadLetter,
    ) -> Result<Assessment, StoreError> {
        let not_found =
            || Assessment::Decided(PredictedEffect::NotSent, "its retrospective is not there".to_owned());
        if dead_letter.status == DeadLetterStatus::Replayed {
            return Ok(Assessment::Decided(
                PredictedEffect::NotSent,
                "its replay opened the next retrospective before".to_owned(),
            ));
        }
        let Some(id) = retro_store::cancel::failed_retrospective(&dead_letter.message) else {
            return Ok(not_found());
        };
        let Some(failed) = self.store.find_retrospective(tenant, id).await?.map(|one| one.retrospective)
        else {
            return Ok(not_found());
        };
        let workflows = self.store.list_workflows(tenant).await?;
        let Some(row) = workflows.into_iter().find(|row| row.key == failed.key) else {
            return Ok(not_found());
        };
        let mut state = row.state;
        Ok(match state.reopen_after(&failed, &self.policies.policy_for(&failed.key), self.clock.now()) {
            Err(reason) => Assessment::Decided(PredictedEffect::NotSent, describe_reopen_error(reason)),
            Ok(opening) => {
                let one = opening.retrospective;
                let reason =
                    format!("{} opens over runs {} to {}", retrospective_name(&one), one.first, one.last);
                Assessment::Decided(PredictedEffect::Open, reason)
            }
        })
    }

    /// Predicts which stage one of the program's own messages would wake.
    async fn assess_wake_up(
        &self,
        tenant: &Tenant,
        consumer: &str,
        delivery: &Delivery,
    ) -> Result<Assessment, StoreError> {
        let message = match delivery.parse_message() {
            Ok(message) => message,
            Err(rejection) => return Ok(Assessment::Rejected(rejection)),
        };
        let (role, id) = match message.notice {
            Notice::RetrospectiveDue { retrospective } => (Role::Sampler, retrospective),
            Notice::InvestigationDue { retrospective, .. } => (Role::Investigator, retrospective),
            Notice::MutationsDue { retrospective } => (Role::Writer, retrospective),
            Notice::RulesDue { batch } => {
                let reason = format!("the writer wakes, and applies batch {batch} of rules unless it has");
                return Ok(Assessment::Decided(PredictedEffect::Wake, reason));
            }
            Notice::OutcomesDue { pull_request, .. } => {
                let reason = format!("the writer wakes, and credits what waits behind {pull_request}");
                return Ok(Assessment::Decided(PredictedEffect::Wake, reason));
            }
            ref other => {
                let detail = format!("the {consumer} was sent {}", other.kind());
                return Ok(Assessment::Rejected(Rejection::of_field(
                    DeadLetterCode::FieldInvalid,
                    "notice",
                    detail,
                )));
            }
        };
        // A retrospective of another tenant must look like one that does not exist.
        let found = match message.tenant == *tenant {
            true => self.store.find_retrospective(tenant, id).await?.map(|one| one.retrospective),
            false => None,
        };
        Ok(match found {
            Some(one) => predict_wake_up(role, &one),
            None if role == Role::Investigator => Assessment::Decided(
                PredictedEffect::Nothing,
                "an investigator wakes, and claims whatever is due".to_owned(),
            ),
            None => Assessment::Rejected(Rejection::of_field(
                DeadLetterCode::UnknownReference,
                "notice.retrospective",
                format!("there is no retrospective {id} in tenant {}", message.tenant),
            )),
        })
    }
}

impl Assessment {
    fn arrival(&self) -> Option<&Arrival> {
        match self {
            Self::Countable(arrival) => Some(arrival),
            Self::Decided(..) | Self::Rejected(_) => None,
        }
    }
}

/// Predicts the result for a GitHub event. Its consumers record each event once.
fn assess_github_event(consumer: &str, delivery: &Delivery) -> Assessment {
    match github::parse_event(delivery) {
        Err(rejection) => Assessment::Rejected(rejection),
        Ok(event) => {
            let (kind, repo) = (event.data.what.event_kind(), text::single_line(&event.data.repo));
            let reason =
                format!("the {consumer} records {kind} of {repo}, unless it has recorded this event before");
            Assessment::Decided(PredictedEffect::RecordEvent, reason)
        }
    }
}

fn predict_wake_up(role: Role, one: &Retrospective) -> Assessment {
    let waits = match role {
        Role::Sampler => one.state == RetrospectiveState::Due,
        Role::Investigator => one.state == RetrospectiveState::Investigating,
        _ => one.state == RetrospectiveState::Settling,
    };
    if waits {
        Assessment::Decided(
            PredictedEffect::Wake,
            format!("it wakes the {role}, and {} goes on", retrospective_name(one)),
        )
    } else {
        let state = one.state.as_str();
        Assessment::Decided(
            PredictedEffect::Nothing,
            format!("it wakes the {role}, which has nothing to do: {} is {state}", retrospective_name(one)),
        )
    }
}

fn predict_count(
    arrival: &Arrival,
    found: &Disposition,
    effects: &CountingEffects,
) -> Result<(PredictedEffect, String), Rejection> {
    let (run, workflow) =
        (text::single_line(arrival.run.run_id.as_str()), text::single_line(arrival.key.workflow.as_str()));
    Ok(match found {
        Disposition::Conflict(rejection) => return Err(rejection.clone()),
        Disposition::Counted(ordinal) => {
            // The run that fills the window opens the retrospective, and it is the last run of the window.
            let opens = effects.opened.iter().find(|opening| {
                opening.retrospective.key == arrival.key && opening.retrospective.last == *ordinal
            });
            let opens = opens
                .map(|one| format!(", and opens {}", retrospective_name(&one.retrospective)))
                .unwrap_or_default();
            (
                PredictedEffect::Count,
                format!("run {run} counts as run {ordinal} of workflow {workflow}{opens}"),
            )
        }
        Disposition::Updated => {
            (PredictedEffect::Update, format!("run {run} of workflow {workflow} is known; its facts change"))
        }
        Disposition::Recorded => {
            let reason = arrival.run.not_counted_reason();
            let reason = reason.map_or_else(String::new, |reason| format!(": {}", reason.describe()));
            (
                PredictedEffect::Record,
                format!("run {run} of workflow {workflow} is recorded but not counted{reason}"),
            )
        }
        Disposition::Superseded => (
            PredictedEffect::Nothing,
            format!(
                "run {run} of workflow {workflow} is known by a later attempt, or claimed: it keeps its facts"
            ),
        ),
        Disposition::Duplicate => {
            (PredictedEffect::Nothing, "the event was handled before: nothing changes".to_owned())
        }
    })
}
