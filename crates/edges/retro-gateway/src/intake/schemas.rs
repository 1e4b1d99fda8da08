//! Defines the OpenAPI schema of run events. No real type can carry it: events are read field by field from
//! the JSON document, because unknown fields must be preserved and errors must name their path. A test checks
//! the golden payloads against this schema.
#![expect(dead_code, reason = "only its schema is used")]

use utoipa::ToSchema;

/// A CloudEvent 1.0 that reports a finished run. Additional attributes are preserved.
#[derive(ToSchema)]
pub(super) struct Event {
    /// CloudEvents version; always `1.0`.
    specversion: String,
    /// Event id, unique per `source` within the tenant.
    id: String,
    /// Emitter of the event, as a URI reference.
    source: String,
    /// Event type; always `dev.retrospect.run.completed.v1`.
    r#type: String,
    /// Time of the event, in RFC 3339 format.
    time: Option<String>,
    /// Tenant of the run, which must match the caller's tenant.
    tenant: Option<String>,
    /// The finished run.
    data: RunData,
}

/// A finished run. Unknown fields are preserved.
#[derive(ToSchema)]
pub(super) struct RunData {
    /// Workflow name chosen by the emitter.
    workflow: String,
    /// Run id assigned by the emitter.
    run_id: String,
    /// Outcome reported by the emitter.
    outcome: Outcome,
    /// 1-based number of this attempt at the run.
    #[schema(minimum = 1)]
    attempt: Option<u32>,
    /// Kind of run: `normal`, or `internal` for Retrospect's own runs, which are never counted.
    kind: Option<String>,
    /// `true` if no more is known of the run than these facts. It is recorded and not counted, and must have
    /// neither `trajectory` nor `dataref`.
    outcome_only: Option<bool>,
    /// Start time of the run, in RFC 3339 format.
    started_at: Option<String>,
    /// End time of the run, in RFC 3339 format.
    finished_at: Option<String>,
    /// Repository that the run worked on, as `owner/name`. What the run teaches is handed to runs of this repository
    /// only, until another repository has shown it as well.
    repo: Option<String>,
    /// Who may read the repository: `public` or `private`. Without it, what the run shows counts as private.
    repo_visibility: Option<String>,
    /// Number of the run's pull request.
    pull_request: Option<u64>,
    /// Hash of the run's commit.
    commit: Option<String>,
    /// User who started the run.
    user: Option<String>,
    /// Agent that executed the run, with its name, version and model.
    #[schema(value_type = Option<Object>)]
    agent: Option<()>,
    /// Version of the prompt given to the agent.
    prompt_version: Option<String>,
    /// Task name chosen by the emitter. Runs with the same task are comparable.
    task: Option<String>,
    /// Resources used by the run: `input_tokens`, `output_tokens` and `cost_usd`.
    #[schema(value_type = Option<Object>)]
    usage: Option<()>,
    /// Ids of the memories that were presented to the run (`presented`) and that it opened (`read`).
    #[schema(value_type = Option<Object>)]
    memories: Option<()>,
    /// Advice from the agent to the next run: a string, or a list of strings and `{step, text}` objects.
    #[schema(value_type = Option<Value>)]
    self_feedback: Option<()>,
    /// Trajectory of the run: an ATIF document, version 1.0 to 1.7, at most 16 MiB.
    #[schema(value_type = Option<Object>)]
    trajectory: Option<()>,
    /// Reference to a trajectory that is stored elsewhere, with its address, SHA-256 and size. Use it instead
    /// of `trajectory`.
    #[schema(value_type = Option<Object>)]
    dataref: Option<()>,
}

/// Result of a run.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum Outcome {
    Success,
    Failure,
    Error,
    Timeout,
    Cancellation,
    Skip,
    /// The emitter reported no outcome. The run is counted but is not used as evidence.
    Unknown,
}
