//! Types of the core as the OpenAPI document describes them: the core knows no such document. Real answers are held
//! against this in the tests of the program.
#![expect(dead_code, reason = "only its description is used")]

use utoipa::ToSchema;

/// A memory that a run is handed.
#[derive(ToSchema)]
pub(crate) struct Recalled {
    /// The memory.
    id: String,
    /// Its weight, thousandths.
    #[schema(maximum = 1000)]
    weight: u16,
    /// Its one line.
    title: String,
    /// Whether it got a newcomer's place.
    newcomer: bool,
}

/// Words of a run that show a memory.
#[derive(ToSchema)]
pub(crate) struct Evidence {
    /// The run.
    run: String,
    /// The epoch of the retrospective that looked at it.
    epoch: Option<u64>,
    /// The words.
    quote: Quote,
}

/// Words of a trace.
#[derive(ToSchema)]
pub(crate) struct Quote {
    /// Where they stand.
    #[schema(value_type = Object)]
    place: (),
    /// The words, verbatim.
    text: String,
}
