//! Defines the HTTP route `POST /v1/transcripts`: runs in the formats that `retro emit` reads from files.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use retro_core::id::{Tenant, Workflow};
use retro_core::run::RunOutcome;
use retro_events::envelope::EVENT_BYTES_MAX;
use retro_events::{field, subject};
use retro_http::{Api, Caller, IdempotencyKey, IdempotentRequest, Problem, QueryParams, RouteAccess};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::routes;

use super::answer::{EventsAnswer, EventsRefused};
use super::http::{answer_events, begin_request_span, receive_body};
use super::importer::ImportFacts;
use super::{IngestError, IngestService};

/// Returns the route that accepts files of runs.
pub(super) fn transcript_routes() -> Api<IngestService> {
    Api::new().routes(routes!(transcripts)).allow(RouteAccess::Emit)
}

/// Facts of the runs that their file may lack.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct TranscriptFacts {
    /// Workflow of the runs, instead of one derived from the file.
    #[param(value_type = Option<String>)]
    workflow: Option<Workflow>,
    /// Outcome of runs whose file states none: success, failure, error, timeout, cancellation or skip.
    #[param(value_type = Option<String>)]
    outcome: Option<RunOutcome>,
    /// Task of runs whose file names none, at most 1024 bytes.
    task: Option<String>,
}

/// Accepts a file of finished runs as `retro emit` reads it: a transcript of Claude Code or Codex CLI, chat messages, ATIF,
/// traces of OpenTelemetry and others; the format is recognized. Responds once the broker has stored the runs on disk.
/// Sending a file again is harmless, because the same file gives the same events and a run is counted once.
#[utoipa::path(post, path = "/v1/transcripts", tag = "engines",
    request_body(content = String, description = "the file, up to 17 MiB, of any content type"),
    params(TranscriptFacts, ("Idempotency-Key" = Option<String>, Header, description = "key of the request; the same key and content get the same answer for a day")),
    responses(
        (status = 202, body = EventsAnswer, description = "all runs accepted"),
        (status = 207, body = EventsAnswer, description = "part of the runs accepted, the others listed by their index in the file"),
        (status = 422, body = EventsRefused, content_type = "application/problem+json", description = "nothing accepted"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "a request with this key is in progress"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "the tenant or the process holds too many bytes"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "the broker is full, unavailable, or did not confirm"),
    ))]
async fn transcripts(
    State(service): State<IngestService>,
    Caller(tenant): Caller,
    QueryParams(facts): QueryParams<TranscriptFacts>,
    key: IdempotencyKey,
    request: Request,
) -> Response {
    let TranscriptFacts { workflow, outcome, task } = facts;
    if let Some(problem) = task.as_deref().and_then(check_task) {
        return problem.into_response();
    }
    let facts = ImportFacts { workflow, outcome, task };
    let request_span = begin_request_span("/v1/transcripts", request.headers());
    let (file, held) = match receive_body(&service, &tenant, request).await {
        Ok(received) => received,
        Err(problem) => return problem.into_response(),
    };
    let fingerprint = format!("{facts:?}");
    let idempotency = service.idempotency.clone();
    let work = {
        let (tenant, file) = (tenant.clone(), file.clone());
        let send_span =
            request_span.in_scope(|| retro_telemetry::trace::start_send_event_span(subject::RUN_COMPLETED));
        async move {
            let _held = held;
            answer_events(send_span.instrument(service.ingest_transcript(&tenant, &file, &facts)).await)
        }
    };
    let keyed_request = IdempotentRequest {
        tenant: &tenant,
        route: "POST /v1/transcripts",
        key,
        content: &[fingerprint.as_bytes(), &file],
    };
    let response = idempotency.run_once(keyed_request, work).await;
    request_span.set_attribute("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

fn check_task(task: &str) -> Option<Problem> {
    let fits = (1..=field::SHORT_TEXT_BYTES_MAX).contains(&task.len()) && !task.chars().any(char::is_control);
    let detail = || format!("expected 1 to {} bytes without control characters", field::SHORT_TEXT_BYTES_MAX);
    (!fits).then(|| Problem::invalid_field("task", detail()))
}

impl IngestService {
    /// Accepts the runs of a file in any supported format.
    async fn ingest_transcript(
        &self,
        tenant: &Tenant,
        file: &Bytes,
        facts: &ImportFacts,
    ) -> Result<EventsAnswer, IngestError> {
        let read =
            |importer: &dyn super::RunImporter| importer.import_transcript(file, EVENT_BYTES_MAX, facts);
        let runs = self.import(read).await?;
        self.ingest_runs(tenant, runs).await
    }
}
