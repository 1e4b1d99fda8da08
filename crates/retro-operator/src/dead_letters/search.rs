//! Searches dead letters for a text. Only the redacted text is searched, so that nobody can confirm a secret by
//! searching for it.

use std::ops::ControlFlow;

use retro_core::id::Tenant;
use retro_store::{DeadLetter, DeadLetterFilter, OperatorStore, Result};

use super::{DeadLetterView, MessageView, RedactFn};

/// Number of dead letters that a text search reads at once.
const PAGE_SIZE: u32 = 200;
/// Maximum number of dead letters that one search scans. Each dead letter has to be redacted first, so this
/// bounds the time of a request.
const SCANNED_MAX: u32 = 20_000;

/// A search for dead letters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeadLetterSearch {
    /// Filter for the store; its limit is the number of requested results.
    pub filter: DeadLetterFilter,
    /// Text that the redacted dead letter must contain, ignoring case; `None` matches every dead letter.
    pub text: Option<String>,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchResult {
    /// Matching dead letters, newest first.
    pub dead_letters: Vec<DeadLetter>,
    /// True when the search stopped before it had scanned every dead letter, so that older ones may match.
    pub truncated: bool,
}

impl DeadLetterSearch {
    /// Returns true when the search has no filter except perhaps a status. An action on all matches would then
    /// affect every dead letter of that status.
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
        let (mut letters, wanted) = (Vec::new(), self.filter.limit as usize);
        let take = |dead_letter: DeadLetter| {
            if letters.len() == wanted {
                return ControlFlow::Break(());
            }
            letters.push(dead_letter);
            ControlFlow::Continue(())
        };
        let cut = self.for_each_match(&text, store, tenant, redact, take).await?;
        Ok(SearchResult { dead_letters: letters, truncated: cut })
    }

    /// Passes every dead letter that contains `text` (which must be lower case) to `take`, newest first, until `take`
    /// breaks. Returns true when the scan stopped before it had seen every dead letter.
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
            let letters = store.list_dead_letters(tenant, &page).await?;
            let Some(last) = letters.last() else { return Ok(false) };
            page.after = Some(last.id);
            for dead_letter in
                letters.into_iter().filter(|dead_letter| matches_text(dead_letter, text, redact))
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
