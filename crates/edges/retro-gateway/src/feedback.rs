//! Requests and responses of `POST /v1/feedback`, independent of the transport.

use retro_core::feedback::{
    FEEDBACK_BY_CHARS_MAX, FEEDBACK_WHY_BYTES_MAX, Feedback, FeedbackAcceptance, FeedbackAuthor,
    FeedbackVerdict, FeedbackWords, GivenFeedback, accept_feedback,
};
use retro_core::id::{MemoryId, MemoryRef, RunId, Step, Tenant, Workflow};
use retro_http::deciding_token;
use retro_redact::Redactor;
use retro_store::FeedbackStore;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a memory or a rule did, as an agent, a person or an evaluation says. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
pub struct FeedbackRequest {
    /// Id of the memory or rule, or at least its first 8 digits, as in the block of the context.
    #[schema(value_type = String)]
    pub memory: MemoryRef,
    /// What it did. `wrong` says that it is not so: two runs that say so end a memory, unless it helped in
    /// more runs of the same retrospective.
    pub verdict: FeedbackVerdict,
    /// Why, in at most 1,024 bytes. It is shown to people and never handed to an agent. Secrets in it are removed.
    #[serde(default)]
    #[schema(max_length = 1024)]
    pub why: Option<String>,
    /// Run that the agent speaks of, or that was evaluated; needs `workflow`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub run: Option<RunId>,
    /// Workflow of the run.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub workflow: Option<Workflow>,
    /// Step of the run in which it was handed out.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub step: Option<Step>,
    /// Name of the person, or of the evaluation. With an access token, only one that allows `operate` speaks for a person or an evaluation; the name itself is not verified.
    #[serde(default)]
    #[schema(max_length = 100)]
    pub by: Option<String>,
    /// Who says so [default: `person` if no run is named, otherwise `agent`].
    #[serde(default)]
    pub source: Option<FeedbackSource>,
}

/// Source of feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackSource {
    /// The agent of a run.
    Agent,
    /// A person.
    Person,
    /// A program or a model that judged a run.
    Evaluation,
}

/// Response to feedback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FeedbackAnswer {
    /// Outcome of recording the feedback.
    pub recorded: FeedbackRecording,
    /// What follows, or why it was not recorded.
    pub reason: String,
}

/// Outcome of recording feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackRecording {
    /// It is stored, and will be weighed in the next retrospective of the workflow, or with the next batch of rules.
    Recorded,
    /// The same was recorded before.
    AlreadyRecorded,
    /// It is not stored: a limit is reached.
    Refused,
    /// The database did not confirm in time. Sending it again is safe.
    Unknown,
}

/// Error for a field of a request for feedback.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` {problem}")]
pub struct FeedbackFieldError {
    /// Name of the field.
    pub field: &'static str,
    /// What is the matter with it, and what to do.
    pub problem: String,
}

fn invalid(field: &'static str, problem: impl Into<String>) -> FeedbackFieldError {
    FeedbackFieldError { field, problem: problem.into() }
}

impl FeedbackRequest {
    /// Returns `true` if an agent says so, who may speak of its run only.
    pub fn is_of_agent(&self) -> bool {
        self.source() == FeedbackSource::Agent
    }

    fn source(&self) -> FeedbackSource {
        self.source.unwrap_or(match (&self.run, &self.workflow) {
            (None, None) => FeedbackSource::Person,
            _ => FeedbackSource::Agent,
        })
    }

