//! Response types of the OpenAPI document. The types that are actually serialized belong to the core and the store,
//! which do not depend on OpenAPI. Nested values are described as plain objects. Tests of the `retro` crate check
//! real responses against these types.
#![expect(dead_code, reason = "only the derived schemas are used")]

use utoipa::ToSchema;

/// Memories, heaviest first.
#[derive(ToSchema)]
pub(super) struct Memories {
    items: Vec<Memory>,
    /// True when more memories match.
    more: bool,
}

/// The effect of a memory on the success of its workflow's runs.
#[derive(ToSchema)]
pub(super) struct MemoryEffectView {
    id: String,
    /// Title of the lesson; null for a lesson that was suppressed before it became a memory.
    #[schema(required = true)]
    title: Option<String>,
    /// The comparison; null when there are no runs of one workflow to compare.
    #[schema(required = true)]
    effect: Option<MemoryEffect>,
    /// The conclusion in one sentence.
    told: String,
}

/// Comparison of runs that were presented with the memory and runs that were not, while it was active.
#[derive(ToSchema)]
pub(super) struct MemoryEffect {
    with: Arm,
    without: Arm,
    /// Tasks that were tried both with and without it.
    paired_tasks: u32,
    /// Number of observations; a claim takes ten.
    observations: u32,
    /// The estimate; null while there are too few runs for a claim.
    #[schema(required = true)]
    estimate: Option<Estimate>,
}

/// Number of runs, and of those that succeeded.
#[derive(ToSchema)]
pub(super) struct Arm {
    runs: u32,
    succeeded: u32,
}

/// Difference of the success rates and its 90 % interval, in thousandths.
#[derive(ToSchema)]
pub(super) struct Estimate {
    /// `paired` (task by task) or `unpaired`.
    method: String,
    difference_milli: i32,
    low_milli: i32,
    high_milli: i32,
}

/// Retrospectives, newest first.
#[derive(ToSchema)]
pub(super) struct Retrospectives {
    items: Vec<RetrospectiveRow>,
    /// True when more retrospectives match.
    more: bool,
}

/// Proposals, those of the newest retrospective first.
#[derive(ToSchema)]
pub(super) struct Proposals {
    items: Vec<Proposal>,
    /// True when more proposals match.
    more: bool,
}

/// A proposal of a manual retrospective, and its decision.
#[derive(ToSchema)]
pub(super) struct Proposal {
    /// Id, step, lesson, and the runs that show it with their quotes.
    #[schema(value_type = Object)]
    proposal: (),
    /// Verdict, actor and time; null while the proposal is open.
    #[schema(value_type = Option<Object>, required = true)]
    decision: (),
}

/// Runs, newest first.
#[derive(ToSchema)]
pub(super) struct Runs {
    items: Vec<Run>,
    /// True when more runs match.
    more: bool,
}

/// Pull-request outcomes by workflow.
#[derive(ToSchema)]
pub(super) struct Outcomes {
    items: Vec<WorkflowOutcomes>,
    /// Always false: all workflows are included.
    more: bool,
}

/// The pull-request outcomes of a workflow's runs.
#[derive(ToSchema)]
pub(super) struct WorkflowOutcomes {
    workflow: String,
    /// Runs that belong to a pull request.
    runs: u64,
    /// Runs whose pull request was approved.
    approved: u64,
    /// Runs whose pull request had changes requested.
    changes_requested: u64,
    /// Mean number of requests for changes, in thousandths.
    review_rounds_mean_milli: Option<u64>,
    /// Runs whose pull request was merged.
    merged: u64,
    /// Runs whose pull request was closed without a merge.
    closed_unmerged: u64,
    /// Median time from opening to merge, in seconds.
    time_to_merge_median_s: Option<u64>,
}

/// Dead letters, newest first, redacted and without their messages.
#[derive(ToSchema)]
pub(super) struct DeadLetters {
    items: Vec<DeadLetter>,
    /// True when more dead letters match.
    more: bool,
    /// Cursor for the next page; pass it as `behind`.
    next: Option<String>,
}

/// Dead letters grouped by cause, role and workflow.
#[derive(ToSchema)]
pub(super) struct DeadLetterStats {
    /// The groups, largest first.
    groups: Vec<DeadLetterGroup>,
    /// Number of dead letters in all groups.
    letters: u64,
    /// True when there are more than were counted; the oldest are missing.
    cut: bool,
}

