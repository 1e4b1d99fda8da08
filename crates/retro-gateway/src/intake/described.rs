//! The event as the OpenAPI document describes it. It is read by `retro_events`, which knows no such document; a test
//! holds the golden payloads against this.
#![expect(dead_code, reason = "only its description is used")]

use utoipa::ToSchema;

/// A CloudEvent 1.0 that tells of a finished run. Other attributes are kept.
#[derive(ToSchema)]
pub(super) struct Event {
    /// `1.0`.
    specversion: String,
    /// With `source`, the event's identity within its tenant.
    id: String,
    /// Who says it.
    source: String,
    /// `dev.retrospect.run.completed.v1`.
    r#type: String,
    /// When it happened, RFC 3339.
    time: Option<String>,
    /// The tenant, which has to be the caller's.
    tenant: Option<String>,
    /// The run.
    data: RunData,
}

/// A finished run. Unknown fields are kept.
#[derive(ToSchema)]
pub(super) struct RunData {
    /// The emitter's name of the workflow.
    workflow: String,
    /// The emitter's id of the run.
    run_id: String,
    /// What became of it.
    outcome: Outcome,
    /// Which try of this run, from 1.
    #[schema(minimum = 1)]
    attempt: Option<u32>,
    /// `normal`, or `internal` for a run of the pipeline's own, which is never counted.
    kind: Option<String>,
    /// When it started, RFC 3339.
    started_at: Option<String>,
    /// When it finished, RFC 3339.
    finished_at: Option<String>,
    /// Repository, `owner/name`.
    repo: Option<String>,
    /// Pull request number.
    pull_request: Option<u64>,
    /// Commit hash.
    commit: Option<String>,
    /// Who asked for the run.
    user: Option<String>,
    /// The agent that did it: name, version, model.
    #[schema(value_type = Option<Object>)]
    agent: Option<()>,
    /// Version of the prompt in use.
    prompt_version: Option<String>,
    /// What it was to do, by a name that other runs of the same task carry too: makes runs comparable.
    task: Option<String>,
    /// What the run used: input_tokens, output_tokens, cost_usd.
    #[schema(value_type = Option<Object>)]
    usage: Option<()>,
    /// Ids of the memories that it was shown (`presented`) and opened (`read`).
    #[schema(value_type = Option<Object>)]
    memories: Option<()>,
    /// What the agent would tell the next run: a text, or a list of texts and of `{step, text}`.
    #[schema(value_type = Option<Value>)]
    self_feedback: Option<()>,
    /// An ATIF document, 1.0 to 1.7, of at most 16 MiB.
    #[schema(value_type = Option<Object>)]
    trajectory: Option<()>,
    /// Instead of `trajectory`: where it lies, with its SHA-256 and size.
    #[schema(value_type = Option<Object>)]
    dataref: Option<()>,
}

/// What became of a run.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum Outcome {
    Success,
    Failure,
    Error,
    Timeout,
    Cancellation,
    Skip,
    /// Nobody said: counted, and evidence for nothing.
    Unknown,
}
