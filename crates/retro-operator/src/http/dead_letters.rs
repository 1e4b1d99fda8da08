//! Dead letters over HTTP: lists, groups, and one in full. All of it is redacted.

use axum::Json;
use axum::extract::State;
use jiff::Timestamp;
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, Workflow};
use retro_http::{Caller, Id, Params, Problem};
use retro_store::{DeadLetterFilter, LetterStatus};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::{LIST_DEFAULT, LIST_MAX, Operator, described, not_answered};
use crate::dead_letters::{DeadLetterView, LetterPage, LetterSearch, LetterStats, letter_acts, page};
use crate::steer::Acted;

/// Which dead letters; what is not said does not matter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LettersAsked {
    /// Only with this code.
    #[param(value_type = Option<String>)]
    code: Option<Code>,
    /// Only what this role gave up: counter, sampler, investigator, writer, reviewer or tracker.
    role: Option<String>,
    /// Only of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only those given up at this moment or later, RFC 3339.
    #[param(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Only those given up before this moment.
    #[param(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only those that show this text, in any case: in the reason, the subject, the headers or the payload, redacted.
    text: Option<String>,
    /// Only those that stand there: open, replaying, handled, discarded or replayed.
    #[param(value_type = Option<String>)]
    status: Option<LetterStatus>,
    /// Only those behind this one in the list: the `next` of the page before.
    #[param(value_type = Option<String>)]
    behind: Option<DeadLetterId>,
    /// At most so many [default: 100; of an export 10000].
    #[param(minimum = 1)]
    limit: Option<u32>,
}

impl LettersAsked {
    /// What is searched; a limit is `default` when none is said, and at most `max`.
    pub(crate) fn search(self, default: u32, max: u32) -> Result<LetterSearch, Problem> {
        let limit = self.limit.unwrap_or(default);
        if !(1..=max).contains(&limit) {
            return Err(Problem::field("limit", format!("{limit} is not between 1 and {max}")));
        }
        let filter = DeadLetterFilter {
            ids: Vec::new(),
            code: self.code,
            consumer: self.role,
            workflow: self.workflow,
            since: self.since,
            until: self.until,
            status: self.status,
            behind: self.behind,
            limit,
        };
        Ok(LetterSearch { filter, text: self.text })
    }
}

/// A page of a list.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    items: Vec<DeadLetterView>,
    /// More were found than asked for.
    more: bool,
    /// Where the next page begins: ask with `behind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<DeadLetterId>,
}

/// Messages that could not be handled, the newest first; redacted, without the messages themselves.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "people", params(LettersAsked), responses((status = 200, body = described::DeadLetters)))]
pub(super) async fn dead_letters(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<LettersAsked>,
) -> Result<Json<Page>, Problem> {
    let mut search = asked.search(LIST_DEFAULT, LIST_MAX)?;
    let limit = search.filter.limit as usize;
    // One more than is wanted tells whether there is more.
    search.filter.limit += 1;
    let found = search.find(&*operator.store, &tenant, &*operator.redact).await;
    let mut found = found.map_err(|cause| not_answered(&cause))?;
    let more = found.cut || found.letters.len() > limit;
    found.letters.truncate(limit);
    let next = found.letters.last().filter(|_| more).map(|letter| letter.id);
    let view = |letter| DeadLetterView::listed(letter, &*operator.redact);
    Ok(Json(Page { items: found.letters.iter().map(view).collect(), more, next }))
}

/// Dead letters grouped by mistake, role and workflow, the largest group first: how many, how many of them open, since when
/// and until when, and one of them.
#[utoipa::path(get, path = "/v1/dead-letters/stats", tag = "people", params(LettersAsked), responses((status = 200, body = described::LetterStats)))]
pub(super) async fn stats(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Params(asked): Params<LettersAsked>,
) -> Result<Json<LetterStats>, Problem> {
    let search = asked.search(LIST_MAX, LIST_MAX)?;
    let stats = search.stats(&*operator.store, &tenant, &*operator.redact).await;
    Ok(Json(stats.map_err(|cause| not_answered(&cause))?))
}

/// One dead letter: why, where, each attempt, what people made of it, the message itself, redacted, and the page of its code.
#[utoipa::path(get, path = "/v1/dead-letters/{id}", tag = "people", params(("id" = String, Path, description = "the id")), responses((status = 200, body = described::LetterPage)))]
pub(super) async fn dead_letter(
    State(operator): State<Operator>,
    Caller(tenant): Caller,
    Id(id): Id<DeadLetterId>,
) -> Result<Json<Acted<LetterPage>>, Problem> {
    let found = page(&*operator.store, &tenant, id, &*operator.redact).await;
    let found = found.map_err(|cause| not_answered(&cause))?;
    let of = found.ok_or_else(|| Problem::not_found("dead letter", id))?;
    let acts = operator.store.acts(&tenant, id.0).await.map_err(|cause| not_answered(&cause))?;
    Ok(Json(Acted { of, acts: letter_acts(acts, &*operator.redact) }))
}
