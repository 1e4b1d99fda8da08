//! The trait that embedders implement.

use super::scale::SimilarityScale;

/// Turns text into vectors. The name of an embedder includes a version, because vectors and scale are valid
/// for one version only.
pub trait Embedder: Send + Sync {
    /// Returns the name with the version, such as `ngram-2`.
    fn name(&self) -> &str;
    /// Returns the scale that maps the cosines of this embedder to the common scale.
    fn scale(&self) -> SimilarityScale;
    /// Returns the vector of a text, or `None` if the embedder has no vector for it now. All vectors of one
    /// embedder have the same length, at most [`COMPONENTS_MAX`], and no component exceeds [`COMPONENT_MAX`]
    /// in absolute value.
    ///
    /// [`COMPONENTS_MAX`]: super::COMPONENTS_MAX
    /// [`COMPONENT_MAX`]: super::COMPONENT_MAX
    fn embed(&self, text: &str) -> Option<Vec<i32>>;
}
