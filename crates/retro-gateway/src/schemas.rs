//! Defines OpenAPI schemas for types of `retro_core`, which does not depend on OpenAPI. The program's tests
//! check real responses against these schemas.
#![expect(dead_code, reason = "only its schema is used")]

use utoipa::ToSchema;

/// A memory selected for a run.
#[derive(ToSchema)]
pub(crate) struct Recalled {
    /// Memory id.
    id: String,
    /// Weight of the memory, from 0 to 1,000 thousandths.
    #[schema(maximum = 1000)]
    weight: u16,
    /// One-line summary of the lesson.
    title: String,
    /// `true` if the memory was selected for a place reserved for the least presented memories.
    newcomer: bool,
}

/// A quote that supports a memory, and the run that it comes from.
#[derive(ToSchema)]
pub(crate) struct Evidence {
    /// Id of the run; for a rule, the name of the pull request.
    run: String,
    /// Epoch of the retrospective that investigated the run; absent if none did.
    epoch: Option<u64>,
    /// Quote that supports the memory.
    quote: Quote,
}

/// A verbatim quote and its location.
#[derive(ToSchema)]
pub(crate) struct Quote {
    /// Location of the quote in the run.
    #[schema(value_type = Object)]
    place: (),
    /// Quoted text, verbatim.
    text: String,
}
