//! Implements the port of the calls of models. Every write is guarded by the claim's fencing token.

use async_trait::async_trait;
use retro_core::model_use::{ModelSpending, Spending, TokenUsage};
use retro_fault::Label;
use retro_store::{Claim, ModelCall, ModelCallResult, ModelCallStore, Result};

use super::dialect::{OnTable, Store, now_ms, storable_text};
use super::investigate::{bind_claim, hold_claim};
use super::open::commit;
use crate::rows::model_call::ModelCallRecord;
use crate::{at, to_i64};

#[async_trait]
impl ModelCallStore for Store {
    async fn list_model_calls(&self, claim: &Claim) -> Result<Vec<ModelCall>> {
        const LOAD: &str = "
            SELECT prompt, model, outcome, answer, problem, input_tokens, cached_tokens, output_tokens,
                cost_micro_usd, duration_ms
            FROM model_calls WHERE tenant = $1 AND retrospective = $2 AND number = $3 ORDER BY position";
        let id = claim.retrospective.id;
        let rows: Vec<ModelCallRecord> = sqlx::query_as(LOAD)
            .bind(claim.retrospective.key.tenant.as_str())
            .bind(id.to_string())
            .bind(i64::from(claim.number))
            .fetch_all(self.reader())
            .await
            .on_table("model_calls")?;
        rows.into_iter().map(|row| row.into_model_call(id, claim.number)).collect()
    }

    async fn append_model_call(&self, claim: &Claim, call: &ModelCall) -> Result<()> {
        const WRITE: &str = concat!(
            "INSERT INTO model_calls (tenant, retrospective, number, position, token, prompt, model, outcome, answer,
                 problem, input_tokens, cached_tokens, output_tokens, cost_micro_usd, duration_ms, written_ms)
             VALUES ($1, $2, $3, (
                 SELECT coalesce(max(position), 0) + 1 FROM model_calls
                 WHERE tenant = $1 AND retrospective = $2 AND number = $3
             ), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, ",
            now_ms!(),
            ")"
        );
        let (outcome, answer, problem) = result_columns(call);
        let TokenUsage { input_tokens, cached_tokens, output_tokens } = call.usage;
        let mut transaction = self.begin_write().await?;
        hold_claim(&mut transaction, claim).await?;
        bind_claim(WRITE, claim)
            .bind(call.prompt.clone())
            .bind(storable_text(&call.model).to_string())
            .bind(outcome)
            .bind(answer)
            .bind(problem)
            .bind(to_i64(input_tokens))
            .bind(to_i64(cached_tokens))
            .bind(to_i64(output_tokens))
            .bind(call.cost_micro_usd.map(to_i64))
            .bind(to_i64(call.duration_ms))
            .execute(&mut *transaction)
            .await
            .on_table("model_calls")?;
        commit(transaction, Label::ModelCallCommit).await
    }

    async fn load_model_spending(&self, claim: &Claim) -> Result<ModelSpending> {
        const OF_RETROSPECTIVE: &str = "
            SELECT CAST(coalesce(sum(CASE WHEN number = $3 THEN input_tokens + output_tokens END), 0) AS BIGINT),
                CAST(coalesce(sum(CASE WHEN number = $3 THEN cost_micro_usd END), 0) AS BIGINT),
                CAST(coalesce(sum(input_tokens + output_tokens), 0) AS BIGINT),
                CAST(coalesce(sum(cost_micro_usd), 0) AS BIGINT)
            FROM model_calls WHERE tenant = $1 AND retrospective = $2";
        let id = claim.retrospective.id;
        let own: (i64, i64, i64, i64) = sqlx::query_as(OF_RETROSPECTIVE)
            .bind(claim.retrospective.key.tenant.as_str())
            .bind(id.to_string())
            .bind(i64::from(claim.number))
            .fetch_one(self.reader())
            .await
            .on_table("model_calls")?;
        let place = at("model_calls", id);
        let spending = |tokens: i64, cost: i64| -> Result<Spending> {
            Ok(Spending { tokens: place.parse_unsigned(tokens)?, micro_usd: place.parse_unsigned(cost)? })
        };
        Ok(ModelSpending {
            investigation: spending(own.0, own.1)?,
            retrospective: spending(own.2, own.3)?,
            day: self.load_day_spending().await?,
        })
    }
}

impl Store {
    /// Sums what calls about runs and about reviews have cost since midnight UTC, by the database's clock, of all tenants.
    pub(crate) async fn load_day_spending(&self) -> Result<Spending> {
        const OF_DAY: &str = concat!(
            "SELECT CAST(coalesce(sum(tokens), 0) AS BIGINT), CAST(coalesce(sum(cost), 0) AS BIGINT) FROM (
                 SELECT input_tokens + output_tokens AS tokens, cost_micro_usd AS cost FROM model_calls
                 WHERE written_ms >= ",
            now_ms!(),
            " / 86400000 * 86400000
                 UNION ALL
                 SELECT input_tokens + output_tokens AS tokens, cost_micro_usd AS cost FROM review_calls
                 WHERE written_ms >= ",
            now_ms!(),
            " / 86400000 * 86400000) AS calls"
        );
        let (tokens, cost): (i64, i64) =
            sqlx::query_as(OF_DAY).fetch_one(self.reader()).await.on_table("model_calls")?;
        let place = at("model_calls", "the day");
        Ok(Spending { tokens: place.parse_unsigned(tokens)?, micro_usd: place.parse_unsigned(cost)? })
    }
}

/// Columns of a call that depend on what came of it: its outcome, its answer and its problem.
pub(crate) fn result_columns(call: &ModelCall) -> (&'static str, Option<String>, Option<String>) {
    match &call.result {
        ModelCallResult::Answered(answer) => ("answered", Some(answer.to_string()), None),
        ModelCallResult::Failed { kind, problem } => {
            (kind.as_str(), None, Some(storable_text(problem).to_string()))
        }
    }
}
