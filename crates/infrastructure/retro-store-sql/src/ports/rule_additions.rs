//! Loads the facts for the rules that people add.

use std::collections::BTreeSet;

use retro_core::id::{RemarkKey, Tenant};
use retro_core::learn::{PromotedRemark, RuleAddition, RuleAdditionFacts};
use retro_core::memory::ChangeCause;
use retro_core::remark::Remark;
use retro_core::review::ReadRemark;
use retro_store::Result;
use retro_store::review::DecidedReview;

use super::dialect::{Connection, OnTable, bind_rows, lookup_join, rows_table};
use super::memory::{find_changes_caused_by, list_living_and_named, list_tombstones};
use crate::rows::memory::cause_columns;
use crate::{at, to_i64};

/// Loads the facts for adding a rule. Returns `None` if it shall come from a remark that the tenant does not have, or
/// that its author has deleted.
pub(crate) async fn load_facts(
    connection: &mut Connection,
    tenant: &Tenant,
    addition: &RuleAddition,
) -> Result<Option<RuleAdditionFacts>> {
    let remark = match &addition.remark {
        None => None,
        Some(key) => match find_remark(connection, tenant, key).await? {
            None => return Ok(None),
            Some(remark) => {
                let read = find_reading(connection, tenant, key).await?;
                Some(PromotedRemark { remark, read })
            }
        },
    };
    let rule_scope = addition.repo.rule_scope(tenant);
    let cause = ChangeCause::Operator { request: addition.request.clone() };
    let (applied, changed) =
        find_changes_caused_by(connection, &rule_scope, &[cause_columns(&cause)]).await?;
    let memories = list_living_and_named(connection, &rule_scope, &changed).await?;
    let tombstones = list_tombstones(connection, &rule_scope).await?;
    let addition = addition.clone();
    Ok(Some(RuleAdditionFacts { addition, rule_scope, remark, memories, tombstones, applied }))
}

/// Finds a remark in its latest version, unless its author has deleted it.
async fn find_remark(
    connection: &mut Connection,
    tenant: &Tenant,
    key: &RemarkKey,
) -> Result<Option<Remark>> {
    const LOAD: &str = "
        SELECT remark FROM remarks
        WHERE tenant = $1 AND repo = $2 AND number = $3 AND kind = $4 AND remark_id = $5 AND NOT deleted";
    let remark: Option<String> = sqlx::query_scalar(LOAD)
        .bind(tenant.as_str())
        .bind(key.pull_request.repo.as_str())
        .bind(to_i64(key.pull_request.number))
        .bind(key.kind.as_str())
        .bind(key.id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("remarks")?;
    remark.map(|remark| at("remarks.remark", key).parse_json(&remark)).transpose()
}

/// Returns those of the remarks that are stored and were not deleted at GitHub since.
pub(crate) async fn select_existing_remarks(
    connection: &mut Connection,
    tenant: &Tenant,
    remarks: &[RemarkKey],
) -> Result<BTreeSet<RemarkKey>> {
    const EXISTING: &str = concat!(
        "SELECT remarks.repo, remarks.number, remarks.kind, remarks.remark_id FROM ",
        rows_table!("wanted", "$2" "repo", "$3" "number", "$4" "kind", "$5" "remark_id"),
        lookup_join!(
            "remarks",
            "repo, number, kind, remark_id",
            "remarks.tenant = $1 AND remarks.repo = wanted.repo AND remarks.number = wanted.number
                AND remarks.kind = wanted.kind AND remarks.remark_id = wanted.remark_id AND NOT remarks.deleted"
        )
    );
    let wanted: Vec<RemarkColumns> = remarks.iter().map(remark_columns).collect();
    let query = sqlx::query_as(EXISTING).bind(tenant.as_str());
    let query = bind_rows!(query, wanted, |row| [row.0.as_str(), row.1, row.2.as_str(), row.3.as_str()]);
    let existing: Vec<RemarkColumns> = query.fetch_all(connection).await.on_table("remarks")?;
    let existing: BTreeSet<RemarkColumns> = existing.into_iter().collect();
    Ok(remarks.iter().filter(|key| existing.contains(&remark_columns(key))).cloned().collect())
}

/// Columns of a remark's key: repository, number of the pull request, kind and id.
type RemarkColumns = (String, i64, String, String);

fn remark_columns(key: &RemarkKey) -> RemarkColumns {
    let RemarkKey { pull_request, kind, id } = key;
    let repo = pull_request.repo.as_str().to_owned();
    (repo, to_i64(pull_request.number), kind.as_str().to_owned(), id.to_string())
}

/// Finds a remark as it was read when its pull request was decided last. Returns `None` if that decision did not
/// include it.
async fn find_reading(
    connection: &mut Connection,
    tenant: &Tenant,
    key: &RemarkKey,
) -> Result<Option<ReadRemark>> {
    const LOAD: &str = "
        SELECT review FROM rule_batches
        WHERE tenant = $1 AND repo = $2 AND number = $3 AND review IS NOT NULL ORDER BY round DESC LIMIT 1";
    let review: Option<String> = sqlx::query_scalar(LOAD)
        .bind(tenant.as_str())
        .bind(key.pull_request.repo.as_str())
        .bind(to_i64(key.pull_request.number))
        .fetch_optional(connection)
        .await
        .on_table("rule_batches")?;
    let Some(review) = review else { return Ok(None) };
    let decided: DecidedReview = at("rule_batches.review", &key.pull_request).parse_json(&review)?;
    Ok(decided.remarks.into_iter().find(|read| read.remark.key == *key))
}
