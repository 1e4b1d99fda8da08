//! Lists dead letters, newest first, redacted and without their messages.

use axum::Json;
use axum::extract::State;
use retro_core::id::DeadLetterId;
use retro_http::{Caller, QueryParams};
use serde::Serialize;
use utoipa::ToSchema;

use super::search::DeadLettersQuery;
use super::{DeadLetterView, SearchResult};
use crate::http::{ApiState, JsonResult, LIST_DEFAULT, LIST_MAX};
use crate::redact::RedactFn;
use crate::text;
use crate::text_table::{Layout, render_table};

/// Redacted dead letters without their messages, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct DeadLetters {
    items: Vec<DeadLetterView>,
    /// `true` if more dead letters match, or may match because a text search was cut off.
    more: bool,
    /// Cursor for the next page, to pass as `after`; absent if no more dead letters match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    next: Option<DeadLetterId>,
}

impl DeadLetters {
    /// Builds a page of at most `limit` dead letters from a search for one more.
    fn from_search(mut found: SearchResult, limit: usize, redact: RedactFn<'_>) -> Self {
        let next = if found.dead_letters.len() > limit {
            found.dead_letters.truncate(limit);
            found.dead_letters.last().map(|last| last.id)
        } else {
            // A search that was cut off continues after the last dead letter that it looked at, even if none
            // matched: `more` without a cursor would leave the caller stuck.
            found.stopped_after
        };
        let view = |dead_letter| DeadLetterView::from_dead_letter(dead_letter, redact);
        Self { items: found.dead_letters.iter().map(view).collect(), more: next.is_some(), next }
    }
}

/// Lists dead letters, newest first, redacted and without their messages.
#[utoipa::path(get, path = "/v1/dead-letters", tag = "people", params(DeadLettersQuery), responses((status = 200, body = DeadLetters)))]
pub(super) async fn list_dead_letters(
    State(operator): State<ApiState>,
    Caller(tenant): Caller,
    QueryParams(query): QueryParams<DeadLettersQuery>,
) -> JsonResult<DeadLetters> {
    let mut search = query.into_search(LIST_DEFAULT, LIST_MAX)?;
    let limit = search.filter.limit as usize;
    // One more than requested, to detect whether there are more.
    search.filter.limit += 1;
    let found = search.find_matches(&*operator.store, &tenant, &*operator.redact).await?;
    Ok(Json(DeadLetters::from_search(found, limit, &*operator.redact)))
}

/// Renders dead letters as a table for a terminal that is `columns` wide.
pub fn render_dead_letters(dead_letters: &[DeadLetterView], layout: impl Into<Layout>) -> String {
    if dead_letters.is_empty() {
        return "no dead letters\n".to_owned();
    }
    let row = |dead_letter: &DeadLetterView| {
        let workflow = dead_letter
            .workflow
            .as_ref()
            .map_or_else(|| "—".to_owned(), |name| text::single_line(name.as_str()));
        let path = dead_letter
            .path
            .as_deref()
            .map(|path| format!("{}: ", text::single_line(path)))
            .unwrap_or_default();
        let why =
            format!("{path}{}", text::truncate(&text::single_line(&dead_letter.detail), DETAIL_CHARS_MAX));
        let when = text::format_timestamp(dead_letter.created_at);
        [
            when,
            dead_letter.code.to_owned(),
            workflow,
            dead_letter.status.as_str().to_owned(),
            why,
            retro_core::id::short_id(dead_letter.id.0),
        ]
    };
    render_table(
        layout,
        ["rejected", "code", "workflow", "status", "reason", "id"],
        dead_letters.iter().map(row).collect(),
    )
}

/// Maximum length of a reason in a table cell, in characters: two or three lines. `show` prints the whole
/// reason.
const DETAIL_CHARS_MAX: usize = 160;

#[cfg(test)]
mod tests {
    use retro_core::id::{Tenant, derive_uuid};
    use retro_store::{DeadLetter, DeadLetterFilter};

    use super::*;
    use crate::dead_letters::DeadLetterSearch;
    use crate::dead_letters::search::SCANNED_MAX;
    use crate::dead_letters::tests::dead_letter;

    #[tokio::test]
    async fn a_text_search_that_was_cut_off_without_a_match_continues_with_next() {
        let mut template = dead_letter(None, b"");
        // Without headers, because redacting them takes most of the time.
        template.message.headers.clear();
        let numbered = |number: u32| DeadLetter {
            id: DeadLetterId(derive_uuid("letter", &[&number.to_string()])),
            ..template.clone()
        };
        let mut world = crate::world::rich_world();
        world.dead_letters = (0..=SCANNED_MAX).map(numbered).collect();
        world.dead_letters[SCANNED_MAX as usize].message.rejection.detail = "the needle".to_owned();
        let redact: RedactFn<'_> = &|text: &str| text.to_owned();
        let next_page = async |after: Option<DeadLetterId>| {
            let filter = DeadLetterFilter { limit: 6, after, ..DeadLetterFilter::default() };
            let search = DeadLetterSearch { filter, text: Some("needle".to_owned()) };
            let found = search.find_matches(&world, &Tenant::default_tenant(), redact).await.unwrap();
            DeadLetters::from_search(found, 5, redact)
        };
        let first = next_page(None).await;
        assert_eq!((first.items.len(), first.more), (0, true));
        assert_eq!(first.next, Some(numbered(SCANNED_MAX - 1).id), "the last one that was searched");
        let second = next_page(first.next).await;
        assert_eq!((second.items.len(), second.more, second.next), (1, false, None));
    }
}