/// Dead letters with the same cause.
#[derive(ToSchema)]
pub(super) struct DeadLetterGroup {
    /// Dead-letter code.
    code: String,
    /// Path of the field that caused the rejection, without array indices.
    path: Option<String>,
    /// The sentence they share, redacted. Quoted text is replaced by `…`, and words with digits by `#`.
    sentence: String,
    /// Consumer that gave up; named after its role.
    consumer: String,
    /// Workflow from the subject.
    workflow: Option<String>,
    /// Number of dead letters.
    letters: u64,
    /// Number of those that are still open.
    open: u64,
    /// Time of the first dead letter, RFC 3339.
    first_seen: String,
    /// Time of the last dead letter, RFC 3339.
    last_seen: String,
    /// Id of the last dead letter, as an example.
    example: String,
}

/// A memory.
#[derive(ToSchema)]
pub(super) struct Memory {
    /// Id of the memory, a UUID.
    id: String,
    /// Scope: workflow and step, or wider.
    #[schema(value_type = Object)]
    scope: (),
    /// Subject, title, content and cue.
    #[schema(value_type = Object)]
    lesson: (),
    /// tentative, active, archived, deleted, superseded or graduated.
    status: String,
    /// Weight in thousandths.
    #[schema(maximum = 1000)]
    weight: u16,
    /// Distinct runs that observed it.
    observed_runs: u32,
    /// The most recent quotes.
    #[schema(value_type = Vec<Object>)]
    evidence: (),
    /// Creation time, RFC 3339.
    created_at: String,
    /// Time of the last change, RFC 3339.
    changed_at: String,
}

/// The history of a memory.
#[derive(ToSchema)]
pub(super) struct MemoryHistory {
    /// Id of the memory, a UUID.
    id: String,
    /// The memory with all changes applied; null for a lesson that was suppressed before it became a memory.
    #[schema(required = true)]
    memory: Option<Memory>,
    /// All changes, in order, with status and weight before and after, cause, reason and quote.
    #[schema(value_type = Vec<Object>)]
    life: (),
    /// The effect in one line; missing when there are no runs of one workflow to compare.
    effect: Option<String>,
}

/// A retrospective in a list.
#[derive(ToSchema)]
pub(super) struct RetrospectiveRow {
    /// Id, workflow, epoch, window, policy and state.
    #[schema(value_type = Object)]
    retrospective: (),
    /// Number of finished investigations.
    investigated: u32,
    /// Number of changes made.
    changes: u32,
}

/// A retrospective in full.
#[derive(ToSchema)]
pub(super) struct Retrospective {
    /// Id, workflow, epoch, window, policy and state.
    #[schema(value_type = Object)]
    retrospective: (),
    /// Seed, order and size; null until the sample is drawn.
    #[schema(value_type = Option<Object>, required = true)]
    sample: (),
    /// Investigations so far, finished or not.
    #[schema(value_type = Vec<Object>)]
    investigations: (),
}

/// The report of a retrospective.
#[derive(ToSchema)]
pub(super) struct Report {
    /// Id of the retrospective, which is also the report's id; a UUID.
    id: String,
    /// Tenant of the workflow.
    tenant: String,
    /// Name of the workflow.
    workflow: String,
    /// Final state of the retrospective.
    ended: String,
    /// Policy moment, RFC 3339.
    as_of: String,
    /// Runs that cost or took far more than the workflow's median; missing when there are none.
    #[schema(value_type = Option<Vec<Object>>)]
    outliers: (),
    /// Errors associated with failure, each with its p-value; missing when there are none.
    #[schema(value_type = Option<Vec<Object>>)]
    associations: (),
    /// All investigations.
    #[schema(value_type = Vec<Object>)]
    investigations: (),
    /// All changes, in order.
    #[schema(value_type = Vec<Object>)]
    changes: (),
    /// Policy that applied.
    #[schema(value_type = Object)]
    policy: (),
}

