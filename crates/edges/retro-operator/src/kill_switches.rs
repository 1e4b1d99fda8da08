//! Engages, disengages and lists kill switches. Whoever is answered sees the switch take effect.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use retro_core::attribution::{Attribution, AttributionError};
use retro_core::id::{Step, Tenant, Workflow};
use retro_core::kill_switch::{KillSwitch, KillSwitchScope};
use retro_core::time::Clock;
use retro_http::{Api, Caller, JsonBody, Problem, QueryParams, RouteAccess};
use retro_store::{KillSwitchPorts, StoreError, wait_for_context_leases};
use serde::{Deserialize, Serialize};
use tracing::warn;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::audit_log::describe_actor;
use crate::command::{ActionStatus, actor_name, attribute};
use crate::http::{ApiError, JsonResult, Limit};
use crate::text_table::{Layout, render_table};

/// Engages and disengages kill switches.
#[derive(Clone)]
pub struct KillSwitchService {
    store: Arc<dyn KillSwitchPorts>,
    clock: Arc<dyn Clock>,
}

/// Whether memories are handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum KillSwitchState {
    /// Nothing is handed out.
    Engaged,
    /// Memories are handed out.
    Disengaged,
}

/// Result of a request for a kill switch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct KillSwitchAnswer {
    /// Outcome of the request: done now or before.
    pub status: ActionStatus,
    /// Result in one sentence.
    pub detail: String,
}

