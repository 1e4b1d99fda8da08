//! Searches the text of dead letters. Only redacted text is searched, so nobody can confirm a secret by
//! searching for it.

use std::ops::ControlFlow;

use jiff::Timestamp;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_events::Role;
use retro_http::Problem;
use retro_store::{DeadLetter, DeadLetterFilter, DeadLetterStatus, OperatorStore, StoreError};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{DeadLetterView, DeadLetterWithMessage, MessageView};
use crate::redact::RedactFn;

/// Number of dead letters that a text search loads per page.
const PAGE_SIZE: u32 = 200;
/// Maximum number of dead letters that one text search scans. Each has to be redacted first, so the limit
/// bounds the duration of a request.
pub(super) const SCANNED_MAX: u32 = 20_000;

/// Criteria of a search for dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterSearch {
    /// Filter applied by the store; its limit is the maximum number of results.
    pub filter: DeadLetterFilter,
    /// Text that the redacted dead letter must contain, ignoring case; `None` matches every dead letter.
    pub text: Option<String>,
}

/// Result of a search for dead letters.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchResult {
    /// Matching dead letters, newest first.
    pub dead_letters: Vec<DeadLetter>,
    /// Last dead letter that was scanned, if the search stopped before it had scanned every dead letter. Older
    /// dead letters may match: continue after this one. `None` if the search was not cut off.
    pub stopped_after: Option<DeadLetterId>,
}

impl SearchResult {
    /// Returns `true` if the search stopped before it had scanned every dead letter.
    pub const fn is_truncated(&self) -> bool {
        self.stopped_after.is_some()
    }
}

impl DeadLetterSearch {
    /// Returns `true` if no filter other than the status narrows the search. An action on all matches would
    /// then affect every dead letter of that status.
    pub fn is_empty(&self) -> bool {
        let anything = DeadLetterFilter::default();
        let limit = anything.limit;
        // Status, cursor and limit do not count as a filter: they would not protect against acting on everything.
        let narrow = DeadLetterFilter { status: None, after: None, limit, ..self.filter.clone() };
        self.text.is_none() && narrow == anything
    }

    /// Finds matching dead letters, newest first, up to the filter's limit.
    pub async fn find_matches(
        &self,
        store: &dyn OperatorStore,
        tenant: &Tenant,
        redact: RedactFn<'_>,
    ) -> Result<SearchResult, StoreError> {
        let Some(text) = self.text.as_ref().map(|text| text.to_lowercase()) else {
            return Ok(SearchResult {
                dead_letters: store.list_dead_letters(tenant, &self.filter).await?,
                stopped_after: None,
            });
        };
        let (mut dead_letters, wanted) = (Vec::new(), self.filter.limit as usize);
        let take = |dead_letter: DeadLetter| {
            if dead_letters.len() == wanted {
                return ControlFlow::Break(());
            }
            dead_letters.push(dead_letter);
            ControlFlow::Continue(())
        };
        let stopped_after = self.for_each_match(&text, store, tenant, redact, take).await?;
        Ok(SearchResult { dead_letters, stopped_after })
    }

    /// Passes each dead letter whose redacted text contains `text` to `take`, newest first, until `take`
    /// breaks. `text` must be lower case. Returns the last dead letter that was scanned if the scan stopped at
    /// `SCANNED_MAX` dead letters, and `None` otherwise.
    pub(super) async fn for_each_match(
        &self,
        text: &str,
        store: &dyn OperatorStore,
        tenant: &Tenant,
        redact: RedactFn<'_>,
        mut take: impl FnMut(DeadLetter) -> ControlFlow<()> + Send,
    ) -> Result<Option<DeadLetterId>, StoreError> {
        let mut page = DeadLetterFilter { limit: PAGE_SIZE, ..self.filter.clone() };
        for _ in 0..SCANNED_MAX / PAGE_SIZE {
            let dead_letters = store.list_dead_letters(tenant, &page).await?;
            let Some(last) = dead_letters.last() else { return Ok(None) };
            // A cursor and not an offset: dead letters that arrive during the scan must not shift the pages.
            page.after = Some(last.id);
            for dead_letter in
                dead_letters.into_iter().filter(|dead_letter| matches_text(dead_letter, text, redact))
            {
                if take(dead_letter).is_break() {
                    return Ok(None);
                }
            }
        }
        Ok(page.after)
    }
}

fn matches_text(dead_letter: &DeadLetter, lowercase: &str, redact: RedactFn<'_>) -> bool {
    let DeadLetterWithMessage { summary, message } =
        DeadLetterWithMessage::from_dead_letter(dead_letter, redact);
    let DeadLetterView { path, detail, subject, .. } = summary;
    let MessageView { headers, payload, .. } = message;
    let headers = headers.into_iter().flat_map(|(name, value)| [name, value]);
    let mut shown = path.into_iter().chain([detail, subject, payload]).chain(headers);
    shown.any(|text| text.to_lowercase().contains(lowercase))
}

/// Filters for dead letters. An omitted filter matches every dead letter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct DeadLettersQuery {
    /// Only dead letters with this code.
    #[param(value_type = Option<String>)]
    code: Option<DeadLetterCode>,
    /// Only dead letters of the consumer with this role: counter, sampler, investigator, writer, reviewer or
    /// tracker.
    role: Option<String>,
    /// Only dead letters of this workflow.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Only messages that were dead-lettered at or after this time, RFC 3339.
    #[param(value_type = Option<String>)]
    since: Option<Timestamp>,
    /// Only messages that were dead-lettered before this time, RFC 3339.
    #[param(value_type = Option<String>)]
    until: Option<Timestamp>,
    /// Only dead letters whose redacted reason, subject, headers or payload contain this text, ignoring case.
    text: Option<String>,
    /// Only dead letters with this status: open, replaying, handled, discarded or replayed.
    #[param(value_type = Option<String>)]
    status: Option<DeadLetterStatus>,
    /// Only dead letters after this one in the list; pass the `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<DeadLetterId>,
    /// Maximum number of entries [default: 100, or 10000 for an export]. Ignored by `stats`.
    #[param(minimum = 1)]
    limit: Option<u32>,
}

impl DeadLettersQuery {
    /// Builds the search, with `default` as the limit if the query gives none. Fails if the limit is 0 or
    /// greater than `max`, or if there is no such role.
    pub(super) fn into_search(self, default: u32, max: u32) -> Result<DeadLetterSearch, Problem> {
        let limit = self.limit.unwrap_or(default);
        if !(1..=max).contains(&limit) {
            return Err(Problem::invalid_field("limit", format!("{limit} is not between 1 and {max}")));
        }
        let filter = DeadLetterFilter {
            ids: Vec::new(),
            code: self.code,
            consumer: parse_role(self.role.as_deref())?,
            workflow: self.workflow,
            since: self.since,
            until: self.until,
            status: self.status,
            after: self.after,
            limit,
        };
        Ok(DeadLetterSearch { filter, text: self.text })
    }
}

/// Parses a role and returns the name of its consumer. An unknown role would silently select nothing.
pub(super) fn parse_role(role: Option<&str>) -> Result<Option<String>, Problem> {
    let role = role.map(str::parse::<Role>).transpose();
    Ok(role.map_err(|problem| Problem::invalid_field("role", problem))?.map(|role| role.as_str().to_owned()))
}
