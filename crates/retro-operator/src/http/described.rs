//! What is answered as the OpenAPI document describes it: the types themselves belong to the core and the ports, which
//! know no such document. What lies deeper is called an object here. Real answers are held against this in the tests of
//! the program.
#![expect(dead_code, reason = "only its description is used")]

use utoipa::ToSchema;

/// Memories, heaviest first.
#[derive(ToSchema)]
pub(super) struct Memories {
    items: Vec<Memory>,
    /// Whether there are more than were asked for.
    more: bool,
}

/// What a memory does to the success of its workflow's runs.
#[derive(ToSchema)]
pub(super) struct Effect {
    id: String,
    /// What it says; null for a lesson that was kept away before it became a memory.
    #[schema(required = true)]
    title: Option<String>,
    /// Null where there are no runs of one workflow to compare.
    #[schema(required = true)]
    effect: Option<MemoryEffect>,
    /// What can be said of it, in one sentence.
    told: String,
}

/// The runs that met a memory beside those that did not, while it was active.
#[derive(ToSchema)]
pub(super) struct MemoryEffect {
    with: Arm,
    without: Arm,
    /// Tasks that were tried both with and without it.
    paired_tasks: u32,
    /// How many observations there are of the ten that a claim takes.
    observations: u32,
    /// Null while there are too few runs for any claim.
    #[schema(required = true)]
    estimate: Option<Estimate>,
}

/// Runs, and how many of them did what they were for.
#[derive(ToSchema)]
pub(super) struct Arm {
    runs: u32,
    succeeded: u32,
}

/// A difference of success rates with its interval of 90 %, in thousandths.
#[derive(ToSchema)]
pub(super) struct Estimate {
    /// `paired`, task by task, or `unpaired`.
    method: String,
    difference_milli: i32,
    low_milli: i32,
    high_milli: i32,
}

/// Retrospectives, the newest first.
#[derive(ToSchema)]
pub(super) struct Retrospectives {
    items: Vec<RetrospectiveRow>,
    /// Whether there are more than were asked for.
    more: bool,
}

/// Proposals, those of the newest retrospective first.
#[derive(ToSchema)]
pub(super) struct Proposals {
    items: Vec<Proposal>,
    /// Whether there are more than were asked for.
    more: bool,
}

/// What a manual retrospective proposes, and what was decided.
#[derive(ToSchema)]
pub(super) struct Proposal {
    /// Id, step, lesson, and the runs that show it with their quotes.
    #[schema(value_type = Object)]
    proposal: (),
    /// Verdict, by whom and when; null while it is open.
    #[schema(value_type = Option<Object>, required = true)]
    decision: (),
}

/// Runs, the newest first.
#[derive(ToSchema)]
pub(super) struct Runs {
    items: Vec<Run>,
    /// Whether there are more than were asked for.
    more: bool,
}

/// What became of runs, by workflow.
#[derive(ToSchema)]
pub(super) struct Outcomes {
    items: Vec<WorkflowOutcomes>,
    /// Never: all workflows are there.
    more: bool,
}

/// What became of a workflow's runs.
#[derive(ToSchema)]
pub(super) struct WorkflowOutcomes {
    workflow: String,
    /// Runs that belong to a pull request.
    runs: u64,
    /// Of those, whose pull request was approved.
    approved: u64,
    /// Of those, whose pull request had changes requested.
    changes_requested: u64,
    /// Requests for changes in the mean, thousandths.
    review_rounds_mean_milli: Option<u64>,
    /// Of those, whose pull request was merged.
    merged: u64,
    /// Of those, whose pull request stands closed without a merge.
    closed_unmerged: u64,
    /// Seconds from opening to merge, the median.
    time_to_merge_median_s: Option<u64>,
}

/// Dead letters, the newest first, redacted and without their messages.
#[derive(ToSchema)]
pub(super) struct DeadLetters {
    items: Vec<DeadLetter>,
    /// Whether there are more than were asked for.
    more: bool,
    /// Where the next page begins: ask with `behind`.
    next: Option<String>,
}

