//! OpenAPI schema of the event. `retro_events` parses it and does not depend on OpenAPI; a test checks the golden
//! payloads against this schema.
#![expect(dead_code, reason = "only its schema is used")]

use utoipa::ToSchema;

/// A CloudEvent 1.0 that reports a finished run. Further attributes are preserved.
#[derive(ToSchema)]
pub(super) struct Event {
    /// CloudEvents version, `1.0`.
    specversion: String,
    /// Id of the event; together with `source` its identity within the tenant.
    id: String,
    /// Emitter of the event.
    source: String,
    /// Event type, `dev.retrospect.run.completed.v1`.
    r#type: String,
    /// Time of the event, RFC 3339.
    time: Option<String>,
    /// Tenant of the run; must be the caller's.
    tenant: Option<String>,
    /// The finished run.
    data: RunData,
}

/// A finished run. Unknown fields are preserved.
#[derive(ToSchema)]
pub(super) struct RunData {
    /// Name of the workflow, as the emitter calls it.
    workflow: String,
    /// Id of the run, as the emitter calls it.
    run_id: String,
    /// Outcome of the run.
    outcome: Outcome,
    /// Attempt of this run, from 1.
    #[schema(minimum = 1)]
    attempt: Option<u32>,
    /// `normal`, or `internal` for a run of the pipeline's own, which is never counted.
    kind: Option<String>,
    /// Start of the run, RFC 3339.
    started_at: Option<String>,
    /// End of the run, RFC 3339.
    finished_at: Option<String>,
    /// Repository that the run worked on, `owner/name`.
    repo: Option<String>,
    /// Number of the pull request.
    pull_request: Option<u64>,
    /// Commit hash.
    commit: Option<String>,
    /// User who asked for the run.
    user: Option<String>,
    /// Agent that executed the run: name, version and model.
    #[schema(value_type = Option<Object>)]
    agent: Option<()>,
    /// Version of the prompt in use.
    prompt_version: Option<String>,
    /// Name of the task. Runs of the same task share it, which makes them comparable.
    task: Option<String>,
    /// Resources that the run used: `input_tokens`, `output_tokens` and `cost_usd`.
    #[schema(value_type = Option<Object>)]
    usage: Option<()>,
    /// Ids of the memories that were presented to the run (`presented`) and that it opened (`read`).
    #[schema(value_type = Option<Object>)]
    memories: Option<()>,
    /// Advice of the agent to the next run: a text, or a list of texts and of `{step, text}`.
    #[schema(value_type = Option<Value>)]
    self_feedback: Option<()>,
    /// An ATIF document, 1.0 to 1.7, of at most 16 MiB.
    #[schema(value_type = Option<Object>)]
    trajectory: Option<()>,
    /// Reference to a trajectory stored elsewhere, instead of `trajectory`: address, SHA-256 and size.
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
