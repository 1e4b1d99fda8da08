//! `POST /v1/lessons`: an agent saves a lesson during its run, in fields.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use retro_core::audience::{RepoVisibility, RunRepository};
use retro_core::id::{MemoryId, Repository, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::learn::{LessonFieldError, LessonFields, SaveError, SavedChange, SavedLesson};
use retro_core::memory::{Memory, MemoryStatus};
use retro_http::{Api, Caller, JsonBody, Problem, RouteAccess};
use retro_redact::Redactor;
use retro_store::StoreError;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tracing::warn;
use utoipa::ToSchema;
use utoipa_axum::routes;

/// Maximum time for saving a lesson. It waits for the lock of its workflow, which a retrospective may hold for a moment.
const SAVE_TIMEOUT: Duration = Duration::from_secs(5);

/// Memory that says what was to be saved, and `true` if it is new; or the reason why nothing was saved.
pub type LessonOutcome = Result<(Memory, bool), SaveError>;

/// Port for saving lessons, which the writer carries out.
#[async_trait]
pub trait LessonSaver: Send + Sync {
    /// Saves a lesson under the lock of its workflow. Saving it again has no further effect.
    async fn save_lesson(&self, key: &WorkflowKey, saved: &SavedLesson) -> Result<LessonOutcome, StoreError>;
}

/// Lesson that an agent states in fields. The program builds its sentence from them. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
pub struct LessonRequest {
    /// Workflow of the run.
    #[schema(value_type = String)]
    pub workflow: Workflow,
    /// Step of the run; defaults to `main`.
    #[serde(default = "Step::main")]
    #[schema(value_type = String, default = "main", required = false)]
    pub step: Step,
    /// Run of the agent.
    #[schema(value_type = String)]
    pub run: RunId,
    /// Repository that the run works on. The lesson is one of its runs.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub repo: Option<Repository>,
    /// Who may read the repository; as for the context.
    #[serde(default)]
    pub repo_visibility: Option<RepoVisibility>,
    /// What is to be changed in the call.
    pub kind: SavedChange,
    /// Tool whose call failed.
    pub tool: String,
    /// Argument that is to be changed; for `set_argument`, `add_argument` and `drop_argument`.
    #[serde(default)]
    pub argument: Option<String>,
    /// Value of the argument that failed.
    #[serde(default)]
    pub bad: Option<String>,
    /// Value of the argument that works; for `use_tool` and `call_first` the tool or the call.
    #[serde(default)]
    pub good: Option<String>,
    /// What the tool answered, verbatim, in at most 400 characters.
    pub error_quote: String,
    /// Cause in a few words for people, at most 240 characters. No agent is handed it.
    #[serde(default)]
    pub cause: Option<String>,
}

/// Response to a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LessonAnswer {
    /// Outcome of saving the lesson.
    pub saved: LessonSaved,
    /// Id of the memory that says so; null if there is none.
    #[schema(value_type = Option<String>)]
    pub memory: Option<MemoryId>,
    /// What follows, or why nothing was saved.
    pub reason: String,
}

/// Outcome of saving a lesson.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LessonSaved {
    /// A tentative memory says so. No agent is handed it until a separate run shows the same.
    Saved,
    /// A memory says so already, by this run or by others, and stays as it is.
    Known,
    /// Nothing is saved.
    Refused,
    /// The database did not confirm in time. Sending it again is safe.
    Unknown,
}

impl LessonRequest {
    fn into_lesson(self, key: &WorkflowKey) -> Result<SavedLesson, LessonFieldError> {
        let redact = |text: String| Redactor::shared().redact_text(&text).into_owned();
        let visibility = self.repo_visibility;
        let fields = LessonFields {
            step: self.step,
            run: self.run,
            repository: self.repo.map(|repo| RunRepository { repo, visibility }),
            change: self.kind,
            tool: redact(self.tool),
            argument: self.argument.map(redact),
            bad: self.bad.map(redact),
            good: self.good.map(redact),
            error: redact(self.error_quote),
            cause: self.cause.map(redact),
        };
        SavedLesson::from_fields(key, fields)
    }
}

/// Returns the route for saving lessons.
pub fn lessons_router(saver: Arc<dyn LessonSaver>) -> Api {
    lesson_routes().with_state(saver)
}

pub(crate) fn lesson_routes() -> Api<Arc<dyn LessonSaver>> {
    Api::new().routes(routes!(save_lesson)).allow(RouteAccess::Context)
}

/// Saves a lesson that the agent of a run states in fields, as a tentative memory.
#[utoipa::path(post, path = "/v1/lessons", tag = "agents", request_body = LessonRequest,
    responses((status = 200, body = LessonAnswer, description = "saved, known, or not and why")))]
async fn save_lesson(
    State(saver): State<Arc<dyn LessonSaver>>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<LessonRequest>,
) -> Result<Json<LessonAnswer>, Problem> {
    let answer = answer_lesson(&*saver, &tenant, request).await;
    answer.map(Json).map_err(|LessonFieldError { field, problem }| {
        Problem::invalid_field(field, format!("`{field}` {problem}"))
    })
}

/// Saves a lesson for a tenant and says what became of it. Fails only if a field cannot be used.
pub async fn answer_lesson(
    saver: &dyn LessonSaver,
    tenant: &Tenant,
    request: LessonRequest,
) -> Result<LessonAnswer, LessonFieldError> {
    let key = WorkflowKey { tenant: tenant.clone(), workflow: request.workflow.clone() };
    let saved = request.into_lesson(&key)?;
    Ok(match timeout(SAVE_TIMEOUT, saver.save_lesson(&key, &saved)).await {
        Ok(Ok(outcome)) => answer_outcome(outcome),
        Ok(Err(error)) => uncertain(&error.to_string()),
        Err(_) => uncertain("the database did not answer in time"),
    })
}

fn answer_outcome(outcome: LessonOutcome) -> LessonAnswer {
    let (memory, is_new) = match outcome {
        Ok(found) => found,
        Err(refused) => {
            return LessonAnswer { saved: LessonSaved::Refused, memory: None, reason: refused.to_string() };
        }
    };
    let reason = match (is_new, memory.status) {
        // An agent learns that a person decides, not what the gate says.
        (true, _) if memory.quarantine.is_some() => "it is saved, and held until a person has looked at it",
        (true, _) => "no agent is handed it until the trace of a separate run shows the same",
        (false, MemoryStatus::Active) => "a memory says so already",
        (false, _) => "a memory says so already, which waits for the trace of a separate run",
    };
    let saved = if is_new { LessonSaved::Saved } else { LessonSaved::Known };
    LessonAnswer { saved, memory: Some(memory.id), reason: reason.to_owned() }
}

fn uncertain(reason: &str) -> LessonAnswer {
    let reason = format!("saving the lesson is uncertain: {reason}");
    warn!(reason = reason.as_str(), "{reason}");
    LessonAnswer { saved: LessonSaved::Unknown, memory: None, reason }
}
