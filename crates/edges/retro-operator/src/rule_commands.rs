//! Defines the port and the HTTP routes by which people add rules: in words of their own, or from a remark of a review.
//! The implementation is injected, because only the writer may change rules. Rules are edited, pinned and retired like
//! memories.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use retro_core::id::{MemoryId, RemarkKey, Repository, Tenant};
use retro_core::learn::{
    AddedRule, DecisionRequest, LessonWording, RuleAddition, RuleAdditionError, TextLengthError,
};
use retro_http::{Api, Caller, JsonBody, Problem, RouteAccess};
use retro_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::command::{ActionStatus, actor_name, conflict_problem};
use crate::http::{ApiError, JsonResult};
use crate::memory_commands::MemoryCommand;
use crate::requests::request_id;

/// The rule that was added or said so before, or the reason why none was added. `None` if the tenant has no such
/// remark, or if its author has deleted it.
pub type RuleAdditionOutcome = Option<Result<AddedRule, RuleAdditionError>>;

/// Port for the rules that people add, which the writer carries out.
#[async_trait]
pub trait RuleCommands: Send + Sync {
    /// Adds a rule in a person's words, or makes a remark a rule.
    async fn add_rule(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
    ) -> Result<RuleAdditionOutcome, StoreError>;
}

/// Returns the routes for adding rules, under `/v1`. Merge them with other routes and pass them to
/// [`retro_http::HttpServer`].
pub fn router(commands: Arc<dyn RuleCommands>) -> Api {
    routes().with_state(commands)
}

/// Returns the routes without their state, for the OpenAPI description.
pub(crate) fn routes() -> Api<Arc<dyn RuleCommands>> {
    Api::new().routes(routes!(add_rule)).routes(routes!(promote_remark)).allow(RouteAccess::People)
}

/// A rule in a person's words.
#[derive(Debug, Deserialize, ToSchema)]
struct AddRuleRequest {
    /// Repository of the rule: `owner/name`, or `host/owner/name` for hosts other than github.com. It may have had no
    /// review.
    #[schema(value_type = String)]
    repo: Repository,
    /// Folder or file to which the rule is limited [default: the whole repository].
    path: Option<String>,
    /// The rule as one instruction, which agents are handed.
    title: String,
    /// Details that an agent gets when it opens the rule [default: the title].
    content: Option<String>,
    /// Reason for the rule, stored in the change log.
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// Id of the request, which takes precedence over the `Idempotency-Key`.
    request: Option<String>,
}

/// A remark that becomes a rule.
#[derive(Debug, Deserialize, ToSchema)]
struct PromoteRemarkRequest {
    /// Key of the remark, as the reports about reviews show it: `owner/name#7/line_comment/11`.
    #[schema(value_type = String)]
    remark: RemarkKey,
    /// Folder or file to which the rule is limited [default: the one that the remark names, if it names one].
    path: Option<String>,
    /// The rule as one instruction, which agents are handed [default: the words of the remark].
    title: Option<String>,
    /// Details that an agent gets when it opens the rule [default: the title, or the words of the remark].
    content: Option<String>,
    /// Reason for the promotion, stored in the change log.
    reason: String,
    /// Name of the operator. The name is not verified; the access token of the request is stored beside it.
    by: Option<String>,
    /// Id of the request, which takes precedence over the `Idempotency-Key`.
    request: Option<String>,
}

/// Response to a command that adds a rule.
#[derive(Debug, Serialize, ToSchema)]
struct RuleAdditionResponse {
    /// Id of the rule.
    #[schema(value_type = String)]
    memory: MemoryId,
    /// Id of the request: as given, or derived from the content.
    request: String,
    /// Outcome: done now, or a rule said so before.
    status: ActionStatus,
    /// Reason why no agent is handed the rule until a person releases it; missing if the rule is not held.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
}

