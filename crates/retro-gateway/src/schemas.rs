//! OpenAPI schemas of types of `retro_core`, which does not depend on OpenAPI. The tests of the program check real
//! answers against these schemas.
#![expect(dead_code, reason = "only its schema is used")]

use utoipa::ToSchema;

/// A memory selected for a run.
#[derive(ToSchema)]
pub(crate) struct Recalled {
    /// Id of the memory.
    id: String,
    /// Weight of the memory, in thousandths.
    #[schema(maximum = 1000)]
    weight: u16,
    /// Lesson in one line.
    title: String,
    /// `true` if the memory was selected for a place that is reserved for the memories presented least.
    newcomer: bool,
}

/// Quote that shows the lesson of a memory, and the run from which it was taken.
#[derive(ToSchema)]
pub(crate) struct Evidence {
    /// Id of the run; for a rule, the name of the pull request.
    run: String,
    /// Epoch of the retrospective that investigated the run; absent if no retrospective did.
    epoch: Option<u64>,
    /// Quote that shows the lesson.
    quote: Quote,
}

/// A verbatim quote, and the place from which it was taken.
#[derive(ToSchema)]
pub(crate) struct Quote {
    /// Place from which the quote was taken.
    #[schema(value_type = Object)]
    place: (),
    /// Quoted text, verbatim.
    text: String,
}
