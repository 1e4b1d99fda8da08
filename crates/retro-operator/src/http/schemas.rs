//! Defines the response schemas of the OpenAPI description. The types that are actually serialized live in
//! the core and the store, which do not depend on OpenAPI. Nested values are described as plain objects.
//! Tests of the `retro` crate check real responses against these schemas.
#![expect(dead_code, reason = "only the derived schemas are used")]

use utoipa::ToSchema;

/// Memories, highest weight first.
#[derive(ToSchema)]
pub(super) struct Memories {
    items: Vec<Memory>,
    /// `true` if more memories match.
    more: bool,
}

/// Effect of a memory on the success of its workflow's runs.
#[derive(ToSchema)]
pub(super) struct MemoryEffectView {
    id: String,
    /// Title of the lesson; null for a lesson that was suppressed before it became a memory.
    #[schema(required = true)]
    title: Option<String>,
    /// Comparison of the runs; null if there are no runs of one workflow to compare.
    #[schema(required = true)]
    effect: Option<MemoryEffect>,
    /// Conclusion of the comparison in one sentence.
    conclusion: String,
}

/// Comparison of runs that were presented with the memory and runs that were not, while the memory was
/// active.
#[derive(ToSchema)]
pub(super) struct MemoryEffect {
    with: Arm,
    without: Arm,
    /// Number of tasks that were tried both with and without the memory.
    paired_tasks: u32,
    /// Number of observations; a claim requires ten.
    observations: u32,
    /// Estimated difference; null while there are too few observations for a claim.
    #[schema(required = true)]
    estimate: Option<Estimate>,
}

/// One side of the comparison: number of runs, and number of successful runs.
#[derive(ToSchema)]
pub(super) struct Arm {
    runs: u32,
    succeeded: u32,
}

/// Estimated difference between the success rates and the bounds of its 90 % interval, in thousandths.
#[derive(ToSchema)]
pub(super) struct Estimate {
    /// Method of the comparison: `paired` (task by task) or `unpaired`.
    method: String,
    difference_milli: i32,
    low_milli: i32,
    high_milli: i32,
}

/// Retrospectives, newest first.
#[derive(ToSchema)]
pub(super) struct Retrospectives {
    items: Vec<RetrospectiveRow>,
    /// `true` if more retrospectives match.
    more: bool,
}

/// Proposals of manual retrospectives, newest retrospective first.
#[derive(ToSchema)]
pub(super) struct Proposals {
    items: Vec<Proposal>,
    /// `true` if more proposals match.
    more: bool,
}

/// A proposal of a manual retrospective with its decision.
#[derive(ToSchema)]
pub(super) struct Proposal {
    /// Id, step and lesson of the proposal, and the runs that show the lesson with their quotes.
    #[schema(value_type = Object)]
    proposal: (),
    /// Verdict, actor and time of the decision; null while the proposal is open.
    #[schema(value_type = Option<Object>, required = true)]
    decision: (),
}

/// Runs, newest first.
#[derive(ToSchema)]
pub(super) struct Runs {
    items: Vec<Run>,
    /// `true` if more runs match.
    more: bool,
}

/// Outcomes of pull requests, per workflow.
#[derive(ToSchema)]
pub(super) struct Outcomes {
    items: Vec<WorkflowOutcomes>,
    /// Always `false`, because the list contains all workflows.
    more: bool,
}

/// Outcomes of the pull requests of a workflow's runs.
#[derive(ToSchema)]
pub(super) struct WorkflowOutcomes {
    workflow: String,
    /// Number of runs linked to a pull request.
    runs: u64,
    /// Number of runs whose pull request was approved.
    approved: u64,
    /// Number of runs whose pull request had changes requested.
    changes_requested: u64,
    /// Mean number of review rounds per linked pull request, in thousandths; absent if no pull request was
    /// reviewed or has ended.
    review_rounds_mean_milli: Option<u64>,
    /// Number of runs whose pull request was merged.
    merged: u64,
    /// Number of runs whose pull request was closed without a merge.
    closed_unmerged: u64,
    /// Median time from opening to merge, in seconds; absent if no time is known.
    time_to_merge_median_s: Option<u64>,
}

/// Redacted dead letters without their messages, newest first.
#[derive(ToSchema)]
pub(super) struct DeadLetters {
    items: Vec<DeadLetter>,
    /// `true` if more dead letters match.
    more: bool,
    /// Cursor for the next page, to pass as `after`; absent if no more dead letters match.
    next: Option<String>,
}

