//! Claims the reviews of a pull request, and stores the calls of models about them. Every write is guarded by the claim's fencing
//! token.

use retro_core::model_use::{ReviewSpending, Spending, TokenUsage};
use retro_fault::Label;
use retro_store::{ModelCall, PullRequestKey, Result, ReviewCall, ReviewClaim, StoreError};

use super::dialect::{Connection, OnTable, Store, for_update, now_ms, storable_text};
use super::investigate::Statement;
use super::model_calls::result_columns;
use super::open::commit;
use crate::rows::model_call::ReviewCallRecord;
use crate::{at, to_i64};

/// Maximum lease, in seconds: a thousand years. Keeps the end in milliseconds within 64 bits.
const LEASE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;

impl Store {
    pub(crate) async fn claim_due_reviews(
        &self,
        key: &PullRequestKey,
        lease_s: u64,
    ) -> Result<Option<ReviewClaim>> {
        const CLAIM: &str = concat!(
            "UPDATE reviews SET claim_token = claim_token + 1, claimed_until_ms = ",
            now_ms!(),
            " + $4 * 1000
             WHERE tenant = $1 AND repo = $2 AND number = $3 AND due_ms IS NOT NULL AND due_ms <= ",
            now_ms!(),
            " AND (claimed_until_ms IS NULL OR claimed_until_ms <= ",
            now_ms!(),
            ") RETURNING claim_token, rounds"
        );
        let mut transaction = self.begin_write().await?;
        let claimed: Option<(i64, i64)> = sqlx::query_as(CLAIM)
            .bind(key.tenant.as_str())
            .bind(key.pull_request.repo.as_str())
            .bind(to_i64(key.pull_request.number))
            .bind(to_i64(lease_s.min(LEASE_MAX_S)))
            .fetch_optional(&mut *transaction)
            .await
            .on_table("reviews")?;
        let Some((token, rounds)) = claimed else { return Ok(None) };
        commit(transaction, Label::ReviewClaimCommit).await?;
        let place = at("reviews", &key.pull_request);
        let round = place.parse_unsigned::<u64>(rounds)? + 1;
        Ok(Some(ReviewClaim { key: key.clone(), token: place.parse_unsigned(token)?, round }))
    }

    pub(crate) async fn renew_review_claim(&self, claim: &ReviewClaim, lease_s: u64) -> Result<()> {
        const RENEW: &str = concat!(
            "UPDATE reviews SET claimed_until_ms = ",
            now_ms!(),
            " + $5 * 1000
             WHERE tenant = $1 AND repo = $2 AND number = $3 AND claim_token = $4 AND claimed_until_ms IS NOT NULL"
        );
        let mut transaction = self.begin_write().await?;
        let done = bind_claim(RENEW, claim)
            .bind(to_i64(lease_s.min(LEASE_MAX_S)))
            .execute(&mut *transaction)
            .await
            .on_table("reviews")?;
        if done.rows_affected() == 0 {
            return Err(fenced(claim));
        }
        commit(transaction, Label::ReviewRenewCommit).await
    }

    pub(crate) async fn load_review_calls(&self, key: &PullRequestKey) -> Result<Vec<ReviewCall>> {
        const LOAD: &str = "
            SELECT round, prompt, model, outcome, answer, problem, input_tokens, cached_tokens, output_tokens,
                cost_micro_usd, duration_ms
            FROM review_calls WHERE tenant = $1 AND repo = $2 AND number = $3 ORDER BY position";
        let rows: Vec<ReviewCallRecord> = sqlx::query_as(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.pull_request.repo.as_str())
            .bind(to_i64(key.pull_request.number))
            .fetch_all(self.reader())
            .await
            .on_table("review_calls")?;
        rows.into_iter().map(|row| row.into_review_call(key)).collect()
    }

    pub(crate) async fn insert_review_call(&self, claim: &ReviewClaim, call: &ModelCall) -> Result<()> {
        const WRITE: &str = concat!(
            "INSERT INTO review_calls (tenant, repo, number, position, token, round, prompt, model, outcome, answer,
                 problem, input_tokens, cached_tokens, output_tokens, cost_micro_usd, duration_ms, written_ms)
             VALUES ($1, $2, $3, (
                 SELECT coalesce(max(position), 0) + 1 FROM review_calls
                 WHERE tenant = $1 AND repo = $2 AND number = $3
             ), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, ",
            now_ms!(),
            ")"
        );
        let (outcome, answer, problem) = result_columns(call);
        let TokenUsage { input_tokens, cached_tokens, output_tokens } = call.usage;
        let mut transaction = self.begin_write().await?;
        hold_claim(&mut transaction, claim).await?;
        bind_claim(WRITE, claim)
            .bind(to_i64(claim.round))
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
            .on_table("review_calls")?;
        commit(transaction, Label::ReviewCallCommit).await
    }

    pub(crate) async fn sum_review_spending(&self, key: &PullRequestKey) -> Result<ReviewSpending> {
        const OF_REVIEW: &str = "
            SELECT CAST(coalesce(sum(input_tokens + output_tokens), 0) AS BIGINT),
                CAST(coalesce(sum(cost_micro_usd), 0) AS BIGINT)
            FROM review_calls WHERE tenant = $1 AND repo = $2 AND number = $3";
        let (tokens, cost): (i64, i64) = sqlx::query_as(OF_REVIEW)
            .bind(key.tenant.as_str())
            .bind(key.pull_request.repo.as_str())
            .bind(to_i64(key.pull_request.number))
            .fetch_one(self.reader())
            .await
            .on_table("review_calls")?;
        let place = at("review_calls", &key.pull_request);
        let review =
            Spending { tokens: place.parse_unsigned(tokens)?, micro_usd: place.parse_unsigned(cost)? };
        Ok(ReviewSpending { review, day: self.load_day_spending().await? })
    }
}

/// Ends a claim, unless somebody else holds the reviews by now.
pub(crate) async fn end_claim(connection: &mut Connection, claim: &ReviewClaim) -> Result<()> {
    const END: &str = "
        UPDATE reviews SET claimed_until_ms = NULL
        WHERE tenant = $1 AND repo = $2 AND number = $3 AND claim_token = $4";
    bind_claim(END, claim).execute(connection).await.on_table("reviews")?;
    Ok(())
}

/// Locks the row of a claimed pull request. Fails with [`StoreError::Fenced`] if the claim is no longer valid.
async fn hold_claim(connection: &mut Connection, claim: &ReviewClaim) -> Result<()> {
    const HOLD: &str = concat!(
        "SELECT number FROM reviews
         WHERE tenant = $1 AND repo = $2 AND number = $3 AND claim_token = $4 AND claimed_until_ms IS NOT NULL",
        for_update!()
    );
    let found = bind_claim(HOLD, claim).fetch_optional(connection).await.on_table("reviews")?;
    found.map(|_| ()).ok_or_else(|| fenced(claim))
}

fn fenced(claim: &ReviewClaim) -> StoreError {
    StoreError::Fenced { work: format!("the reviews of {}", claim.key.pull_request) }
}

/// Binds the key of a claim to the first three parameters, and its token to the fourth.
fn bind_claim(sql: &'static str, claim: &ReviewClaim) -> Statement {
    sqlx::query(sql)
        .bind(claim.key.tenant.to_string())
        .bind(claim.key.pull_request.repo.as_str().to_owned())
        .bind(to_i64(claim.key.pull_request.number))
        .bind(to_i64(claim.token))
}
