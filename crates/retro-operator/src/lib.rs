#![doc = include_str!("../README.md")]

pub mod report;

mod cancel;
mod dead_letters;
mod effect;
mod export;
mod history;
mod http;
pub mod lists;
mod memory;
mod outcomes;
mod proposals;
mod replay;
mod requests;
pub mod reviews;
mod text;
mod text_table;
mod verify;

#[cfg(test)]
mod world;

pub use cancel::{
    ActionStatus, CancelAnswer, CancelError, CancelService, WithAuditLog, cancel_router, render_audit_log,
};
pub use dead_letters::{
    AttemptView, DeadLetterDetail, DeadLetterExport, DeadLetterGroup, DeadLetterSearch, DeadLetterStats,
    DeadLetterView, EXPORT_DEFAULT, EXPORT_MAX, Edit, EditError, EditService, EditedVersion, MessageView,
    RawDeadLetter, RedactFn, SearchResult, SetFieldError, edit_router, find_dead_letter_detail,
    redact_audit_log, render_dead_letters, runbook,
};
pub use effect::{
    MemoryEffectView, WithEffect, find_history_with_effect, find_memory_effect, memory_with_effect,
};
pub use export::export_canonical;
pub use history::{HistoryEntry, MemoryHistory, MemoryState};
pub use http::{LIST_DEFAULT, LIST_MAX, SharedRedactFn, api_description, router};
pub use memory::render_memory;
pub use outcomes::summarize_outcomes;
pub use proposals::{render_proposal, render_proposals};
pub use replay::{
    ActionResult, BatchStarted, DeadLetterSelection, DryRunResult, PredictedEffect, Prediction, ReplayError,
    ReplayService, describe_replay, render_batch, render_batches, render_progress, replay_router,
};
pub use requests::{DecisionOutcome, ManualRequests, router as requests_router};
pub use text_table::{COLUMNS_WITHOUT_TERMINAL, terminal_columns};
pub use verify::{
    CHECK_ROUNDS_MAX, Check, CheckedCounts, VIOLATIONS_MAX, Verification, Violation, verify_store,
};
