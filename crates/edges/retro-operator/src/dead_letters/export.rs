//! Exports many dead letters as JSON lines, page by page. The lines are redacted, or contain the exact bytes
//! for a replay elsewhere.

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures::stream;
use retro_core::attribution::{Attribution, AttributionError};
use retro_core::id::Tenant;
use retro_http::{Caller, JsonBody, QueryParams};
use retro_store::{AuditAction, DeadLetter, MessageContent, StoreError};
use serde::Serialize;
use serde_json::json;

use super::raw::RawAccessRequest;
use super::search::DeadLettersQuery;
use super::{DeadLetterSearch, DeadLetterWithMessage, EditService, RawDeadLetter};
use crate::command::{actor_name, attribute};
use crate::http::ApiError;

/// Default number of dead letters in one export.
pub const EXPORT_DEFAULT: u32 = 10_000;
/// Maximum number of dead letters in one export: about as many as a very bad hour produces. Continue with
/// another export that starts after the last dead letter.
pub const EXPORT_MAX: u32 = 100_000;
/// Number of dead letters loaded per page. Small, because each may be as large as the largest message.
const PAGE_SIZE: u32 = 20;

/// An export of dead letters in progress.
pub struct DeadLetterExport {
    service: EditService,
    tenant: Tenant,
    search: DeadLetterSearch,
    /// Actor and reason for an export of exact bytes; `None` for a redacted export.
    raw_access: Option<Attribution>,
    remaining: u32,
}

impl EditService {
    /// Starts an export of the matching dead letters, up to the filter's limit. The dead letters are redacted
    /// unless `exact_for` gives an actor and a reason. Fails if the actor or the reason is missing or too
    /// long.
    pub fn start_export(
        &self,
        tenant: &Tenant,
        search: DeadLetterSearch,
        exact_for: Option<(&str, &str)>,
    ) -> Result<DeadLetterExport, AttributionError> {
        let exact_for = exact_for.map(|(by, reason)| attribute(by, reason, self.clock.now())).transpose()?;
        let left = search.filter.limit.min(EXPORT_MAX);
        Ok(DeadLetterExport {
            service: self.clone(),
            tenant: tenant.clone(),
            search,
            raw_access: exact_for,
            remaining: left,
        })
    }
}

impl DeadLetterExport {
    /// Returns the next page of lines, or `None` at the end of the export. For exact bytes, each page is
    /// recorded in the audit log before it is returned.
    pub async fn next_page(&mut self) -> Result<Option<String>, StoreError> {
        if self.remaining == 0 {
            return Ok(None);
        }
        self.search.filter.limit = self.remaining.min(PAGE_SIZE);
        let EditService { store, redact, .. } = &self.service;
        let found = self.search.find_matches(&**store, &self.tenant, &**redact).await?;
        let Some(last) = found.dead_letters.last() else {
            // Ends the export: another search would repeat the truncation line forever.
            self.remaining = 0;
            return Ok(found.is_truncated().then(truncation_line));
        };
        self.search.filter.after = Some(last.id);
        self.remaining -=
            u32::try_from(found.dead_letters.len()).unwrap_or(self.remaining).min(self.remaining);
        if let Some(act) = &self.raw_access {
            // Recorded before the page is returned, so that no exact bytes are returned without a record.
            let ids: Vec<_> = found.dead_letters.iter().map(|dead_letter| dead_letter.id.0).collect();
            store
                .record_audit_rows(&self.tenant, &ids, AuditAction::Exported, act, Some("exact bytes"))
                .await?;
        }
        Ok(Some(found.dead_letters.into_iter().map(|dead_letter| self.render_line(dead_letter)).collect()))
    }

    fn render_line(&self, dead_letter: DeadLetter) -> String {
        if self.raw_access.is_none() {
            return to_json_line(&DeadLetterWithMessage::from_dead_letter(
                &dead_letter,
                &*self.service.redact,
            ));
        }
        let (headers, payload) = (dead_letter.message.headers.clone(), dead_letter.message.payload.clone());
        to_json_line(&RawDeadLetter::from_dead_letter(dead_letter, 0, MessageContent { headers, payload }))
    }
}

fn to_json_line(of: &impl Serialize) -> String {
    format!("{}\n", serde_json::to_string(of).expect("serialization of plain data does not fail"))
}

/// Returns the last line of an export whose text search stopped before it had scanned every dead letter.
fn truncation_line() -> String {
    to_json_line(
        &json!({"truncated": true, "detail": "older dead letters were not searched: narrow the search, or continue with `until`"}),
    )
}

/// Exports dead letters as JSON lines, newest first. They are redacted as in `GET /v1/dead-letters/{id}`.
#[utoipa::path(get, path = "/v1/dead-letters/export", tag = "people", params(DeadLettersQuery), responses((status = 200, body = String, content_type = "application/x-ndjson")))]
pub(super) async fn export_dead_letters(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    QueryParams(request): QueryParams<DeadLettersQuery>,
) -> Result<Response, ApiError> {
    let search = request.into_search(EXPORT_DEFAULT, EXPORT_MAX)?;
    Ok(stream_lines(service.start_export(&tenant, search, None)?))
}

/// Exports dead letters as JSON lines with their exact bytes, secrets included, to replay them elsewhere. The
/// access is recorded in the audit log before each page is sent.
#[utoipa::path(post, path = "/v1/dead-letters/export", tag = "people", params(DeadLettersQuery), request_body = RawAccessRequest, responses((status = 200, body = String, content_type = "application/x-ndjson")))]
pub(super) async fn export_raw(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    QueryParams(request): QueryParams<DeadLettersQuery>,
    JsonBody(exact): JsonBody<RawAccessRequest>,
) -> Result<Response, ApiError> {
    let search = request.into_search(EXPORT_DEFAULT, EXPORT_MAX)?;
    let by = actor_name(exact.by.as_deref());
    Ok(stream_lines(service.start_export(&tenant, search, Some((by, &exact.reason)))?))
}

/// Streams the export page by page. The next page is loaded only when the connection accepts more data.
fn stream_lines(export: DeadLetterExport) -> Response {
    let pages = stream::try_unfold(export, async |mut export| {
        let page = export.next_page().await?;
        Ok::<_, StoreError>(page.map(|page| (page, export)))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pages)).into_response()
}
