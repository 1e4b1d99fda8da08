//! Searches the text of dead letters. Only redacted text is searched, so nobody can confirm a secret by
//! searching for it.

use std::ops::ControlFlow;

use retro_core::id::Tenant;
use retro_store::{DeadLetter, DeadLetterFilter, OperatorStore, Result};

use super::{DeadLetterView, MessageView, RedactFn};

/// Number of dead letters that a text search loads per page.
const PAGE_SIZE: u32 = 200;
/// Maximum number of dead letters that one text search scans. Each has to be redacted first, so the limit
/// bounds the duration of a request.
const SCANNED_MAX: u32 = 20_000;

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
    /// `true` if the search stopped before it had scanned every dead letter. Older dead letters may match.
    pub truncated: bool,
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
    ) -> Result<SearchResult> {
        let Some(text) = self.text.as_ref().map(|text| text.to_lowercase()) else {
            return Ok(SearchResult {
                dead_letters: store.list_dead_letters(tenant, &self.filter).await?,
                truncated: false,
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
        let truncated = self.for_each_match(&text, store, tenant, redact, take).await?;
        Ok(SearchResult { dead_letters, truncated })
    }

    /// Passes each dead letter whose redacted text contains `text` to `take`, newest first, until `take`
    /// breaks. `text` must be lower case. Returns `true` if the scan stopped at `SCANNED_MAX` dead letters.
    pub(super) async fn for_each_match(
        &self,
        text: &str,
        store: &dyn OperatorStore,
        tenant: &Tenant,
        redact: RedactFn<'_>,
        mut take: impl FnMut(DeadLetter) -> ControlFlow<()> + Send,
    ) -> Result<bool> {
        let mut page = DeadLetterFilter { limit: PAGE_SIZE, ..self.filter.clone() };
        for _ in 0..SCANNED_MAX / PAGE_SIZE {
            let dead_letters = store.list_dead_letters(tenant, &page).await?;
            let Some(last) = dead_letters.last() else { return Ok(false) };
            // A cursor and not an offset: dead letters that arrive during the scan must not shift the pages.
            page.after = Some(last.id);
            for dead_letter in
                dead_letters.into_iter().filter(|dead_letter| matches_text(dead_letter, text, redact))
            {
                if take(dead_letter).is_break() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

fn matches_text(dead_letter: &DeadLetter, lowercase: &str, redact: RedactFn<'_>) -> bool {
    let DeadLetterView { path, detail, subject, message, .. } =
        DeadLetterView::with_message(dead_letter, redact);
    let MessageView { headers, payload, .. } = message.unwrap_or_default();
    let headers = headers.into_iter().flat_map(|(name, value)| [name, value]);
    let mut shown = path.into_iter().chain([detail, subject, payload]).chain(headers);
    shown.any(|text| text.to_lowercase().contains(lowercase))
}
