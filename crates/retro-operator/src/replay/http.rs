//! The same over HTTP.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::Timestamp;
use retro_core::dead_letter::Code;
use retro_core::id::{BatchId, DeadLetterId, Workflow};
use retro_core::replay::{FAILED_PERMILLE_MAX, Pace, RATE_MILLI};
use retro_events::Role;
use retro_http::{Api, Caller, Id, JsonBody, Problem};
use retro_store::{BatchLetter, BatchRow, DeadLetterFilter, LetterStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::{Chosen, Foreseen, Foresight, LetterTold, ReplayError, Replays, Started};
use crate::dead_letters::LetterSearch;
use crate::http::not_answered;
use crate::steer::Did;

/// Who acts when the request does not say: credentials will.
const SOMEBODY: &str = "somebody over HTTP";
/// Batches, and letters of a batch, that one answer holds.
const LISTED_MAX: u32 = 1000;

/// The routes by which people act on dead letters, under `/v1`. To be merged with others and handed to
/// [`retro_http::serve`].
pub fn router(replays: Replays) -> Api {
    routes().with_state(replays)
}

/// Without what they work on.
pub(crate) fn routes() -> Api<Replays> {
    Api::new()
        .routes(routes!(replay))
        .routes(routes!(replay_many))
        .routes(routes!(discard))
        .routes(routes!(discard_many))
        .routes(routes!(batches))
        .routes(routes!(batch))
        .routes(routes!(cancel))
}

/// Why, and who.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct Asked {
    /// Why: it is kept. Not needed for a dry run.
    #[serde(default)]
    reason: String,
    /// Who: a name, until credentials say.
    by: Option<String>,
    /// Only say what would happen.
    #[serde(default)]
    dry_run: bool,
    /// Which of the letter's bytes: 0 as they came, and so on; without it the newest.
    version: Option<u32>,
}

/// Why, who, and which letters.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct AskedOfMany {
    /// Why: it is kept. Not needed for a dry run.
    #[serde(default)]
    reason: String,
    /// Who: a name, until credentials say.
    by: Option<String>,
    /// Only say what would happen.
    #[serde(default)]
    dry_run: bool,
    /// That nothing narrows the letters is meant.
    #[serde(default)]
    all: bool,
    /// Only these.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    ids: Vec<DeadLetterId>,
    /// Only with this code.
    #[schema(value_type = Option<String>)]
    code: Option<Code>,
    /// Only what this role gave up.
    role: Option<String>,
    /// Only of this workflow.
    #[schema(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only those given up since this moment, RFC 3339.
    #[schema(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Only those given up before this moment, RFC 3339.
    #[schema(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only those that show this text, redacted, in any case.
    text: Option<String>,
    /// Only those that stand there; without it open ones, unless they are named.
    #[schema(value_type = Option<String>)]
    status: Option<LetterStatus>,
    /// Of a replay: so many go first, and each of them has to succeed [default: 0].
    canary: Option<u32>,
    /// Of a replay: letters a second, in thousandths [default: 5000].
    rate_milli: Option<u32>,
    /// Of a replay: more failures than this share, in thousandths, stop it [default: 200].
    max_failed_permille: Option<u32>,
}

impl AskedOfMany {
    fn chosen(&self) -> Result<Chosen, Problem> {
        let role = self.role.as_deref().map(str::parse::<Role>).transpose();
        let role = role.map_err(|problem| Problem::field("role", problem))?;
        let filter = DeadLetterFilter {
            ids: self.ids.clone(),
            code: self.code,
            consumer: role.map(|role| role.as_str().to_owned()),
            workflow: self.workflow.clone(),
            since: self.since,
            until: self.until,
            status: self.status,
            ..DeadLetterFilter::default()
        };
        Ok(Chosen { search: LetterSearch { filter, text: self.text.clone() }, all: self.all })
    }

    fn pace(&self) -> Pace {
        Pace {
            canary: self.canary.unwrap_or(0),
            rate_milli: self.rate_milli.unwrap_or(RATE_MILLI),
            failed_permille_max: self.max_failed_permille.unwrap_or(FAILED_PERMILLE_MAX),
        }
    }

