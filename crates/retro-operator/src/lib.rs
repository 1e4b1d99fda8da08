#![doc = include_str!("../README.md")]

pub mod report;

mod dead_letters;
mod effect;
mod export;
mod grid;
mod http;
pub mod lists;
mod memory;
mod outcomes;
mod proposals;
mod replay;
mod requests;
pub mod reviews;
mod steer;
mod verify;
mod why;
mod words;

#[cfg(test)]
mod world;

pub use dead_letters::{
    AttemptView, DeadLetterView, EXPORT_DEFAULT, EXPORT_MAX, Edit, ExactLetter, Export, Found, LetterGroup,
    LetterPage, LetterSearch, LetterStats, MendError, Mended, Mending, MessageView, Redact, SetError,
    dead_letters, letter_acts, mend_router, page as letter_page, runbook,
};
pub use effect::{Effect, WithEffect, memory_effect, memory_with_effect, why_with_effect};
pub use export::export_canonical;
pub use grid::{COLUMNS_WITHOUT_TERMINAL, terminal_columns};
pub use http::{LIST_DEFAULT, LIST_MAX, SharedRedact, description, router};
pub use memory::memory;
pub use outcomes::outcomes;
pub use proposals::{proposal, proposals};
pub use replay::{
    Chosen, Foreseen, Foresight, LetterTold, ReplayError, Replays, Started, Will, batch, batches, came_of,
    progress, replay_router,
};
pub use requests::{DecisionOutcome, Requests, router as requests_router};
pub use steer::{Acted, Did, SteerError, Steering, Told, acts, steer_router};
pub use verify::{Check, Checked, LOOKS_MAX, VIOLATIONS_MAX, Verification, Violation, verify};
pub use why::{Event, Standing, Why};
