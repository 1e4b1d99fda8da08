//! OpenAPI schemas of types of `retro_core`, which does not depend on OpenAPI. The tests of the program check real
//! answers against them.
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
    /// The memory was selected for a place reserved for memories that were presented least.
    newcomer: bool,
}

/// Quote from a run in which a memory was observed.
#[derive(ToSchema)]
pub(crate) struct Evidence {
    /// Id of the run.
    run: String,
    /// Epoch of the retrospective that investigated the run.
    epoch: Option<u64>,
    /// Quote from the run's trace.
    quote: Quote,
}

/// A verbatim quote from a trace.
#[derive(ToSchema)]
pub(crate) struct Quote {
    /// Position in the trace.
    #[schema(value_type = Object)]
    place: (),
    /// Quoted text, verbatim.
    text: String,
}
