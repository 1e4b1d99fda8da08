//! OpenAPI schema of the event. `retro_events` parses it and does not depend on OpenAPI; a test checks the golden
//! payloads against this schema.
#![expect(dead_code, reason = "only its schema is used")]

use utoipa::ToSchema;

/// A CloudEvent 1.0 that reports a finished run. Further attributes are preserved.
#[derive(ToSchema)]
pub(super) struct Event {
    /// CloudEvents version, `1.0`.
    specversion: String,
    /// Id of the event, which together with `source` identifies it within the tenant.
    id: String,
    /// Emitter of the event.
    source: String,
    /// Event type, `dev.retrospect.run.completed.v1`.
    r#type: String,
    /// Time of the event, RFC 3339.
    time: Option<String>,
    /// Tenant of the run, which must be that of the caller.
    tenant: Option<String>,
    /// The finished run.
    data: RunData,
}

/// A finished run. Unknown fields are preserved.
#[derive(ToSchema)]
pub(super) struct RunData {
    /// Name that the emitter gives the workflow.
    workflow: String,
    /// Id that the emitter gives the run.
    run_id: String,
    /// Outcome of the run.
    outcome: Outcome,
    /// Number of this attempt at the run, from 1.
    #[schema(minimum = 1)]
    attempt: Option<u32>,
    /// Kind of the run: `normal`, or `internal` for a run of Retrospect itself, which is never counted.
    kind: Option<String>,
    /// Time when the run started, RFC 3339.
    started_at: Option<String>,
    /// Time when the run finished, RFC 3339.
    finished_at: Option<String>,
    /// Repository that the run worked on, as `owner/name`.
    repo: Option<String>,
    /// Number of the pull request that the run belongs to.
    pull_request: Option<u64>,
    /// Hash of the commit that the run belongs to.
    commit: Option<String>,
    /// User who started the run.
    user: Option<String>,
    /// Agent that executed the run: name, version and model.
    #[schema(value_type = Option<Object>)]
    agent: Option<()>,
    /// Version of the prompt that the agent was given.
    prompt_version: Option<String>,
    /// Name that the emitter gives the task. Runs of the same task share it, so that they can be compared.
    task: Option<String>,
    /// Resources that the run used: `input_tokens`, `output_tokens` and `cost_usd`.
    #[schema(value_type = Option<Object>)]
    usage: Option<()>,
    /// Ids of the memories that were presented to the run (`presented`) and that it opened (`read`).
    #[schema(value_type = Option<Object>)]
    memories: Option<()>,
    /// Advice of the agent to the next run: a text, or a list whose items are texts or `{step, text}`.
    #[schema(value_type = Option<Value>)]
    self_feedback: Option<()>,
    /// Trajectory of the run: an ATIF document of version 1.0 to 1.7, of at most 16 MiB.
    #[schema(value_type = Option<Object>)]
    trajectory: Option<()>,
    /// Reference to a trajectory that is stored elsewhere, with its address, SHA-256 and size. It replaces
    /// `trajectory`.
    #[schema(value_type = Option<Object>)]
    dataref: Option<()>,
}

/// Outcome of a run.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
pub(super) enum Outcome {
    Success,
    Failure,
    Error,
    Timeout,
    Cancellation,
    Skip,
    /// The emitter did not report an outcome. The run is counted but does not serve as evidence.
    Unknown,
}
