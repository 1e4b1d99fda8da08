//! Searching dead letters by a text: in what would be shown, so that nobody finds out a secret by asking for it.

use std::ops::ControlFlow;

use retro_core::id::Tenant;
use retro_store::{DeadLetter, DeadLetterFilter, OperatorStore, Result};

use super::{DeadLetterView, MessageView, Redact};

/// Letters read at once while a text is searched.
const PAGE: u32 = 200;
/// Letters looked at for one search: far more than anybody goes through, so that a question ends. Each is redacted.
const LOOKED_AT_MAX: u32 = 20_000;

/// Which dead letters somebody asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterSearch {
    /// What the store is asked; its limit is how many are wanted.
    pub filter: DeadLetterFilter,
    /// Only those that show this text, in any case.
    pub text: Option<String>,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The letters, the newest first.
    pub letters: Vec<DeadLetter>,
    /// Whether the search ended before every letter was looked at; older ones may fit.
    pub cut: bool,
}

impl LetterSearch {
    /// Whether nothing narrows it but a status: who acts on such a one means every letter there is.
    pub fn is_empty(&self) -> bool {
        let anything = DeadLetterFilter::default();
        let limit = anything.limit;
        let narrow = DeadLetterFilter { status: None, behind: None, limit, ..self.filter.clone() };
        self.text.is_none() && narrow == anything
    }

    /// Finds them, at most as many as the filter's limit.
    pub async fn find(
        &self,
        store: &dyn OperatorStore,
        tenant: &Tenant,
        redact: Redact<'_>,
    ) -> Result<Found> {
        let Some(text) = self.text.as_ref().map(|text| text.to_lowercase()) else {
            return Ok(Found { letters: store.dead_letters(tenant, &self.filter).await?, cut: false });
        };
        let (mut letters, wanted) = (Vec::new(), self.filter.limit as usize);
        let take = |letter: DeadLetter| {
            if letters.len() == wanted {
                return ControlFlow::Break(());
            }
            letters.push(letter);
            ControlFlow::Continue(())
        };
        let cut = self.each(&text, store, tenant, redact, take).await?;
        Ok(Found { letters, cut })
    }

    /// Hands every letter that shows a text in lower case to `take`, the newest first, until it breaks off. Returns whether
    /// the search ended before every letter was looked at.
    pub(super) async fn each(
        &self,
        text: &str,
        store: &dyn OperatorStore,
        tenant: &Tenant,
        redact: Redact<'_>,
        mut take: impl FnMut(DeadLetter) -> ControlFlow<()> + Send,
    ) -> Result<bool> {
        let mut page = DeadLetterFilter { limit: PAGE, ..self.filter.clone() };
        for _ in 0..LOOKED_AT_MAX / PAGE {
            let letters = store.dead_letters(tenant, &page).await?;
            let Some(last) = letters.last() else { return Ok(false) };
            page.behind = Some(last.id);
            for letter in letters.into_iter().filter(|letter| shows(letter, text, redact)) {
                if take(letter).is_break() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

fn shows(letter: &DeadLetter, lowercase: &str, redact: Redact<'_>) -> bool {
    let DeadLetterView { path, detail, subject, message, .. } = DeadLetterView::whole(letter, redact);
    let MessageView { headers, payload, .. } = message.unwrap_or_default();
    let headers = headers.into_iter().flat_map(|(name, value)| [name, value]);
    let mut shown = path.into_iter().chain([detail, subject, payload]).chain(headers);
    shown.any(|text| text.to_lowercase().contains(lowercase))
}
