//! Conformance suite that every implementation of the ports must pass.
//!
//! Each case is a function whose name states the checked rule. A case gets a fresh, migrated database with
//! two handles, as two processes would have. A database runs all cases with three lines in a module of a test:
//!
//! ```text
//! async fn open() -> (retro_store::conformance::Database, Guard) { /* a fresh database and its guard */ }
//! retro_store::conformance!(crate::sqlite::conformance::open);
//! ```
//!
//! The cases call the core's own decisions, so they store the same rows as a running program.

mod cases;
mod scenario;

pub mod access;
pub mod audit;
pub mod broker;
pub mod cancel;
pub mod close;
pub mod collected_traces;
pub mod context_lease;
pub mod count;
pub mod dead_letter;
pub mod decide;
pub mod delivery;
pub mod embeddings;
pub mod feedback;
pub mod idempotency;
pub mod inspect;
pub mod investigate;
pub mod kill_switch;
pub mod manual;
pub mod metrics;
pub mod model_calls;
pub mod operator;
pub mod outcomes;
pub mod pipelines;
pub mod prompts;
pub mod recall;
pub mod replay;
pub mod retention;
pub mod review;
pub mod review_calls;
pub mod rule_additions;
pub mod rules;
pub mod sample;
pub mod samples;
pub mod stream_order;
pub mod summaries;
pub mod tenants;
pub mod trace;
pub mod track;
pub mod verify;
pub mod workflow_brief;
pub mod write;

use std::sync::Arc;

use crate::Store;

/// Fresh, migrated database with two independent handles, as two processes would have.
pub struct Database {
    /// Handle of the first simulated process.
    pub one: Arc<dyn Store>,
    /// Handle of the second simulated process.
    pub two: Arc<dyn Store>,
}