    /// Returns who says so. Fails if the request does not say whose feedback it is, or says two things.
    pub fn author(&self) -> Result<FeedbackAuthor, FeedbackFieldError> {
        let of_run = self.run.clone().zip(self.workflow.clone());
        let by = self.by.as_deref().map(str::trim);
        match by.map(|by| by.chars().count()) {
            Some(0) => return Err(invalid("by", "is empty")),
            Some(long) if long > FEEDBACK_BY_CHARS_MAX => {
                return Err(invalid(
                    "by",
                    format!("is {long} characters long; at most {FEEDBACK_BY_CHARS_MAX}"),
                ));
            }
            _ => {}
        }
        let by = by.map(redact_text);
        match (self.source(), of_run, by) {
            (FeedbackSource::Agent, Some((run, workflow)), None) => {
                Ok(FeedbackAuthor::Agent { workflow, run, step: self.step.clone() })
            }
            (FeedbackSource::Evaluation, Some((run, workflow)), Some(by)) => {
                Ok(FeedbackAuthor::Evaluation { workflow, run, by })
            }
            (FeedbackSource::Person, None, Some(by)) if self.run.is_none() && self.workflow.is_none() => {
                Ok(FeedbackAuthor::Person { by })
            }
            (FeedbackSource::Person, _, None) => {
                Err(invalid("by", "is missing: name the person, or the agent's `run` and `workflow`"))
            }
            (FeedbackSource::Person, ..) => {
                Err(invalid("run", "is for the feedback of an agent: a person speaks of the memory"))
            }
            (FeedbackSource::Agent, Some(_), Some(_)) => Err(invalid(
                "by",
                "is for the feedback of a person or, with `source` `evaluation`, of an evaluation",
            )),
            (FeedbackSource::Evaluation, Some(_), None) => {
                Err(invalid("by", "is missing: name the evaluation"))
            }
            (_, None, _) if self.run.is_none() => Err(invalid("run", "is missing: name the run")),
            (_, None, _) => Err(invalid("workflow", "is missing: name the workflow of the run")),
        }
    }

    /// Returns the reason without secrets, judged at the gate. Fails if it is too long.
    pub(crate) fn words(&self) -> Result<Option<FeedbackWords>, FeedbackFieldError> {
        let Some(why) = self.why.as_deref() else { return Ok(None) };
        if why.len() > FEEDBACK_WHY_BYTES_MAX {
            let problem = format!("is {} bytes long; at most {FEEDBACK_WHY_BYTES_MAX} are kept", why.len());
            return Err(invalid("why", problem));
        }
        Ok(FeedbackWords::judge(&redact_text(why)))
    }

    /// Returns the feedback on the memory that the request names. Fails if a field is missing or too long.
    pub fn to_given(&self, memory: MemoryId) -> Result<GivenFeedback, FeedbackFieldError> {
        Ok(GivenFeedback { memory, verdict: self.verdict, author: self.author()?, why: self.words()? })
    }
}

fn redact_text(text: &str) -> String {
    Redactor::shared().redact_text(text).into_owned()
}

/// Stores feedback, unless it was stored before or a limit is reached. Returns `None` if the tenant has no such memory.
pub async fn store_feedback(
    store: &(impl FeedbackStore + ?Sized),
    tenant: &Tenant,
    given: &GivenFeedback,
) -> retro_store::Result<Option<FeedbackAnswer>> {
    let token = deciding_token();
    let decide = |facts: &_| match accept_feedback(tenant, given, facts) {
        FeedbackAcceptance::New(feedback) => {
            FeedbackAcceptance::New(Feedback { with_token: token.clone(), ..feedback })
        }
        other => other,
    };
    let accepted = store.record_feedback(tenant, given, &decide).await?;
    let Some(accepted) = accepted else { return Ok(None) };
    let source = given.author.source();
    let verdict = given.verdict.as_str();
    let (recorded, reason, outcome) = match accepted {
        FeedbackAcceptance::New(_) => (FeedbackRecording::Recorded, WEIGHED_LATER.to_owned(), "recorded"),
        FeedbackAcceptance::AlreadyRecorded => (
            FeedbackRecording::AlreadyRecorded,
            "the same was recorded before".to_owned(),
            "already_recorded",
        ),
        FeedbackAcceptance::Refused(why) => (FeedbackRecording::Refused, why.to_owned(), "refused"),
    };
    retro_telemetry::metrics::FEEDBACK_RECEIVED.add(1, [source, verdict, outcome]);
    Ok(Some(FeedbackAnswer { recorded, reason }))
}

const WEIGHED_LATER: &str = "it changes no weight at once: the next retrospective of the workflow weighs it, or the next batch of rules";

#[cfg(test)]
mod tests;
