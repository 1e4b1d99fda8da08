//! Stores kill switches.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::id::Tenant;
use retro_core::kill_switch::{KillSwitch, KillSwitchScope};
use retro_fault::Label;
use retro_store::Result;
use retro_store::kill_switch::{KILL_SWITCHES_MAX, KillSwitchStore};

use super::dialect::{OnTable, Store, storable_text};
use super::open::commit;
use crate::rows::attribution::{parse_token, token_column};
use crate::{at, format_policy_time};

/// Columns of a scope. The empty text, which is no name, stands for all.
fn scope_columns(scope: &KillSwitchScope) -> [&str; 3] {
    let KillSwitchScope { tenant, workflow, step } = scope;
    let tenant = tenant.as_ref().map(|name| name.as_str());
    let (workflow, step) =
        (workflow.as_ref().map(|name| name.as_str()), step.as_ref().map(|name| name.as_str()));
    [tenant, workflow, step].map(Option::unwrap_or_default)
}

fn read_scope([tenant, workflow, step]: [&str; 3]) -> Result<KillSwitchScope> {
    let place = at("kill_switches", format!("{tenant}/{workflow}/{step}"));
    let named = |name: &&str| !name.is_empty();
    Ok(KillSwitchScope {
        tenant: Some(tenant).filter(named).map(|name| place.parse(name)).transpose()?,
        workflow: Some(workflow).filter(named).map(|name| place.parse(name)).transpose()?,
        step: Some(step).filter(named).map(|name| place.parse(name)).transpose()?,
    })
}

/// Row of `kill_switches`: scope, who engaged it, and who disengaged it.
#[derive(Debug, sqlx::FromRow)]
struct Row {
    tenant: String,
    workflow: String,
    step: String,
    engaged_by: String,
    engaged_reason: String,
    engaged_at: String,
    engaged_with: Option<String>,
    disengaged_by: Option<String>,
    disengaged_reason: Option<String>,
    disengaged_at: Option<String>,
    disengaged_with: Option<String>,
}

#[async_trait]
impl KillSwitchStore for Store {
    async fn engage_kill_switch(&self, scope: &KillSwitchScope, act: &Attribution) -> Result<bool> {
        const ENGAGE: &str = "
            INSERT INTO kill_switches (tenant, workflow, step, engaged_by, engaged_reason, engaged_at, engaged_with)
            VALUES ($1, $2, $3, $4, $5, $6, $7)
            ON CONFLICT (tenant, workflow, step) WHERE disengaged_at IS NULL DO NOTHING";
        write_switch(self, ENGAGE, scope, act).await
    }

    async fn disengage_kill_switch(&self, scope: &KillSwitchScope, act: &Attribution) -> Result<bool> {
        const DISENGAGE: &str = "
            UPDATE kill_switches SET disengaged_by = $4, disengaged_reason = $5, disengaged_at = $6,
                disengaged_with = $7
            WHERE tenant = $1 AND workflow = $2 AND step = $3 AND disengaged_at IS NULL";
        write_switch(self, DISENGAGE, scope, act).await
    }

    async fn load_engaged_kill_switches(&self) -> Result<Vec<KillSwitchScope>> {
        const LOAD: &str =
            "SELECT tenant, workflow, step FROM kill_switches /* reads all: those that are engaged */
             WHERE disengaged_at IS NULL ORDER BY tenant, workflow, step LIMIT $1";
        let rows: Vec<(String, String, String)> = sqlx::query_as(LOAD)
            .bind(i64::from(KILL_SWITCHES_MAX) + 1)
            .fetch_all(self.reader())
            .await
            .on_table("kill_switches")?;
        rows.iter().map(|(tenant, workflow, step)| read_scope([tenant, workflow, step])).collect()
    }

    async fn list_kill_switches(&self, tenant: &Tenant, limit: u32) -> Result<Vec<KillSwitch>> {
        const LIST: &str = "
            SELECT tenant, workflow, step, engaged_by, engaged_reason, engaged_at, engaged_with,
                disengaged_by, disengaged_reason, disengaged_at, disengaged_with
            FROM kill_switches /* reads all: the newest of a tenant and of everybody, up to the limit */
            WHERE tenant IN ($1, '') ORDER BY id DESC LIMIT $2";
        let rows: Vec<Row> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("kill_switches")?;
        rows.into_iter().map(read_switch).collect()
    }
}

/// Runs a statement on a switch, and returns `true` if it has changed it.
async fn write_switch(
    store: &Store,
    statement: &'static str,
    scope: &KillSwitchScope,
    act: &Attribution,
) -> Result<bool> {
    let mut transaction = store.begin_write().await?;
    let [tenant, workflow, step] = scope_columns(scope);
    let write = sqlx::query(statement)
        .bind(tenant)
        .bind(workflow)
        .bind(step)
        .bind(storable_text(&act.by))
        .bind(storable_text(&act.reason))
        .bind(format_policy_time(act.at))
        .bind(token_column(act));
    let written = write.execute(&mut *transaction).await.on_table("kill_switches")?;
    commit(transaction, Label::KillSwitchCommit).await?;
    Ok(written.rows_affected() == 1)
}

fn read_switch(row: Row) -> Result<KillSwitch> {
    let place = at("kill_switches", format!("{}/{}/{}", row.tenant, row.workflow, row.step));
    let act = |by: String, token: Option<String>, reason: String, moment: &str| -> Result<Attribution> {
        let with_token = parse_token(&place, token.as_deref())?;
        Ok(Attribution { by, with_token, reason, at: place.parse(moment)? })
    };
    let disengaged = match (row.disengaged_by, row.disengaged_reason, row.disengaged_at) {
        (Some(by), Some(reason), Some(ended)) => Some(act(by, row.disengaged_with, reason, &ended)?),
        _ => None,
    };
    let engaged = act(row.engaged_by, row.engaged_with, row.engaged_reason, &row.engaged_at)?;
    Ok(KillSwitch { scope: read_scope([&row.tenant, &row.workflow, &row.step])?, engaged, disengaged })
}