/// Dead letters grouped by cause, role and workflow.
#[derive(ToSchema)]
pub(super) struct DeadLetterStats {
    /// Groups of dead letters, largest first.
    groups: Vec<DeadLetterGroup>,
    /// Number of dead letters in all groups.
    dead_letters: u64,
    /// `true` if not all dead letters were counted; the oldest are missing.
    truncated: bool,
}

/// A group of dead letters with the same cause.
#[derive(ToSchema)]
pub(super) struct DeadLetterGroup {
    /// Dead-letter code shared by the group.
    code: String,
    /// Path of the field that caused the rejection, without array indices; absent if no single field caused
    /// it.
    path: Option<String>,
    /// Redacted reason shared by the group, in one sentence. Quoted text is replaced by `…`, and words with
    /// digits by `#`.
    detail: String,
    /// Consumer that gave up on the messages, named after its role.
    consumer: String,
    /// Workflow from the subject; null if the subject could not be parsed.
    workflow: Option<String>,
    /// Number of dead letters in the group.
    dead_letters: u64,
    /// Number of dead letters in the group that are still open.
    open: u64,
    /// Time at which the first message of the group was dead-lettered, RFC 3339.
    first_seen: String,
    /// Time at which the last message of the group was dead-lettered, RFC 3339.
    last_seen: String,
    /// Id of the newest dead letter in the group, as an example.
    example: String,
}

/// A memory with its lesson, weight and evidence.
#[derive(ToSchema)]
pub(super) struct Memory {
    /// Id of the memory, a UUID.
    id: String,
    /// Scope of the memory: a step of a workflow, or wider.
    #[schema(value_type = Object)]
    scope: (),
    /// Subject, title, content and cue of the lesson.
    #[schema(value_type = Object)]
    lesson: (),
    /// Status of the memory: tentative, active, archived, deleted, superseded or graduated.
    status: String,
    /// Weight of the memory, in thousandths.
    #[schema(maximum = 1000)]
    weight: u16,
    /// Number of distinct runs that showed the lesson.
    observed_runs: u32,
    /// Most recent quotes from runs that showed the lesson.
    #[schema(value_type = Vec<Object>)]
    evidence: (),
    /// Time at which the memory was created, RFC 3339.
    created_at: String,
    /// Time at which the memory was last changed, RFC 3339.
    changed_at: String,
}

/// History of a memory since its first change.
#[derive(ToSchema)]
pub(super) struct MemoryHistory {
    /// Id of the memory, a UUID.
    id: String,
    /// The memory with all changes applied; null for a lesson that was suppressed before it became a memory.
    #[schema(required = true)]
    memory: Option<Memory>,
    /// All changes of the memory, oldest first. Each has the status and weight before and after, the cause, the
    /// reason and the quote.
    #[schema(value_type = Vec<Object>)]
    history: (),
    /// Effect of the memory in one line; absent if there are no runs of one workflow to compare.
    effect: Option<String>,
}

/// A retrospective as a list entry.
#[derive(ToSchema)]
pub(super) struct RetrospectiveRow {
    /// Id, workflow, epoch, window, policy and state of the retrospective.
    #[schema(value_type = Object)]
    retrospective: (),
    /// Number of finished investigations.
    investigated: u32,
    /// Number of changes that the retrospective made to memories.
    changes: u32,
}

/// A retrospective with its sample and investigations.
#[derive(ToSchema)]
pub(super) struct Retrospective {
    /// Id, workflow, epoch, window, policy and state of the retrospective.
    #[schema(value_type = Object)]
    retrospective: (),
    /// Seed, order and size of the sample; null until the sample is drawn.
    #[schema(value_type = Option<Object>, required = true)]
    sample: (),
    /// Investigations that have started, finished or not.
    #[schema(value_type = Vec<Object>)]
    investigations: (),
}

/// The report of a retrospective.
#[derive(ToSchema)]
pub(super) struct Report {
    /// Id of the report and of its retrospective, a UUID.
    id: String,
    /// Tenant of the workflow.
    tenant: String,
    /// Name of the workflow.
    workflow: String,
    /// Final state of the retrospective: `closed` or `failed`.
    ended: String,
    /// Policy moment of the retrospective, RFC 3339.
    as_of: String,
    /// Runs whose cost, tokens or duration far exceed the workflow's median; absent if there are none.
    #[schema(value_type = Option<Vec<Object>>)]
    outliers: (),
    /// Errors associated with failure, each with its p-value; absent if there are none.
    #[schema(value_type = Option<Vec<Object>>)]
    associations: (),
    /// All investigations of the retrospective.
    #[schema(value_type = Vec<Object>)]
    investigations: (),
    /// All changes that the retrospective made, in order.
    #[schema(value_type = Vec<Object>)]
    changes: (),
    /// Policy of the retrospective.
    #[schema(value_type = Object)]
    policy: (),
}