    fn by(&self) -> &str {
        self.by.as_deref().unwrap_or(SOMEBODY)
    }
}

/// What came of it, or would.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ToldOrForeseen {
    Told(LetterTold),
    Foreseen(Foresight),
}

/// The batch that was started, or what would come of it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum StartedOrForeseen {
    Started(Started),
    Foreseen(Foreseen),
}

/// What came of putting letters aside, or which they would be.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum ToldOrChosen {
    Told(LetterTold),
    Chosen {
        /// The letters that would be put aside, the oldest first.
        #[schema(value_type = Vec<String>)]
        letters: Vec<DeadLetterId>,
    },
}

/// A batch of replays.
#[derive(Debug, Serialize, ToSchema)]
struct BatchView {
    /// As it stands.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    batch: BatchRow,
    /// Its letters and what came of each, those first that something came of; only where one batch is shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    letters: Option<Vec<BatchLetter>>,
}

/// Batches, the newest first.
#[derive(Debug, Serialize, ToSchema)]
struct Batches {
    items: Vec<BatchView>,
}

/// Replays a dead letter, or says what would come of it.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/replay", tag = "people", request_body = Asked, params(("id" = String, Path, description = "the id")), responses((status = 200, body = ToldOrForeseen)))]
async fn replay(
    State(replays): State<Replays>,
    Caller(tenant): Caller,
    Id(id): Id<DeadLetterId>,
    JsonBody(asked): JsonBody<Asked>,
) -> Result<Json<ToldOrForeseen>, Problem> {
    let missing = || Problem::not_found("dead letter", id);
    if asked.dry_run {
        let foreseen = replays.foresee_one(&tenant, id, asked.version).await.map_err(problem)?;
        return Ok(Json(ToldOrForeseen::Foreseen(foreseen.ok_or_else(missing)?)));
    }
    let by = asked.by.as_deref().unwrap_or(SOMEBODY);
    let told = replays.one(&tenant, id, asked.version, by, &asked.reason).await.map_err(problem)?;
    Ok(Json(ToldOrForeseen::Told(answer(told.ok_or_else(missing)?)?)))
}

/// Replays many dead letters as a batch, or says what would come of it.
#[utoipa::path(post, path = "/v1/dead-letters/replay", tag = "people", request_body = AskedOfMany, responses((status = 202, body = StartedOrForeseen), (status = 200, body = StartedOrForeseen, description = "of a dry run")))]
async fn replay_many(
    State(replays): State<Replays>,
    Caller(tenant): Caller,
    JsonBody(asked): JsonBody<AskedOfMany>,
) -> Result<(StatusCode, Json<StartedOrForeseen>), Problem> {
    let chosen = asked.chosen()?;
    if asked.dry_run {
        let foreseen = replays.foresee(&tenant, &chosen).await.map_err(problem)?;
        return Ok((StatusCode::OK, Json(StartedOrForeseen::Foreseen(foreseen))));
    }
    let started = replays.many(&tenant, &chosen, asked.pace(), asked.by(), &asked.reason).await;
    Ok((StatusCode::ACCEPTED, Json(StartedOrForeseen::Started(started.map_err(problem)?))))
}

/// Puts a dead letter aside: it is kept, and can be replayed all the same.
#[utoipa::path(post, path = "/v1/dead-letters/{id}/discard", tag = "people", request_body = Asked, params(("id" = String, Path, description = "the id")), responses((status = 200, body = LetterTold)))]
async fn discard(
    State(replays): State<Replays>,
    Caller(tenant): Caller,
    Id(id): Id<DeadLetterId>,
    JsonBody(asked): JsonBody<Asked>,
) -> Result<Json<LetterTold>, Problem> {
    let by = asked.by.as_deref().unwrap_or(SOMEBODY);
    let told = replays.discard_one(&tenant, id, by, &asked.reason).await.map_err(problem)?;
    Ok(Json(answer(told.ok_or_else(|| Problem::not_found("dead letter", id))?)?))
}

