//! Lists what reviewers said, as it was read last. One-offs are the examples of a repository: what its reviewers asked
//! of one pull request, and what a person may make a rule.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use retro_core::id::{RemarkKey, Repository, Tenant, Workflow};
use retro_core::remark::AuthorStanding;
use retro_core::review::{ReadingKind, ReportedRemark, ReviewReport};
use retro_http::{Api, Caller, QueryParams};
use retro_store::{OperatorStore, Result};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use crate::http::{ApiState, JsonResult, Limit};
use crate::text;
use crate::text_table::{Layout, render_table};

/// Maximum number of reports that are searched for remarks, newest first. A report has at most 200 remarks of a few
/// hundred bytes each.
pub const REVIEWS_SEARCHED_MAX: u32 = 500;

/// A remark as the newest report of its pull request shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RemarkView {
    /// Key of the remark, by which a person makes it a rule.
    #[schema(value_type = String)]
    pub key: RemarkKey,
    /// Pull request on which it was made, as `owner/name#number`.
    pub pull_request: String,
    /// URL of the remark's web page; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Name of the author.
    pub by: String,
    /// Standing of the author in the repository.
    #[schema(value_type = String)]
    pub standing: AuthorStanding,
    /// Kind of remark: `rule`, `one_off`, `question`, `praise`, `noise` or `preference`.
    #[schema(value_type = String)]
    pub kind: ReadingKind,
    /// Beginning of the text, at most 200 characters. The author of the text may be hostile.
    pub excerpt: String,
    /// Rule that the reader made of it; absent if it made none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// `true` if it changed a rule.
    pub changed_rule: bool,
    /// Reason for the result, in one sentence.
    pub reason: String,
    /// Time of the decision.
    #[schema(value_type = String)]
    pub decided_at: Timestamp,
}

/// Remarks, those of the pull request that was decided last first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RemarkList {
    /// The remarks.
    pub items: Vec<RemarkView>,
    /// `true` if more remarks match, or if the search ended after the newest 500 reports.
    pub more: bool,
}

/// Lists at most `limit` remarks of a kind, or of all kinds, as their pull request was decided last. Searches the
/// newest [`REVIEWS_SEARCHED_MAX`] reports of the rule scope, or of all repositories. A remark that was deleted at
/// GitHub since is not listed.
pub async fn list_remarks(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    rule_scope: Option<&Workflow>,
    kind: Option<ReadingKind>,
    limit: usize,
) -> Result<RemarkList> {
    let reports = store.list_review_reports(tenant, rule_scope, REVIEWS_SEARCHED_MAX).await?;
    let is_cut = reports.len() >= REVIEWS_SEARCHED_MAX as usize;
    let mut items = select_remarks(&reports, kind);
    let keys: Vec<RemarkKey> = items.iter().map(|remark| remark.key.clone()).collect();
    let existing = store.select_existing_remarks(tenant, &keys).await?;
    items.retain(|remark| existing.contains(&remark.key));
    let more = items.len() > limit || is_cut;
    items.truncate(limit);
    Ok(RemarkList { items, more })
}

/// Selects the remarks of a kind from the newest report of each review. `reports` has the newest first.
fn select_remarks(reports: &[ReviewReport], kind: Option<ReadingKind>) -> Vec<RemarkView> {
    let mut seen = BTreeSet::new();
    let newest = reports.iter().filter(|report| seen.insert(report.review.to_string()));
    newest
        .flat_map(|report| report.remarks.iter().map(move |remark| view(report, remark)))
        .filter(|remark| kind.is_none_or(|kind| kind == remark.kind))
        .collect()
}

fn view(report: &ReviewReport, remark: &ReportedRemark) -> RemarkView {
    RemarkView {
        key: remark.remark.clone(),
        pull_request: report.review.pull_request.to_string(),
        url: remark.url.clone(),
        by: remark.by.clone(),
        standing: remark.standing,
        kind: remark.kind,
        excerpt: remark.excerpt.clone(),
        title: remark.title.clone(),
        changed_rule: !remark.changes.is_empty(),
        reason: remark.reason.clone(),
        decided_at: report.as_of,
    }
}

/// Renders remarks, one per line, with what a person does with them.
pub fn render_remarks(found: &RemarkList, layout: impl Into<Layout>) -> String {
    if found.items.is_empty() {
        return "no remarks\n".to_owned();
    }
    let row = |remark: &RemarkView| {
        [
            text::single_line(&remark.pull_request),
            text::single_line(&remark.by),
            remark.standing.as_str().to_owned(),
            remark.kind.as_str().to_owned(),
            if remark.changed_rule { "yes" } else { "no" }.to_owned(),
            text::single_line(&remark.excerpt),
            remark.key.to_string(),
        ]
    };
    let head = ["pull request", "author", "standing", "kind", "changed a rule", "text", "key"];
    let table = render_table(layout, head, found.items.iter().map(row).collect());
    let more = if found.more { "There are more: filter by --repo or --kind, or raise --limit. " } else { "" };
    format!("{table}\n{more}A remark becomes a rule by `retro rules promote --remark KEY --reason …`.\n")
}

/// Adds the route.
pub(crate) fn add_read_routes(api: Api<ApiState>) -> Api<ApiState> {
    api.routes(routes!(get_remarks))
}

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct RemarksQuery {
    /// Only remarks in this repository: `owner/name`, or `host/owner/name` for hosts other than github.com.
    #[param(value_type = Option<String>)]
    repo: Option<Repository>,
    /// Only remarks of this kind: `rule`, `one_off`, `question`, `praise`, `noise` or `preference`.
    #[param(value_type = Option<String>)]
    kind: Option<ReadingKind>,
    /// Maximum number of entries [default: 100].
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

/// Lists what reviewers said, as it was read last. One-offs are examples of what reviewers ask; a person makes a rule of
/// one with `POST /v1/rules/promote`.
#[utoipa::path(get, path = "/v1/rules/remarks", tag = "people", params(RemarksQuery), responses((status = 200, body = RemarkList)))]
async fn get_remarks(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<RemarksQuery>,
) -> JsonResult<RemarkList> {
    let limit = Limit::from_query(query.limit)?;
    let rule_scope = query.repo.map(|repo| repo.rule_scope(&tenant).workflow);
    let wanted = limit.fetch_limit() as usize - 1;
    Ok(Json(list_remarks(&*operator.store, &tenant, rule_scope.as_ref(), query.kind, wanted).await?))
}
