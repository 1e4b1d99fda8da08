//! Dead letters: one file for each command of an operator, with its operation and its HTTP routes.
//!
//! | Command | File | Operation |
//! |---|---|---|
//! | list, search | `list`, `search` | [`DeadLetterSearch::find_matches`] |
//! | stats | `stats` | [`DeadLetterSearch::compute_stats`] |
//! | show | `show` | [`find_dead_letter_detail`] |
//! | edit | `edit` | [`EditService::edit`] |
//! | show the exact bytes | `raw` | [`EditService::read_raw`] |
//! | export | `export` | [`EditService::start_export`] |
//! | replay one, or many as a batch | `replay` | [`ReplayService::replay_one`], [`ReplayService::start_batch`] |
//! | dry run of a replay | `dry_run` | [`ReplayService::dry_run`] |
//! | list, show, cancel batches | `batch` | [`ReplayService::cancel_batch`] |
//! | discard one or many | `discard` | [`ReplayService::discard_one`], [`ReplayService::discard_many`] |
//!
//! Everything is shown with secrets redacted, except by `raw` and by an export of exact bytes. The stored
//! messages do not change.

mod batch;
mod describe_replay;
mod discard;
mod dry_run;
mod edit;
mod export;
mod list;
mod message;
mod raw;
mod replay;
mod replay_service;
mod runbooks;
mod search;
mod selection;
mod show;
mod stats;
mod view;

use retro_http::{Api, RouteAccess};
use utoipa_axum::routes;

use crate::http::ApiState;

pub use batch::{CancelBatchPrediction, render_batch, render_batches, render_progress};
pub use describe_replay::describe_replay;
pub use dry_run::{DryRunResult, PredictedEffect, Prediction};
pub use edit::{Edit, EditError, EditService, EditedVersion, SetFieldError};
pub use export::{DeadLetterExport, EXPORT_DEFAULT, EXPORT_MAX};
pub use list::render_dead_letters;
pub use message::MessageView;
pub use raw::RawDeadLetter;
pub use replay::BatchStarted;
pub use replay_service::{ActionResult, ReplayError, ReplayService};
pub use runbooks::runbook;
pub use search::{DeadLetterSearch, SearchResult};
pub use selection::DeadLetterSelection;
pub use show::{AttemptView, DeadLetterDetail, VersionView, find_dead_letter_detail};
#[cfg(test)]
pub(crate) use stats::single_count;
pub use stats::{DeadLetterGroup, DeadLetterStats};
pub use view::{DeadLetterView, DeadLetterWithMessage};

/// Adds the routes that list, group and show dead letters.
pub(crate) fn add_read_routes(api: Api<ApiState>) -> Api<ApiState> {
    api.routes(routes!(list::list_dead_letters))
        .routes(routes!(stats::get_dead_letter_stats))
        .routes(routes!(show::get_dead_letter))
}

/// Returns the routes for edits, exact bytes and exports, under `/v1`. Merge them with other routes and pass
/// them to [`retro_http::HttpServer`].
pub fn edit_router(service: EditService) -> Api {
    edit_routes().with_state(service)
}

/// Returns the routes of [`edit_router`] without their state, for the OpenAPI description.
pub(crate) fn edit_routes() -> Api<EditService> {
    Api::new()
        .routes(routes!(edit::create_version))
        .routes(routes!(raw::read_raw))
        .routes(routes!(export::export_dead_letters, export::export_raw))
        .allow(RouteAccess::People)
}

/// Returns the routes that replay and discard dead letters, under `/v1`. Merge them with other routes and
/// pass them to [`retro_http::HttpServer`].
pub fn replay_router(service: ReplayService) -> Api {
    replay_routes().with_state(service)
}

/// Returns the routes of [`replay_router`] without their state, for the OpenAPI description.
pub(crate) fn replay_routes() -> Api<ReplayService> {
    Api::new()
        .routes(routes!(replay::replay_dead_letter))
        .routes(routes!(replay::replay_dead_letters))
        .routes(routes!(discard::discard_dead_letter))
        .routes(routes!(discard::discard_dead_letters))
        .routes(routes!(batch::list_batches))
        .routes(routes!(batch::get_batch))
        .routes(routes!(batch::cancel_batch))
        .allow(RouteAccess::People)
}

#[cfg(test)]
pub(crate) mod tests;
