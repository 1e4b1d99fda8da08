//! Exact bytes and versions over HTTP. Each of these says who and why, and is written down.

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
use retro_http::{Api, Caller, Id, JsonBody, Params, Problem};
use retro_store::StoreError;
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{Edit, MendError, Mended, Mending};
use crate::dead_letters::ExactLetter;
use crate::dead_letters::export::{EXPORT_DEFAULT, EXPORT_MAX, Export};
use crate::http::{LettersAsked, not_answered};
use crate::steer::SOMEBODY;

/// The largest request for a version: a payload of the largest size in Base64, and its reason.
const MEND_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 3 * 4 + 64 * 1024;

/// The routes by which people reach exact bytes, under `/v1`. To be merged with others and handed to
/// [`retro_http::serve`].
pub fn router(mending: Mending) -> Api {
    routes().with_state(mending)
}

/// Without what they work on.
pub(crate) fn routes() -> Api<Mending> {
    Api::new().routes(routes!(versions)).routes(routes!(raw)).routes(routes!(export, export_exact))
}

/// A version to be made: of the whole payload, or of single fields.
#[derive(Debug, Deserialize, ToSchema)]
struct EditAsked {
    /// Why: it is kept.
    reason: String,
    /// Who: a name, until credentials say.
    by: Option<String>,
    /// The version to begin with; 0 is the letter as it came. Missing: the newest.
    from: Option<u32>,
    /// Values of fields by their paths, such as `data.usage.input_tokens`; everything else stays byte for byte.
    #[schema(value_type = Option<Object>)]
    set: Option<BTreeMap<String, Value>>,
    /// The whole payload instead, as text.
    payload: Option<String>,
    /// The same in Base64.
    payload_base64: Option<String>,
    /// Only tell what the version would be.
    #[serde(default)]
    dry_run: bool,
}

/// Makes a version of a dead letter: the original stays as it is. Answers what is another and what would become of it.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/versions", tag = "people", request_body = EditAsked, params(("id" = String, Path, description = "the id")), responses((status = 200, body = Mended)))]
async fn versions(
    State(mending): State<Mending>,
    Caller(tenant): Caller,
    Id(id): Id<DeadLetterId>,
    JsonBody(asked): JsonBody<EditAsked, MEND_BYTES_MAX>,
) -> Result<Json<Mended>, Problem> {
    let EditAsked { reason, by, from, dry_run, .. } = &asked;
    let (by, from, dry_run, reason) =
        (by.as_deref().unwrap_or(SOMEBODY).to_owned(), *from, *dry_run, reason.clone());
    let edit = edit(asked)?;
    let mended = mending.mend(&tenant, id, from, &edit, &by, &reason, dry_run).await.map_err(problem)?;
    Ok(Json(mended.ok_or_else(|| Problem::not_found("dead letter", id))?))
}

fn edit(asked: EditAsked) -> Result<Edit, Problem> {
    match (asked.set, asked.payload, asked.payload_base64) {
        (Some(fields), None, None) if !fields.is_empty() => Ok(Edit::Set(fields.into_iter().collect())),
        (None, Some(text), None) => Ok(Edit::Whole(text.into_bytes())),
        (None, None, Some(encoded)) => BASE64
            .decode(encoded)
            .map(Edit::Whole)
            .map_err(|error| Problem::field("payload_base64", error.to_string())),
        _ => Err(Problem::field("set", "say one of `set`, `payload` and `payload_base64`")),
    }
}

/// Who wants exact bytes, and why.
#[derive(Debug, Deserialize, ToSchema)]
struct ExactAsked {
    /// Why: it is kept.
    reason: String,
    /// Who: a name, until credentials say.
    by: Option<String>,
    /// Which version; 0, the default, is the letter as it came.
    #[serde(default)]
    version: u32,
}

/// The exact bytes of a dead letter, secrets included. That they are read is written down before the answer.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/raw", tag = "people", request_body = ExactAsked, params(("id" = String, Path, description = "the id")), responses((status = 200, body = ExactLetter)))]
async fn raw(
    State(mending): State<Mending>,
    Caller(tenant): Caller,
    Id(id): Id<DeadLetterId>,
    JsonBody(asked): JsonBody<ExactAsked>,
) -> Result<Json<ExactLetter>, Problem> {
    let by = asked.by.as_deref().unwrap_or(SOMEBODY);
    let found = mending.exact(&tenant, id, Some(asked.version), by, &asked.reason).await.map_err(problem)?;
    Ok(Json(found.ok_or_else(|| Problem::not_found("dead letter", id))?))
}

/// Dead letters as JSON lines, the newest first, each as one is shown; redacted.
#[utoipa::path(get, path = "/v1/dead-letters/export", tag = "people", params(LettersAsked), responses((status = 200, body = String, content_type = "application/x-ndjson")))]
async fn export(
    State(mending): State<Mending>,
    Caller(tenant): Caller,
    Params(asked): Params<LettersAsked>,
) -> Result<Response, Problem> {
    let search = asked.search(EXPORT_DEFAULT, EXPORT_MAX)?;
    Ok(lines(mending.export(&tenant, search, None).map_err(|error| problem(error.into()))?))
}

/// Dead letters as JSON lines with their exact bytes, secrets included: what can be replayed elsewhere. That they are read
/// is written down before each page of them.
#[utoipa::path(post, path = "/v1/dead-letters/export", tag = "people", params(LettersAsked), request_body = ExactAsked, responses((status = 200, body = String, content_type = "application/x-ndjson")))]
async fn export_exact(
    State(mending): State<Mending>,
    Caller(tenant): Caller,
    Params(asked): Params<LettersAsked>,
    JsonBody(exact): JsonBody<ExactAsked>,
) -> Result<Response, Problem> {
    let search = asked.search(EXPORT_DEFAULT, EXPORT_MAX)?;
    let by = exact.by.as_deref().unwrap_or(SOMEBODY);
    let export = mending.export(&tenant, search, Some((by, &exact.reason)));
    Ok(lines(export.map_err(|error| problem(error.into()))?))
}

/// Page after page, each read when the one before it was taken.
fn lines(export: Export) -> Response {
    let pages = stream::try_unfold(export, async |mut export| {
        let page = export.next_page().await?;
        Ok::<_, StoreError>(page.map(|page| (page, export)))
    });
    ([(header::CONTENT_TYPE, "application/x-ndjson")], Body::from_stream(pages)).into_response()
}

fn problem(error: MendError) -> Problem {
    match error {
        MendError::Act(error) => Problem::field(error.field, error.problem),
        MendError::Set(error) => Problem::field("set", error.to_string()),
        MendError::Refused(why) => {
            Problem::new(StatusCode::CONFLICT, "it cannot be done as things stand", why)
        }
        MendError::Store(cause) => not_answered(&cause),
    }
}