/// A run of a workflow.
#[derive(ToSchema)]
pub(super) struct Run {
    /// Tenant and workflow of the run.
    #[schema(value_type = Object)]
    key: (),
    /// Ordinal of the run in its workflow; null if the run was recorded but not counted.
    #[schema(required = true)]
    ordinal: Option<u64>,
    /// Facts about the run from its event.
    #[schema(value_type = Object)]
    facts: (),
    /// Location of the run's trajectory.
    #[schema(value_type = Object)]
    body: (),
    /// Time at which the run was first stored, RFC 3339.
    received_at: String,
}

/// A redacted dead letter: a message that could not be handled.
#[derive(ToSchema)]
pub(super) struct DeadLetter {
    /// Id of the dead letter, a UUID.
    id: String,
    /// Dead-letter code, such as `field_invalid`, which says why the message was given up.
    code: String,
    /// Path of the field that caused the rejection; absent if no single field caused it.
    path: Option<String>,
    /// Redacted reason for the rejection, in one sentence.
    detail: String,
    /// `true` if a replay of the unchanged message may succeed.
    retryable: bool,
    /// Current status of the dead letter: open, replaying, handled, discarded or replayed.
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

/// A redacted dead letter with its attempts, versions and replays.
#[derive(ToSchema)]
pub(super) struct DeadLetterDetail {
    /// Id of the dead letter, a UUID.
    id: String,
    /// Dead-letter code, such as `field_invalid`, which says why the message was given up.
    code: String,
    /// Path of the field that caused the rejection; absent if no single field caused it.
    path: Option<String>,
    /// Redacted reason for the rejection, in one sentence.
    detail: String,
    /// `true` if a replay of the unchanged message may succeed.
    retryable: bool,
    /// Current status of the dead letter: open, replaying, handled, discarded or replayed.
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
    /// Decompressed payload as text. JSON is indented.
    payload: String,
    /// `true` if the decompressed payload is UTF-8.
    payload_utf8: bool,
    /// Time of the first failed attempt, RFC 3339; null if the message failed before attempts were recorded.
    first_failed_at: Option<String>,
    /// Time of the last failed attempt, RFC 3339; null if the message failed before attempts were recorded.
    last_failed_at: Option<String>,
    /// Attempts on the original message, oldest first, followed by the attempts on its replays.
    history: Vec<DeadLetterAttempt>,
    /// Edited versions, oldest first; the original is version 0.
    versions: Vec<DeadLetterVersion>,
    /// Replays, oldest first: one sentence each, with the result.
    replay_results: Vec<String>,
    /// Runbook of the dead-letter code, in Markdown.
    runbook: String,
    /// Audit log of the dead letter, oldest entry first.
    #[schema(value_type = Option<Vec<Object>>)]
    audit_log: (),
}

/// One delivery attempt, redacted.
#[derive(ToSchema)]
pub(super) struct DeadLetterAttempt {
    /// 1-based number of the attempt at this stream position.
    attempt: u32,
    /// Consumer that made the attempt, and the stream position of the message.
    #[schema(value_type = Object)]
    position: (),
    /// Time at which the attempt was counted, RFC 3339; null for the first delivery, which is not counted.
    started_at: Option<String>,
    /// Time at which the attempt failed, RFC 3339; null if no failure was recorded.
    failed_at: Option<String>,
    /// Dead-letter code of a final failure; null if the message was to be retried.
    code: Option<String>,
    /// Path of the field that caused the rejection; null if no single field caused it.
    path: Option<String>,
    /// Reason for the failure in one sentence; null if no failure was recorded.
    detail: Option<String>,
    /// Version of the program that made the attempt.
    program_version: String,
}

/// An edited version of a dead letter.
#[derive(ToSchema)]
pub(super) struct DeadLetterVersion {
    /// 1-based number of the version.
    version: u32,
    /// Number of the version that was edited; 0 is the original.
    based_on: u32,
    /// Size of the payload in bytes.
    payload_bytes: u64,
    /// SHA-256 of the payload, in hex.
    payload_sha256: String,
    /// Name of the operator who made the edit.
    by: String,
    /// Reason for the edit.
    reason: String,
    /// Time of the edit, RFC 3339.
    at: String,
}