/// Dead letters grouped by mistake, role and workflow.
#[derive(ToSchema)]
pub(super) struct LetterStats {
    /// The groups, the largest first.
    groups: Vec<LetterGroup>,
    /// Letters in them.
    letters: u64,
    /// Whether there are more than were counted; the oldest are missing.
    cut: bool,
}

/// Dead letters of one mistake.
#[derive(ToSchema)]
pub(super) struct LetterGroup {
    /// Why they were given up, in one word.
    code: String,
    /// The path of the field that is to blame, without the numbers in it.
    path: Option<String>,
    /// The sentence they share: what is quoted is `…`, and a word with a digit `#`.
    sentence: String,
    /// Who gave up.
    consumer: String,
    /// The workflow.
    workflow: Option<String>,
    /// How many there are.
    letters: u64,
    /// How many of them nobody has acted on.
    open: u64,
    /// When the first was given up, RFC 3339.
    first_seen: String,
    /// When the last was given up, RFC 3339.
    last_seen: String,
    /// The id of the last one.
    example: String,
}

/// A memory.
#[derive(ToSchema)]
pub(super) struct Memory {
    /// Its id, a UUID.
    id: String,
    /// What it is about: workflow and step, or more.
    #[schema(value_type = Object)]
    scope: (),
    /// What it says: subject, title, content, cue.
    #[schema(value_type = Object)]
    lesson: (),
    /// tentative, active, archived, deleted, superseded or graduated.
    status: String,
    /// What it has earned, thousandths.
    #[schema(maximum = 1000)]
    weight: u16,
    /// Distinct runs that observed it.
    observed_runs: u32,
    /// The most recent quotes.
    #[schema(value_type = Vec<Object>)]
    evidence: (),
    /// When it was created, RFC 3339.
    created_at: String,
    /// When it last changed, RFC 3339.
    changed_at: String,
}

/// The life of a memory.
#[derive(ToSchema)]
pub(super) struct Why {
    /// Its id, a UUID.
    id: String,
    /// As its changes make it; null for a lesson that was kept away before it became a memory.
    #[schema(required = true)]
    memory: Option<Memory>,
    /// Every change, in order, with status and weight before and after, cause, reason and quote.
    #[schema(value_type = Vec<Object>)]
    life: (),
    /// What can be said of its effect, in one line; missing where there are no runs of one workflow to compare.
    effect: Option<String>,
}

/// A retrospective in a list.
#[derive(ToSchema)]
pub(super) struct RetrospectiveRow {
    /// Id, workflow, epoch, window, policy and state.
    #[schema(value_type = Object)]
    retrospective: (),
    /// Investigations that have ended.
    investigated: u32,
    /// Changes it made.
    changes: u32,
}

/// A retrospective in full.
#[derive(ToSchema)]
pub(super) struct Retrospective {
    /// Id, workflow, epoch, window, policy and state.
    #[schema(value_type = Object)]
    retrospective: (),
    /// Seed, order and size, once it is drawn.
    #[schema(value_type = Option<Object>, required = true)]
    sample: (),
    /// Its investigations so far, ended or not.
    #[schema(value_type = Vec<Object>)]
    investigations: (),
}

/// The report of a retrospective.
#[derive(ToSchema)]
pub(super) struct Report {
    /// The retrospective, and the report's own id, a UUID.
    id: String,
    /// The tenant.
    tenant: String,
    /// The workflow.
    workflow: String,
    /// How it ended.
    ended: String,
    /// The policy moment, RFC 3339.
    as_of: String,
    /// Runs that cost or took far more than the workflow's own; missing when there are none.
    #[schema(value_type = Option<Vec<Object>>)]
    outliers: (),
    /// Errors that go with failure, each with its p; missing when none is shown.
    #[schema(value_type = Option<Vec<Object>>)]
    associations: (),
    /// Each investigation.
    #[schema(value_type = Vec<Object>)]
    investigations: (),
    /// Every change, in order.
    #[schema(value_type = Vec<Object>)]
    changes: (),
    /// The policy it was made under.
    #[schema(value_type = Object)]
    policy: (),
}