/// Puts many dead letters aside, or says which they would be.
#[utoipa::path(post, path = "/v1/dead-letters/discard", tag = "people", request_body = AskedOfMany, responses((status = 200, body = ToldOrChosen)))]
async fn discard_many(
    State(replays): State<Replays>,
    Caller(tenant): Caller,
    JsonBody(asked): JsonBody<AskedOfMany>,
) -> Result<Json<ToldOrChosen>, Problem> {
    let chosen = asked.chosen()?;
    if asked.dry_run {
        let letters = replays.chosen(&tenant, &chosen).await.map_err(problem)?;
        return Ok(Json(ToldOrChosen::Chosen { letters }));
    }
    let told = replays.discard(&tenant, &chosen, asked.by(), &asked.reason).await.map_err(problem)?;
    Ok(Json(ToldOrChosen::Told(told)))
}

/// Batches of replays, the newest first.
#[utoipa::path(get, path = "/v1/dead-letters/batches", tag = "people", responses((status = 200, body = Batches)))]
async fn batches(State(replays): State<Replays>, Caller(tenant): Caller) -> Result<Json<Batches>, Problem> {
    let rows = replays.store.batches(&tenant, LISTED_MAX).await.map_err(|cause| not_answered(&cause))?;
    let items = rows.into_iter().map(|batch| BatchView { batch, letters: None }).collect();
    Ok(Json(Batches { items }))
}

/// One batch of replays, with what came of its letters.
#[utoipa::path(get, path = "/v1/dead-letters/batches/{id}", tag = "people", params(("id" = String, Path, description = "the id")), responses((status = 200, body = BatchView)))]
async fn batch(
    State(replays): State<Replays>,
    Caller(tenant): Caller,
    Id(id): Id<BatchId>,
) -> Result<Json<BatchView>, Problem> {
    let found = replays.store.batch(&tenant, id, LISTED_MAX).await.map_err(|cause| not_answered(&cause))?;
    let (batch, letters) = found.ok_or_else(|| Problem::not_found("batch", id))?;
    Ok(Json(BatchView { batch, letters: Some(replays.redacted(letters)) }))
}

/// Calls a batch off: it takes up no more letters, and those under way go on.
#[utoipa::path(post, path = "/v1/dead-letters/batches/{id}/cancel", tag = "people", request_body = Asked, params(("id" = String, Path, description = "the id")), responses((status = 200, body = BatchView)))]
async fn cancel(
    State(replays): State<Replays>,
    Caller(tenant): Caller,
    Id(id): Id<BatchId>,
    JsonBody(asked): JsonBody<Asked>,
) -> Result<Json<BatchView>, Problem> {
    let by = asked.by.as_deref().unwrap_or(SOMEBODY);
    let told = replays.cancel_batch(&tenant, id, by, &asked.reason).await.map_err(problem)?;
    let (_, batch) = told.ok_or_else(|| Problem::not_found("batch", id))?;
    Ok(Json(BatchView { batch, letters: None }))
}

fn answer(told: LetterTold) -> Result<LetterTold, Problem> {
    match told.did {
        Did::Done | Did::DoneBefore => Ok(told),
        Did::Refused => {
            Err(Problem::new(StatusCode::CONFLICT, "it cannot be done as things stand", told.detail))
        }
    }
}

fn problem(error: ReplayError) -> Problem {
    match error {
        ReplayError::Act(error) => Problem::field(error.field, error.problem),
        ReplayError::Pace(ref wrong) => Problem::field(wrong.field, error.to_string()),
        ReplayError::NothingChosen => Problem::field("all", error.to_string()),
        ReplayError::TooMany => Problem::field("ids", error.to_string()),
        ReplayError::NoneFits => {
            Problem::new(StatusCode::NOT_FOUND, "there is no such thing", error.to_string())
        }
        ReplayError::Store(cause) => not_answered(&cause),
    }
}
