//! Puts the routes that accept finished runs together.

use retro_http::Api;

use super::IngestService;
use super::{http, traces, transcripts};

/// Returns the routes that accept finished runs.
pub(crate) fn ingest_routes() -> Api<IngestService> {
    http::event_routes().merge(transcripts::transcript_routes()).merge(traces::trace_routes())
}
