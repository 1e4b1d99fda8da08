//! Defines the HTTP routes that edit dead letters and read or export their exact bytes. A request gives a
//! reason and may name an actor; both are recorded in the audit log.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::stream;
use retro_core::id::DeadLetterId;
use retro_events::envelope::MESSAGE_BYTES_MAX;
use retro_http::{Api, Caller, JsonBody, PathId, Problem, QueryParams};
use retro_store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{Edit, EditError, EditService, EditedVersion};
use crate::cancel::ANONYMOUS_ACTOR;
use crate::dead_letters::RawDeadLetter;
use crate::dead_letters::export::{DeadLetterExport, EXPORT_DEFAULT, EXPORT_MAX};
use crate::http::{DeadLettersQuery, store_problem};

/// Maximum size of an edit request in bytes: a payload of the maximum size in Base64, plus the reason.
const EDIT_REQUEST_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 3 * 4 + 64 * 1024;

/// Returns the routes for edits and exact bytes, under `/v1`. Merge them with other routes and pass them to
/// [`retro_http::serve`].
pub fn router(service: EditService) -> Api {
    routes().with_state(service)
}

/// Returns the routes without their state, for the OpenAPI description.
pub(crate) fn routes() -> Api<EditService> {
    Api::new()
        .routes(routes!(create_version))
        .routes(routes!(read_raw))
        .routes(routes!(export_dead_letters, export_raw))
}

/// An edit of a dead letter: the whole payload or single fields.
#[derive(Debug, Deserialize, ToSchema)]
struct EditRequest {
    /// Reason for the edit, recorded in the audit log.
    reason: String,
    /// Name of the operator. The name is not verified, because requests carry no credentials yet.
    by: Option<String>,
    /// Version to edit; 0 is the original [default: the newest version].
    from: Option<u32>,
    /// New values by field path, such as `data.usage.input_tokens`. Every other byte is kept.
    #[schema(value_type = Option<Object>)]
    set: Option<BTreeMap<String, Value>>,
    /// New payload as text, instead of `set` or `payload_base64`.
    payload: Option<String>,
    /// New payload in Base64, instead of `set` or `payload`.
    payload_base64: Option<String>,
    /// `true` to predict the result without creating a version.
    #[serde(default)]
    dry_run: bool,
}

/// Creates an edited version of a dead letter; the original is kept. Returns the diff and the predicted result
/// of a replay.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/versions", tag = "people", request_body = EditRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = EditedVersion)))]
async fn create_version(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<EditRequest, EDIT_REQUEST_BYTES_MAX>,
) -> Result<Json<EditedVersion>, Problem> {
    let EditRequest { reason, by, from, dry_run, .. } = &request;
    let (by, from, dry_run, reason) =
        (by.as_deref().unwrap_or(ANONYMOUS_ACTOR).to_owned(), *from, *dry_run, reason.clone());
    let edit = parse_edit(request)?;
    let edited = service.edit(&tenant, id, from, &edit, &by, &reason, dry_run).await.map_err(to_problem)?;
    Ok(Json(edited.ok_or_else(|| Problem::not_found("dead letter", id))?))
}

fn parse_edit(request: EditRequest) -> Result<Edit, Problem> {
    match (request.set, request.payload, request.payload_base64) {
        (Some(fields), None, None) if !fields.is_empty() => Ok(Edit::SetFields(fields.into_iter().collect())),
        (None, Some(text), None) => Ok(Edit::ReplacePayload(text.into_bytes())),
        (None, None, Some(encoded)) => BASE64
            .decode(encoded)
            .map(Edit::ReplacePayload)
            .map_err(|error| Problem::invalid_field("payload_base64", error.to_string())),
        _ => Err(Problem::invalid_field("set", "give exactly one of `set`, `payload` and `payload_base64`")),
    }
}

/// A request for the exact bytes of dead letters.
#[derive(Debug, Deserialize, ToSchema)]
struct RawAccessRequest {
    /// Reason for the access, recorded in the audit log.
    reason: String,
    /// Name of the operator. The name is not verified, because requests carry no credentials yet.
    by: Option<String>,
    /// Version to read; 0 is the original [default: 0]. An export always contains the original.
    #[serde(default)]
    version: u32,
}

/// Returns the exact bytes of a dead letter, secrets included. The access is recorded in the audit log before the
/// response is sent.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/raw", tag = "people", request_body = RawAccessRequest, params(("id" = String, Path, description = "the id")), responses((status = 200, body = RawDeadLetter)))]
async fn read_raw(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    PathId(id): PathId<DeadLetterId>,
    JsonBody(request): JsonBody<RawAccessRequest>,
) -> Result<Json<RawDeadLetter>, Problem> {
    let by = request.by.as_deref().unwrap_or(ANONYMOUS_ACTOR);
    let found = service
        .read_raw(&tenant, id, Some(request.version), by, &request.reason)
        .await
        .map_err(to_problem)?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("dead letter", id))?))
}

/// Exports dead letters as JSON lines, newest first. They are redacted as in `GET /v1/dead-letters/{id}`.
#[utoipa::path(get, path = "/v1/dead-letters/export", tag = "people", params(DeadLettersQuery), responses((status = 200, body = String, content_type = "application/x-ndjson")))]
async fn export_dead_letters(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    QueryParams(request): QueryParams<DeadLettersQuery>,
) -> Result<Response, Problem> {
    let search = request.into_search(EXPORT_DEFAULT, EXPORT_MAX)?;
    Ok(stream_lines(service.start_export(&tenant, search, None).map_err(|error| to_problem(error.into()))?))
}

/// Exports dead letters as JSON lines with their exact bytes, secrets included, to replay them elsewhere. The
/// access is recorded in the audit log before each page is sent.
#[utoipa::path(post, path = "/v1/dead-letters/export", tag = "people", params(DeadLettersQuery), request_body = RawAccessRequest, responses((status = 200, body = String, content_type = "application/x-ndjson")))]
async fn export_raw(
    State(service): State<EditService>,
    Caller(tenant): Caller,
    QueryParams(request): QueryParams<DeadLettersQuery>,
    JsonBody(exact): JsonBody<RawAccessRequest>,
) -> Result<Response, Problem> {
    let search = request.into_search(EXPORT_DEFAULT, EXPORT_MAX)?;
    let by = exact.by.as_deref().unwrap_or(ANONYMOUS_ACTOR);
    let export = service.start_export(&tenant, search, Some((by, &exact.reason)));
    Ok(stream_lines(export.map_err(|error| to_problem(error.into()))?))
}

/// Streams the export page by page. The next page is loaded only when the connection accepts more data.
fn stream_lines(export: DeadLetterExport) -> Response {
    let pages = stream::try_unfold(export, async |mut export| {
        let page = export.next_page().await?;
        Ok::<_, StoreError>(page.map(|page| (page, export)))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pages)).into_response()
}

fn to_problem(error: EditError) -> Problem {
    match error {
        EditError::Attribution(error) => Problem::invalid_field(error.field, error.problem),
        EditError::Set(error) => Problem::invalid_field("set", error.to_string()),
        EditError::Refused(why) => {
            Problem::new(StatusCode::CONFLICT, "not possible in the current state", why)
        }
        EditError::Store(cause) => store_problem(&cause),
    }
}
