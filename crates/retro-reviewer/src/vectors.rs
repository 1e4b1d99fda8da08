//! The vectors by which requests are compared: of the source that is configured, remembered by this process.
//!
//! A pull request is decided again whenever somebody says more, and beside the same requests of others. They are no memories, so
//! nobody keeps their vectors in the database; this process remembers some and asks for the others again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::similar::Rounds;
use retro_store::review::OTHERS_MAX;
use retro_store::{TEXTS_PER_ROUND_MAX, VectorSource, made};

/// Texts that are remembered: what a few repositories compare with. Of the longest vectors they take 32 MB.
const REMEMBERED_MAX: usize = 4 * OTHERS_MAX as usize;

pub(crate) struct Vectors {
    source: Option<Arc<dyn VectorSource>>,
    remembered: Mutex<BTreeMap<String, Vec<i32>>>,
}

impl Vectors {
    /// Of a source, or of the built-in embedder.
    pub(crate) fn of(source: Option<Arc<dyn VectorSource>>) -> Self {
        Self { source, remembered: Mutex::default() }
    }

    /// The rounds of one decision.
    pub(crate) fn rounds(&self) -> Rounds {
        let of = |source: &Arc<dyn VectorSource>| Rounds::of(source.name(), source.scale());
        self.source.as_ref().map_or_else(Rounds::built_in, of)
    }

    /// The vectors of these texts, as far as they are to be had. Never fails: what is missing is compared by the built-in embedder.
    pub(crate) async fn get(&self, texts: &[String]) -> BTreeMap<String, Vec<i32>> {
        let Some(source) = &self.source else { return BTreeMap::new() };
        let mut found: BTreeMap<_, _> = {
            let remembered = self.remembered();
            texts.iter().filter_map(|text| Some((text.clone(), remembered.get(text)?.clone()))).collect()
        };
        let mut unknown: Vec<_> = texts.iter().filter(|text| !found.contains_key(*text)).cloned().collect();
        unknown.truncate(TEXTS_PER_ROUND_MAX);
        let made = made(&**source, unknown).await.unwrap_or_default();
        let mut remembered = self.remembered();
        if remembered.len() + made.len() > REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.extend(made.clone());
        found.extend(made);
        found
    }

    fn remembered(&self) -> MutexGuard<'_, BTreeMap<String, Vec<i32>>> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