/// A run.
#[derive(ToSchema)]
pub(super) struct Run {
    /// Tenant and workflow.
    #[schema(value_type = Object)]
    key: (),
    /// Ordinal; null when the run was recorded but not counted.
    #[schema(required = true)]
    ordinal: Option<u64>,
    /// Facts from its event.
    #[schema(value_type = Object)]
    facts: (),
    /// Location of its trajectory.
    #[schema(value_type = Object)]
    body: (),
    /// Time at which it was first stored, RFC 3339.
    received_at: String,
}

/// A message that could not be handled, redacted.
#[derive(ToSchema)]
pub(super) struct DeadLetter {
    /// Id of the dead letter, a UUID.
    id: String,
    /// Dead-letter code.
    code: String,
    /// Path of the field that caused the rejection.
    path: Option<String>,
    /// The reason in one sentence.
    detail: String,
    /// True when a replay of the unchanged message may succeed.
    retryable: bool,
    /// Current status.
    status: String,
    /// Number of replays so far.
    replays: u32,
    /// NATS subject of the message.
    subject: String,
    /// Number of delivery attempts.
    attempts: u32,
    /// Time at which the broker stored the message, RFC 3339.
    stored_at: String,
    /// Time at which the message was dead-lettered, RFC 3339.
    created_at: String,
    /// Size of the payload in bytes.
    payload_bytes: u64,
    /// SHA-256 of the original payload, in hex.
    payload_sha256: String,
}

/// A dead letter in full, redacted.
#[derive(ToSchema)]
pub(super) struct DeadLetterDetail {
    /// Id of the dead letter, a UUID.
    id: String,
    /// Dead-letter code.
    code: String,
    /// Path of the field that caused the rejection.
    path: Option<String>,
    /// The reason in one sentence.
    detail: String,
    /// True when a replay of the unchanged message may succeed.
    retryable: bool,
    /// Current status.
    status: String,
    /// NATS subject of the message.
    subject: String,
    /// Number of delivery attempts.
    attempts: u32,
    /// Time at which the broker stored the message, RFC 3339.
    stored_at: String,
    /// Time at which the message was dead-lettered, RFC 3339.
    created_at: String,
    /// Size of the payload in bytes.
    payload_bytes: u64,
    /// SHA-256 of the original payload, in hex.
    payload_sha256: String,
    /// Headers as pairs of name and value.
    headers: Vec<Vec<String>>,
    /// Payload as text, decompressed; JSON is indented.
    payload: String,
    /// True when the decompressed payload is UTF-8.
    payload_utf8: bool,
    /// Time of the first failed attempt, RFC 3339.
    first_failed_at: Option<String>,
    /// Time of the last failed attempt, RFC 3339.
    last_failed_at: Option<String>,
    /// All attempts, oldest first.
    history: Vec<DeadLetterAttempt>,
    /// Edited versions, oldest first.
    versions: Vec<DeadLetterVersion>,
    /// All replays, oldest first: each with its result, in one sentence.
    sent_again: Vec<String>,
    /// Runbook of the code, in Markdown.
    runbook: String,
    /// Audit log of the dead letter, oldest entry first.
    #[schema(value_type = Option<Vec<Object>>)]
    acts: (),
}

/// A delivery attempt.
#[derive(ToSchema)]
pub(super) struct DeadLetterAttempt {
    /// Number of the attempt, from 1.
    attempt: u32,
    /// Consumer of the attempt, and the stream position.
    #[schema(value_type = Object)]
    position: (),
    /// Time at which the attempt was counted, RFC 3339.
    begun_at: Option<String>,
    /// Time at which the attempt failed, RFC 3339; missing when no failure was recorded.
    failed_at: Option<String>,
    /// Dead-letter code; missing when the message was to be retried.
    code: Option<String>,
    /// Path of the field that caused the rejection.
    path: Option<String>,
    /// The failure in one sentence.
    detail: Option<String>,
    /// Version of the program that made the attempt.
    program_version: String,
}

/// An edited version of a dead letter.
#[derive(ToSchema)]
pub(super) struct DeadLetterVersion {
    /// Number of the version, from 1.
    version: u32,
    /// Number of the version that was edited; 0 is the original.
    based_on: u32,
    /// Size of the payload in bytes.
    payload_bytes: u64,
    /// SHA-256 of the payload, in hex.
    payload_sha256: String,
    /// Name of the actor.
    by: String,
    /// Reason for the edit.
    reason: String,
    /// Time of the edit, RFC 3339.
    at: String,
}