/// Failure of a request for a kill switch.
#[derive(Debug, thiserror::Error)]
pub enum KillSwitchError {
    /// The actor or the reason is missing or too long.
    #[error(transparent)]
    Attribution(#[from] AttributionError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl KillSwitchService {
    /// Creates the service. `clock` provides the times that are stored with the switches.
    pub fn new(store: Arc<dyn KillSwitchPorts>, clock: Arc<dyn Clock>) -> Self {
        Self { store, clock }
    }

    /// Brings a switch into a state, and waits until every gateway has noticed.
    pub async fn set_state(
        &self,
        scope: &KillSwitchScope,
        state: KillSwitchState,
        by: &str,
        reason: &str,
    ) -> Result<KillSwitchAnswer, KillSwitchError> {
        let act = attribute(by, reason, self.clock.now())?;
        let has_changed = match state {
            KillSwitchState::Engaged => self.store.engage_kill_switch(scope, &act).await?,
            KillSwitchState::Disengaged => self.store.disengage_kill_switch(scope, &act).await?,
        };
        // Also if it was engaged before: the earlier request may have been interrupted.
        let late = wait_for_context_leases(&*self.store).await;
        for gateway in &late {
            warn!("the gateway {gateway} may not have noticed the kill switch; it does within two seconds");
        }
        let now = match state {
            KillSwitchState::Engaged => "no memory is handed out any more for",
            KillSwitchState::Disengaged => "memories are handed out again for",
        };
        let (status, before) = match has_changed {
            true => (ActionStatus::Done, ""),
            false => (ActionStatus::AlreadyDone, " (as before)"),
        };
        Ok(KillSwitchAnswer { status, detail: format!("{now} {scope}{before}") })
    }
}

/// Renders kill switches as a table.
pub fn render_kill_switches(switches: &[KillSwitch], layout: Layout) -> String {
    if switches.is_empty() {
        return "no kill switch is engaged\n".to_owned();
    }
    // Typed by a person: escaped, so it cannot control the terminal.
    let describe = |act: &Attribution| {
        let by = describe_actor(&act.by, act.with_token.as_ref());
        format!("{by} at {:.0}: {}", act.at, act.reason.escape_debug())
    };
    let row = |switch: &KillSwitch| {
        let ended = switch.disengaged.as_ref().map_or_else(|| "engaged".to_owned(), describe);
        [switch.scope.to_string(), describe(&switch.engaged), ended]
    };
    render_table(layout, ["stops", "engaged by", "disengaged by"], switches.iter().map(row).collect())
}

/// Returns the routes of kill switches, under `/v1`. Merge them with other routes and pass them to
/// [`retro_http::HttpServer`].
pub fn kill_switch_router(service: KillSwitchService) -> Api {
    routes().with_state(service)
}

/// Returns the routes without their state, for the OpenAPI description.
pub(crate) fn routes() -> Api<KillSwitchService> {
    Api::new().routes(routes!(list_kill_switches, set_kill_switch)).allow(RouteAccess::People)
}

/// A request for a kill switch of the tenant.
#[derive(Debug, Deserialize, ToSchema)]
struct KillSwitchRequest {
    /// Only runs of this workflow; without it, all runs of the tenant.
    #[schema(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only this step; needs `workflow`.
    #[schema(value_type = Option<String>)]
    step: Option<Step>,
    /// `engaged` to stop that memories are handed out, `disengaged` to go on.
    state: KillSwitchState,
    /// Reason, stored for ever.
    reason: String,
    /// Name of the operator, stored for ever. The name is not verified.
    by: Option<String>,
}

/// Stops that memories are handed out to a step, a workflow or the whole tenant, or goes on. Answered when every gateway
/// does so.
#[utoipa::path(post, path = "/v1/kill-switches", tag = "people", request_body = KillSwitchRequest, responses((status = 200, body = KillSwitchAnswer)))]
async fn set_kill_switch(
    State(service): State<KillSwitchService>,
    Caller(tenant): Caller,
    JsonBody(request): JsonBody<KillSwitchRequest>,
) -> JsonResult<KillSwitchAnswer> {
    let KillSwitchRequest { workflow, step, state, reason, by } = request;
    if step.is_some() && workflow.is_none() {
        return Err(Problem::invalid_field("step", "a step needs its `workflow`").into());
    }
    let scope = KillSwitchScope { tenant: Some(tenant), workflow, step };
    Ok(Json(service.set_state(&scope, state, actor_name(by.as_deref()), &reason).await?))
}

/// Kill switches, the newest first.
#[derive(Debug, Serialize, ToSchema)]
struct KillSwitches {
    /// Switches of the tenant and of every tenant. Each has `tenant` (null: every tenant), `workflow` and `step` if it
    /// stops only these, and who engaged and disengaged it, when and why.
    #[schema(value_type = Vec<Object>)]
    items: Vec<KillSwitch>,
    /// `true` if more switches match.
    more: bool,
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct KillSwitchesQuery {
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists the kill switches of the tenant, also those that are not engaged any more, the newest first.
#[utoipa::path(get, path = "/v1/kill-switches", tag = "people", params(KillSwitchesQuery), responses((status = 200, body = KillSwitches)))]
async fn list_kill_switches(
    State(service): State<KillSwitchService>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<KillSwitchesQuery>,
) -> JsonResult<KillSwitches> {
    let limit = Limit::from_query(query.limit)?;
    let listed = service.store.list_kill_switches(&tenant, limit.fetch_limit()).await?;
    let (items, more) =
        limit.truncate_list(listed.into_iter().map(|one| hide_others(one, &tenant)).collect());
    Ok(Json(KillSwitches { items, more }))
}

/// Hides from a tenant who stopped every tenant, and why.
fn hide_others(switch: KillSwitch, tenant: &Tenant) -> KillSwitch {
    if switch.scope.tenant.as_ref() == Some(tenant) {
        return switch;
    }
    let hide = |act: Attribution| Attribution {
        by: "the operators".to_owned(),
        with_token: None,
        reason: String::new(),
        ..act
    };
    KillSwitch { engaged: hide(switch.engaged), disengaged: switch.disengaged.map(hide), ..switch }
}

impl From<KillSwitchError> for ApiError {
    fn from(error: KillSwitchError) -> Self {
        match error {
            KillSwitchError::Attribution(error) => error.into(),
            KillSwitchError::Store(cause) => cause.into(),
        }
    }
}
