//! Many letters as JSON lines, page by page: redacted, or exact for whoever sends them elsewhere.

use retro_core::id::Tenant;
use retro_core::steer::{Act, ActError};
use retro_store::{Content, DeadLetter, Deed, StoreError};
use serde::Serialize;
use serde_json::json;

use super::{DeadLetterView, ExactLetter, LetterSearch, Mending};

/// Letters that are exported when nothing is said.
pub const EXPORT_DEFAULT: u32 = 10_000;
/// Letters that are exported at once at most: an hour of a very bad day. The next ones begin behind the last.
pub const EXPORT_MAX: u32 = 100_000;
/// Letters read at once; each may be as large as a message.
const PAGE: u32 = 20;

/// An export under way.
pub struct Export {
    mending: Mending,
    tenant: Tenant,
    search: LetterSearch,
    /// Who wants exact bytes, and why.
    exact_for: Option<Act>,
    left: u32,
}

impl Mending {
    /// Begins an export of what is searched, at most as many as its filter's limit; exact ones for whoever says why.
    pub fn export(
        &self,
        tenant: &Tenant,
        search: LetterSearch,
        exact_for: Option<(&str, &str)>,
    ) -> Result<Export, ActError> {
        let exact_for = exact_for.map(|(by, reason)| Act::new(by, reason, self.clock.now())).transpose()?;
        let left = search.filter.limit.min(EXPORT_MAX);
        Ok(Export { mending: self.clone(), tenant: tenant.clone(), search, exact_for, left })
    }
}

impl Export {
    /// The next lines; `None` when there are no more. What is exact is written down before it is handed out.
    pub async fn next_page(&mut self) -> Result<Option<String>, StoreError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.search.filter.limit = self.left.min(PAGE);
        let Mending { store, redact, .. } = &self.mending;
        let found = self.search.find(&**store, &self.tenant, &**redact).await?;
        let Some(last) = found.letters.last() else {
            self.left = 0;
            return Ok(found.cut.then(cut));
        };
        self.search.filter.behind = Some(last.id);
        self.left -= u32::try_from(found.letters.len()).unwrap_or(self.left).min(self.left);
        if let Some(act) = &self.exact_for {
            let ids: Vec<_> = found.letters.iter().map(|letter| letter.id.0).collect();
            store.note(&self.tenant, &ids, Deed::Exported, act, Some("exact bytes")).await?;
        }
        Ok(Some(found.letters.into_iter().map(|letter| self.line(letter)).collect()))
    }

    fn line(&self, letter: DeadLetter) -> String {
        if self.exact_for.is_none() {
            return line(&DeadLetterView::whole(&letter, &*self.mending.redact));
        }
        let (headers, payload) = (letter.letter.headers.clone(), letter.letter.payload.clone());
        line(&ExactLetter::of(letter, 0, Content { headers, payload }))
    }
}

fn line(of: &impl Serialize) -> String {
    format!("{}\n", serde_json::to_string(of).expect("plain data"))
}

/// The last line where a text was searched in more letters than one search looks at.
fn cut() -> String {
    line(
        &json!({"cut": true, "detail": "older letters were not looked at: narrow the search, or go on with `until`"}),
    )
}