/// A run.
#[derive(ToSchema)]
pub(super) struct Run {
    /// Tenant and workflow.
    #[schema(value_type = Object)]
    key: (),
    /// Its ordinal; null when it was recorded and not counted.
    #[schema(required = true)]
    ordinal: Option<u64>,
    /// What its event said.
    #[schema(value_type = Object)]
    facts: (),
    /// Where its trajectory is.
    #[schema(value_type = Object)]
    body: (),
    /// When it was first stored, RFC 3339.
    received_at: String,
}

/// A message that could not be handled, redacted.
#[derive(ToSchema)]
pub(super) struct DeadLetter {
    /// Its id, a UUID.
    id: String,
    /// Why it was given up, in one word.
    code: String,
    /// The path of the field that is to blame.
    path: Option<String>,
    /// Why, in one sentence.
    detail: String,
    /// Whether sending it again as it is may help.
    retryable: bool,
    /// Where it stands.
    status: String,
    /// How often it was sent again.
    replays: u32,
    /// The subject.
    subject: String,
    /// Attempts spent.
    attempts: u32,
    /// When the broker stored the message, RFC 3339.
    stored_at: String,
    /// When it was given up, RFC 3339.
    created_at: String,
    /// Size of the payload, bytes.
    payload_bytes: u64,
    /// SHA-256 of the payload as it came, hex.
    payload_sha256: String,
}

/// A dead letter in full, redacted.
#[derive(ToSchema)]
pub(super) struct LetterPage {
    /// Its id, a UUID.
    id: String,
    /// Why it was given up, in one word.
    code: String,
    /// The path of the field that is to blame.
    path: Option<String>,
    /// Why, in one sentence.
    detail: String,
    /// Whether sending it again as it is may help.
    retryable: bool,
    /// Where it stands.
    status: String,
    /// The subject.
    subject: String,
    /// Attempts spent.
    attempts: u32,
    /// When the broker stored the message, RFC 3339.
    stored_at: String,
    /// When it was given up, RFC 3339.
    created_at: String,
    /// Size of the payload, bytes.
    payload_bytes: u64,
    /// SHA-256 of the payload as it came, hex.
    payload_sha256: String,
    /// The headers.
    headers: Vec<Vec<String>>,
    /// The payload as text, unpacked and, where it is JSON, indented.
    payload: String,
    /// Whether the payload is UTF-8.
    payload_utf8: bool,
    /// When it first failed, RFC 3339.
    first_failed_at: Option<String>,
    /// When it failed last, RFC 3339.
    last_failed_at: Option<String>,
    /// What became of each attempt, the first one first.
    history: Vec<Attempt>,
    /// What people made of it, the first version first.
    versions: Vec<Version>,
    /// Each time it was sent again, the first one first, and what came of it, in one sentence.
    sent_again: Vec<String>,
    /// The page of its code, Markdown.
    runbook: String,
    /// What people did about it, the first act first.
    #[schema(value_type = Option<Vec<Object>>)]
    acts: (),
}

/// An attempt at a message.
#[derive(ToSchema)]
pub(super) struct Attempt {
    /// Which one, from 1.
    attempt: u32,
    /// Who tried, and where the message stood.
    #[schema(value_type = Object)]
    position: (),
    /// When it was counted, RFC 3339.
    begun_at: Option<String>,
    /// When it failed, RFC 3339; missing when it left no word.
    failed_at: Option<String>,
    /// Why the message was given up; missing when it was to be tried again.
    code: Option<String>,
    /// The field that is to blame.
    path: Option<String>,
    /// In one sentence.
    detail: Option<String>,
    /// The version of the program that tried.
    program_version: String,
}

/// A version that a person made of a dead letter.
#[derive(ToSchema)]
pub(super) struct Version {
    /// Its number, from 1.
    version: u32,
    /// The version that it was made from; 0 is the letter as it came.
    based_on: u32,
    /// Size of its payload, bytes.
    payload_bytes: u64,
    /// SHA-256 of its payload, hex.
    payload_sha256: String,
    /// Who made it.
    by: String,
    /// Why.
    reason: String,
    /// When, RFC 3339.
    at: String,
}
