use std::future::ready;
use std::sync::Mutex;

use futures::FutureExt;
use retro_core::similarity::{Embedder, SimilarityScale};

use super::*;
use crate::EmbeddingSourceError;

/// Texts of a scope at one time.
struct Texts(Vec<String>);

impl ComparesTexts for Texts {
    fn texts_to_compare(&self) -> Vec<String> {
        self.0.clone()
    }
}

/// A scope with some texts, into which others insert a text while vectors are resolved.
#[derive(Default)]
struct Scope {
    texts: Mutex<Vec<String>>,
    /// Texts that are inserted, one by each call of the source.
    arriving: Mutex<Vec<String>>,
    /// Texts of each call of the source.
    embedded: Mutex<Vec<Vec<String>>>,
    stored: BTreeMap<String, Vec<i32>>,
    is_away: bool,
    collected: Mutex<u32>,
    /// Embedder of each attempt to decide, or `None` if it decided nothing.
    decided_by: Mutex<Vec<Option<String>>>,
}

#[async_trait]
impl EmbeddingSource for Scope {
    fn name(&self) -> &'static str {
        "neural@1"
    }

    fn scale(&self) -> SimilarityScale {
        SimilarityScale { contradiction: 500, tombstone: 600, merge: 700 }
    }

    async fn embed(&self, texts: &[String]) -> std::result::Result<Vec<Vec<i32>>, EmbeddingSourceError> {
        self.embedded.lock().unwrap().push(texts.to_vec());
        self.texts.lock().unwrap().extend(self.arriving.lock().unwrap().pop());
        if self.is_away {
            return Err(EmbeddingSourceError::Failed("it is away".to_owned()));
        }
        Ok(vec![vec![1]; texts.len()])
    }
}

#[async_trait]
impl StoredVectors for Scope {
    async fn load_vectors(&self, _: &str, texts: &[String]) -> Result<BTreeMap<String, Vec<i32>>> {
        let found = texts.iter().filter_map(|text| Some((text.clone(), self.stored.get(text)?.clone())));
        Ok(found.collect())
    }
}

impl Scope {
    fn with_texts(texts: &[&str]) -> Self {
        let texts = texts.iter().map(ToString::to_string).collect();
        Self { texts: Mutex::new(texts), ..Self::default() }
    }

    fn facts(&self) -> Texts {
        Texts(self.texts.lock().unwrap().clone())
    }

    /// Decides about the texts of the scope. Returns the vectors that the decision found, in the order of the
    /// texts.
    fn decide(&self, source: Option<&dyn EmbeddingSource>) -> Result<Vec<Option<Vec<i32>>>> {
        let collect = || {
            *self.collected.lock().unwrap() += 1;
            ready(Ok(Some(self.facts())))
        };
        let decide = |vectors: ResolvedVectors| async move {
            let facts = self.facts();
            let embedder = vectors.embedder_for(&facts);
            self.decided_by.lock().unwrap().push(embedder.ok().map(|embedder| embedder.name().to_owned()));
            let find_vectors =
                |embedder: &dyn Embedder| facts.0.iter().map(|text| embedder.embed(text)).collect::<Vec<_>>();
            Ok(embedder.map(find_vectors))
        };
        let resolver = VectorResolver::new(source, self);
        resolver.decide(collect, decide).now_or_never().expect("nothing waits")
    }

    fn embedded(&self) -> Vec<Vec<String>> {
        self.embedded.lock().unwrap().clone()
    }

    fn decided_by(&self) -> Vec<Option<String>> {
        self.decided_by.lock().unwrap().clone()
    }
}

fn neural() -> Option<String> {
    Some("neural@1".to_owned())
}

#[test]
fn stored_vectors_are_not_computed_again() {
    let mut scope = Scope::with_texts(&["new", "stored"]);
    scope.stored.insert("stored".to_owned(), vec![7]);
    assert_eq!(scope.decide(Some(&scope)).unwrap(), [Some(vec![1]), Some(vec![7])]);
    assert_eq!((scope.embedded(), scope.decided_by()), (vec![vec!["new".to_owned()]], vec![neural()]));
    assert_eq!(*scope.collected.lock().unwrap(), 1);
}

#[test]
fn the_built_in_embedder_needs_no_collection() {
    let scope = Scope::with_texts(&["a"]);
    assert!(scope.decide(None).unwrap()[0].is_some());
    assert_eq!((*scope.collected.lock().unwrap(), scope.embedded()), (0, vec![]));
}

#[test]
fn a_scope_that_changes_is_collected_again_and_only_its_new_text_is_resolved() {
    let scope = Scope::with_texts(&["a"]);
    scope.arriving.lock().unwrap().push("b".to_owned());
    assert_eq!(scope.decide(Some(&scope)).unwrap(), [Some(vec![1]), Some(vec![1])]);
    assert_eq!(scope.embedded(), [["a".to_owned()], ["b".to_owned()]]);
    assert_eq!((*scope.collected.lock().unwrap(), scope.decided_by()), (2, vec![None, neural()]));
}

#[test]
fn a_scope_that_changes_in_every_attempt_is_not_decided_at_all() {
    let scope = Scope::with_texts(&["a"]);
    scope.arriving.lock().unwrap().extend(["b", "c", "d", "e"].map(str::to_owned));
    let undecided = scope.decide(Some(&scope)).unwrap_err();
    assert!(matches!(undecided, StoreError::Undecided { attempts: 3 }), "{undecided}");
    assert_eq!((*scope.collected.lock().unwrap(), scope.decided_by()), (3, vec![None, None, None]));
}

#[test]
fn texts_of_an_unavailable_source_are_known_to_have_no_vector() {
    let scope = Scope { is_away: true, ..Scope::with_texts(&["a"]) };
    scope.arriving.lock().unwrap().push("b".to_owned());
    assert_eq!(scope.decide(Some(&scope)).unwrap(), [None, None], "the built-in embedder compares them");
    assert_eq!(scope.embedded(), [["a".to_owned()], ["b".to_owned()]], "no text is sent twice");
    assert_eq!(scope.decided_by(), [None, neural()]);
}

#[test]
fn a_source_embeds_a_limited_number_of_texts_the_first_ones_in_a_call_of_their_own() {
    let texts: Vec<String> = (0..TEXTS_EMBEDDED_MAX + 2).map(|nth| nth.to_string()).collect();
    let scope = Scope { texts: Mutex::new(texts.clone()), ..Scope::default() };
    let vectors = scope.decide(Some(&scope)).unwrap();
    let (first, rest) = texts[..TEXTS_EMBEDDED_MAX].split_at(TEXTS_PER_FIRST_CALL);
    let calls: Vec<&[String]> = std::iter::once(first).chain(rest.chunks(TEXTS_PER_CALL)).collect();
    assert_eq!(scope.embedded(), calls);
    assert_eq!(vectors.iter().filter(|vector| vector.is_none()).count(), 2);
    assert_eq!(scope.decided_by(), [neural()]);
}

#[test]
fn facts_that_cannot_change_are_resolved_once() {
    let scope = Scope::with_texts(&["a"]);
    let facts = Texts(vec!["a".to_owned()]);
    let resolver = VectorResolver::new(Some(&scope), &scope);
    let vectors = resolver.resolve(&facts).now_or_never().expect("nothing waits").unwrap();
    assert_eq!(vectors.embedder_for(&facts).map(|embedder| embedder.embed("a")), Ok(Some(vec![1])));
}
