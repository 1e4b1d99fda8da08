#![doc = include_str!("../README.md")]

pub mod report;

mod audit_log;
mod calls;
mod cancel;
mod command;
mod dead_letters;
mod document;
mod effect;
mod export;
mod feedback;
mod history;
mod html;
mod http;
mod kill_switches;
pub mod lists;
mod markdown;
mod memory;
mod memory_commands;
mod outcomes;
mod pipelines;
mod proposals;
mod redact;
mod requests;
mod retrospectives;
pub mod reviews;
mod rule_commands;
mod runs;
mod saved_quotes;
mod text;
mod text_table;
mod tokens;
mod usage;
mod verify;

#[cfg(test)]
mod world;

pub use audit_log::render_audit_log;
pub use calls::{
    CountedWindow, ExplainedFailure, MissedFailures, NewestRuns, RecentRuns, STATISTICS_RUNS_DEFAULT,
    STATISTICS_RUNS_MAX, UnreadableReason, WorkflowStatistics, find_missed_failures,
    find_workflow_statistics,
};
pub use cancel::{CancelAnswer, CancelError, CancelService, cancel_router};
pub use command::ActionStatus;
pub use dead_letters::{
    ActionResult, AttemptView, BatchStarted, CancelBatchPrediction, DeadLetterDetail, DeadLetterExport,
    DeadLetterGroup, DeadLetterSearch, DeadLetterSelection, DeadLetterStats, DeadLetterView,
    DeadLetterWithMessage, DryRunResult, EXPORT_DEFAULT, EXPORT_MAX, Edit, EditError, EditService,
    EditedVersion, MessageView, PredictedEffect, Prediction, RawDeadLetter, ReplayError, ReplayService,
    SearchResult, SetFieldError, VersionView, describe_replay, edit_router, find_dead_letter_detail,
    render_batch, render_batches, render_dead_letters, render_progress, replay_router, runbook,
};
pub use effect::{MemoryEffectView, find_history_with_effect, find_memory_effect, memory_with_effect};
pub use export::export_canonical;
pub use history::{HistoryEntry, MemoryHistory, MemoryState};
pub use http::{LIST_DEFAULT, LIST_MAX, api_description, router};
pub use kill_switches::{
    KillSwitchAnswer, KillSwitchError, KillSwitchService, KillSwitchState, kill_switch_router,
    render_kill_switches,
};
pub use markdown::render_shown;
pub use memory::{MemoryWithEffect, render_memory};
pub use memory_commands::{
    MemoryCommand, MemoryCommandError, MemoryCommandOutcome, MemoryCommands, router as memory_commands_router,
};
pub use outcomes::prompts::{PROMPT_RUNS_DEFAULT, PROMPT_RUNS_MAX, PromptVersions, find_prompt_versions};
pub use outcomes::summarize_outcomes;
pub use pipelines::{PipelineVersions, describe_pipeline_quality, pipeline_router};
pub use proposals::{render_proposal, render_proposals};
pub use redact::{RedactFn, SharedRedactFn};
pub use requests::{DecisionOutcome, ManualRequests, router as requests_router};
pub use retrospectives::{RetrospectiveView, find_retrospective_view};
pub use rule_commands::{RuleAdditionOutcome, RuleCommands, router as rule_commands_router};
pub use runs::{RUN_TURNS_DEFAULT, RUN_TURNS_MAX, RunPages, RunView, UnresolvedRun, find_run_view};
pub use text_table::{COLUMNS_WITHOUT_TERMINAL, Layout, terminal_columns};
pub use tokens::{TokenState, TokenView, render_tokens};
pub use usage::{MemoryRow, load_memory_rows};
pub use verify::{
    CHECK_ROUNDS_MAX, Check, CheckedCounts, VIOLATIONS_MAX, Verification, Violation, verify_store,
};