/// Adds a rule in a person's words, active at the starting weight. It counts like one that an insider asked for, and
/// takes the place of rules that cannot be followed together with it. The gate judges it as any other text. The same
/// words twice are one rule. Fails with 409 if a rule says so in other words, or if a similar one was retired a short
/// time ago.
#[utoipa::path(post, path = "/v1/rules", tag = "people", request_body = AddRuleRequest, params(("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = RuleAdditionResponse)))]
async fn add_rule(
    State(commands): State<Arc<dyn RuleCommands>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody<AddRuleRequest>,
) -> JsonResult<RuleAdditionResponse> {
    let AddRuleRequest { repo, path, title, content, reason, by, request } = body;
    let by = actor_name(by.as_deref());
    let request = match request {
        Some(given) => given,
        None => request_id(&headers, || json!(["add rule", repo, path, title, content, by, reason]))?,
    };
    let command = MemoryCommand::new(request, by, &reason)?;
    let wording = LessonWording { title: Some(title), content };
    let addition = RuleAddition::in_words(repo, path, wording, decision_request(&command));
    add(&*commands, &tenant, &addition).await
}

/// Makes a remark of a review a rule, in its words or in those of the person: the remark is its evidence, and the next
/// request for it is the second one. A remark that left a rule that is not active promotes that one. Fails with 404 if
/// there is no such remark or if its author has deleted it, and with 409 like the addition of a rule.
#[utoipa::path(post, path = "/v1/rules/promote", tag = "people", request_body = PromoteRemarkRequest, params(("Idempotency-Key" = Option<String>, Header, description = "identifies the request")), responses((status = 200, body = RuleAdditionResponse)))]
async fn promote_remark(
    State(commands): State<Arc<dyn RuleCommands>>,
    Caller(tenant): Caller,
    headers: HeaderMap,
    JsonBody(body): JsonBody<PromoteRemarkRequest>,
) -> JsonResult<RuleAdditionResponse> {
    let PromoteRemarkRequest { remark, path, title, content, reason, by, request } = body;
    let by = actor_name(by.as_deref());
    let request = match request {
        Some(given) => given,
        None => request_id(&headers, || json!(["promote remark", remark, path, title, content, by, reason]))?,
    };
    let command = MemoryCommand::new(request, by, &reason)?;
    let wording = LessonWording { title, content };
    let addition = RuleAddition::of_remark(remark, path, wording, decision_request(&command));
    add(&*commands, &tenant, &addition).await
}

fn decision_request(MemoryCommand { request, by, reason }: &MemoryCommand) -> DecisionRequest<'_> {
    DecisionRequest { id: request, by, reason }
}

async fn add(
    commands: &dyn RuleCommands,
    tenant: &Tenant,
    addition: &RuleAddition,
) -> JsonResult<RuleAdditionResponse> {
    match (commands.add_rule(tenant, addition).await?, &addition.remark) {
        (Some(Ok(AddedRule { rule, done })), _) => {
            let status = if done.changes.is_empty() { ActionStatus::AlreadyDone } else { ActionStatus::Done };
            let request = addition.request.clone();
            Ok(Json(RuleAdditionResponse { memory: rule.id, request, status, held: rule.quarantine }))
        }
        (Some(Err(problem)), _) => Err(addition_problem(problem)),
        (None, Some(remark)) => Err(Problem::not_found("remark", remark).into()),
        (None, None) => Err(Problem::not_found("repository", &addition.repo).into()),
    }
}

fn addition_problem(problem: RuleAdditionError) -> ApiError {
    match problem {
        RuleAdditionError::TextLength(TextLengthError { what, max }) => {
            Problem::invalid_field(what, format!("must have 1 to {max} characters")).into()
        }
        RuleAdditionError::NoTitle => Problem::invalid_field("title", problem.to_string()).into(),
        other => conflict_problem(format!("the rule cannot be added: {other}")).into(),
    }
}

#[cfg(test)]
mod tests;
