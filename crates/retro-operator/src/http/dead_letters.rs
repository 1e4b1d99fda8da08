//! Serves dead letters over HTTP: lists, groups and details, all redacted.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, Workflow};
use retro_http::{Caller, PathId, Problem, QueryParams};
use retro_store::{DeadLetterFilter, DeadLetterStatus};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::{ApiState, LIST_DEFAULT, LIST_MAX, schemas, store_problem};
use crate::cancel::WithAuditLog;
use crate::dead_letters::{
    DeadLetterDetail, DeadLetterSearch, DeadLetterStats, DeadLetterView, find_dead_letter_detail,
    redact_audit_log,
};

/// Filters for dead letters. An omitted filter matches every dead letter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DeadLettersQuery {
    /// Only dead letters with this code.
    #[param(value_type = Option<String>)]
    code: Option<DeadLetterCode>,
    /// Only dead letters of the consumer with this role: counter, sampler, investigator, writer, reviewer or
    /// tracker.
    role: Option<String>,
    /// Only dead letters of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only messages that were dead-lettered at or after this time, RFC 3339.
    #[param(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Only messages that were dead-lettered before this time, RFC 3339.
    #[param(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only dead letters whose redacted reason, subject, headers or payload contain this text, ignoring case.
    text: Option<String>,
    /// Only dead letters with this status: open, replaying, handled, discarded or replayed.
    #[param(value_type = Option<String>)]
    status: Option<DeadLetterStatus>,
    /// Only dead letters after this one in the list; pass the `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<DeadLetterId>,
    /// Maximum number of entries [default: 100, or 10000 for an export]. Ignored by `stats`.
    #[param(minimum = 1)]
    limit: Option<u32>,
}

impl DeadLettersQuery {
    /// Builds the search, with `default` as the limit if the query gives none. Fails if the limit is 0 or
    /// greater than `max`.
    pub(crate) fn into_search(self, default: u32, max: u32) -> Result<DeadLetterSearch, Problem> {
        let limit = self.limit.unwrap_or(default);
        if !(1..=max).contains(&limit) {
            return Err(Problem::invalid_field("limit", format!("{limit} is not between 1 and {max}")));
        }
        let filter = DeadLetterFilter {
            ids: Vec::new(),
            code: self.code,
            consumer: self.role,
            workflow: self.workflow,
            since: self.since,
            until: self.until,
            status: self.status,
            after: self.after,
            limit,
        };
        Ok(DeadLetterSearch { filter, text: self.text })
    }
}

/// One page of a list of dead letters.
#[derive(Debug, Serialize)]
pub(super) struct DeadLetterPage {
    items: Vec<DeadLetterView>,
    /// `true` if more dead letters match.
    more: bool,
    /// Cursor for the next page, to pass as `after`; `None` if no more dead letters match.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<DeadLetterId>,
}

/// Lists dead letters, newest first, redacted and without their messages.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "people", params(DeadLettersQuery), responses((status = 200, body = schemas::DeadLetters)))]
pub(super) async fn list_dead_letters(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<DeadLettersQuery>,
) -> Result<Json<DeadLetterPage>, Problem> {
    let mut search = query.into_search(LIST_DEFAULT, LIST_MAX)?;
    let limit = search.filter.limit as usize;
    // One more than requested, to detect whether there are more.
    search.filter.limit += 1;
    let found = search.find_matches(&*operator.store, &tenant, &*operator.redact).await;
    let mut found = found.map_err(|cause| store_problem(&cause))?;
    let more = found.truncated || found.dead_letters.len() > limit;
    found.dead_letters.truncate(limit);
    // A truncated scan without a match has no cursor: only a narrower search can find more.
    let next = found.dead_letters.last().filter(|_| more).map(|dead_letter| dead_letter.id);
    let view = |dead_letter| DeadLetterView::without_message(dead_letter, &*operator.redact);
    Ok(Json(DeadLetterPage { items: found.dead_letters.iter().map(view).collect(), more, next }))
}

/// Groups dead letters by cause, role and workflow, largest group first. Each group has the number of dead
/// letters, the number still open, the times of the first and the last one, and the id of an example.
#[utoipa::path(get, path = "/v1/dead-letters/stats", tag = "people", params(DeadLettersQuery), responses((status = 200, body = schemas::DeadLetterStats)))]
pub(super) async fn get_dead_letter_stats(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<DeadLettersQuery>,
) -> Result<Json<DeadLetterStats>, Problem> {
    let search = query.into_search(LIST_MAX, LIST_MAX)?;
    let stats = search.compute_stats(&*operator.store, &tenant, &*operator.redact).await;
    Ok(Json(stats.map_err(|cause| store_problem(&cause))?))
}

/// Returns one dead letter with its reason, position, attempts, versions, replays and redacted message, and the
/// runbook of its code.
#[utoipa::path(get, path = "/v1/dead-letters/{id}", tag = "people", params(("id" = String, Path, description = "the id")), responses((status = 200, body = schemas::DeadLetterDetail)))]
pub(super) async fn get_dead_letter(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
) -> Result<Json<WithAuditLog<DeadLetterDetail>>, Problem> {
    let found = find_dead_letter_detail(&*operator.store, &tenant, id, &*operator.redact).await;
    let found = found.map_err(|cause| store_problem(&cause))?;
    let of = found.ok_or_else(|| Problem::not_found("dead letter", id))?;
    let rows = operator.store.list_audit_rows(&tenant, id.0).await.map_err(|cause| store_problem(&cause))?;
    Ok(Json(WithAuditLog { of, audit_log: redact_audit_log(rows, &*operator.redact) }))
}
