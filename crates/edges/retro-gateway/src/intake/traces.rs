//! Defines the HTTP route `POST /v1/traces`: runs as OTLP traces, as exporters and collectors send them.
//!
//! Nothing of a trace is kept between two requests, so only a request with a whole trace gives a run. Exporters in an agent
//! send spans in batches while it works; a collector puts them together (`groupbytrace`). Spans of a trace that came in
//! parts are refused with the reason, as OTLP has it for a partial success, and so is what comes of it later: the last part,
//! with the root, would look like a whole trace. For that the ids of such traces are remembered, by each process.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;
use retro_core::id::Tenant;
use retro_events::envelope::EVENT_BYTES_MAX;
use retro_events::subject;
use retro_http::{Api, Caller, IdempotencyKey, IdempotentRequest, Problem, RouteAccess, is_json, media_type};
use serde_json::json;
use utoipa_axum::routes;

use super::http::{begin_request_span, error_response, receive_body, unsupported_body};
use super::{EventsAnswer, IngestError, IngestService};

const PROTOBUF_MEDIA_TYPE: &str = "application/x-protobuf";
/// Number of traces that a refusal names.
const NAMED_MAX: usize = 5;

/// What a request with traces came to.
struct TracesAnswer {
    rejected_spans: usize,
    /// Why spans were rejected; empty if none were.
    reason: String,
}

/// Returns the route that accepts traces.
pub(super) fn trace_routes() -> Api<IngestService> {
    Api::new().routes(routes!(traces)).allow(RouteAccess::Emit)
}

/// Accepts finished runs as traces of OpenTelemetry (OTLP over HTTP), each whole in one request. Responds once the broker
/// has stored the runs on disk. Traces without a model, agent or tool are ignored. Spans of a trace that is not whole are
/// rejected in a partial success. Sending a trace again is harmless, because a run is counted once.
#[utoipa::path(post, path = "/v1/traces", tag = "engines",
    request_body(content(
        (Object = "application/json"),
        (String = "application/x-protobuf"),
    ), description = "an ExportTraceServiceRequest, up to 17 MiB"),
    params(("Idempotency-Key" = Option<String>, Header, description = "key of the request; the same key and content get the same answer for a day")),
    responses(
        (status = 200, description = "an ExportTraceServiceResponse in the encoding of the request; `partialSuccess` says how many spans were rejected, and why"),
        (status = 422, body = Problem, content_type = "application/problem+json", description = "nothing accepted"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "a request with this key is in progress"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "the tenant or the process holds too many bytes"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "the broker is full, unavailable, or did not confirm"),
    ))]
async fn traces(
    State(service): State<IngestService>,
    Caller(tenant): Caller,
    key: IdempotencyKey,
    request: Request,
) -> Response {
    let headers = request.headers();
    let request_span = begin_request_span("/v1/traces", headers);
    let is_protobuf = media_type(headers) == PROTOBUF_MEDIA_TYPE;
    if !is_protobuf && !is_json(headers) {
        return unsupported_body("send OTLP traces as application/x-protobuf or application/json")
            .into_response();
    }
    let (body, held) = match receive_body(&service, &tenant, request).await {
        Ok(received) => received,
        Err(problem) => return problem.into_response(),
    };
    let idempotency = service.idempotency.clone();
    let work = {
        let (tenant, body) = (tenant.clone(), body.clone());
        let send_span =
            request_span.in_scope(|| retro_telemetry::trace::start_send_event_span(subject::RUN_COMPLETED));
        async move {
            let _held = held;
            match send_span.instrument(service.ingest_traces(&tenant, &body, is_protobuf)).await {
                Ok(answer) => answer.into_response(is_protobuf),
                Err(error) => error_response(error),
            }
        }
    };
    let kind: &[u8] = if is_protobuf { b"protobuf" } else { b"json" };
    let keyed_request =
        IdempotentRequest { tenant: &tenant, route: "POST /v1/traces", key, content: &[kind, &body] };
    let response = idempotency.run_once(keyed_request, work).await;
    request_span.set_attribute("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

impl IngestService {
    /// Accepts the whole traces of a request.
    async fn ingest_traces(
        &self,
        tenant: &Tenant,
        body: &Bytes,
        is_protobuf: bool,
    ) -> Result<TracesAnswer, IngestError> {
        let read =
            |importer: &dyn super::RunImporter| importer.import_traces(body, is_protobuf, EVENT_BYTES_MAX);
        let (mut runs, mut spans_of_runs, mut incomplete) = (Vec::new(), Vec::new(), Vec::new());
        let mut rejected_spans = 0;
        for trace in self.import(read).await? {
            match trace.run.filter(|_| !self.incomplete.contains(tenant, &trace.trace_id)) {
                Some(run) => {
                    runs.push((format!("trace {}", trace.trace_id), run));
                    spans_of_runs.push(trace.spans);
                }
                None => {
                    self.incomplete.insert(tenant, &trace.trace_id);
                    rejected_spans += trace.spans;
                    incomplete.push(trace.trace_id);
                }
            }
        }
        let answer = self.ingest_runs(tenant, runs).await?;
        rejected_spans += answer.refused.iter().map(|refused| spans_of_runs[refused.index]).sum::<usize>();
        Ok(TracesAnswer { rejected_spans, reason: explain(&incomplete, &answer) })
    }
}

/// Explains why spans were rejected.
fn explain(incomplete: &[String], answer: &EventsAnswer) -> String {
    let mut reasons = Vec::new();
    if !incomplete.is_empty() {
        let named = incomplete.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        reasons.push(format!(
            "{} traces did not come whole in one request, with their root and its end, and are not read ({named}): put \
             spans together by trace before sending them, as the collector's groupbytrace processor does",
            incomplete.len()
        ));
    }
    reasons.extend(
        answer
            .refused
            .iter()
            .take(NAMED_MAX)
            .map(|refused| format!("{}: {} ({})", refused.path, refused.detail, refused.code.as_str())),
    );
    reasons.join("; ")
}

impl TracesAnswer {
    /// Returns the response of OTLP in this encoding. Without rejected spans it is an empty message.
    fn into_response(self, is_protobuf: bool) -> Response {
        let is_partial = self.rejected_spans > 0;
        if is_protobuf {
            let partial_success = is_partial.then(|| ExportTracePartialSuccess {
                rejected_spans: i64::try_from(self.rejected_spans).unwrap_or(i64::MAX),
                error_message: self.reason,
            });
            let message = ExportTraceServiceResponse { partial_success }.encode_to_vec();
            return (StatusCode::OK, [(header::CONTENT_TYPE, PROTOBUF_MEDIA_TYPE)], message).into_response();
        }
        // 64-bit numbers are texts in JSON.
        let rejected = self.rejected_spans.to_string();
        let partial = json!({"partialSuccess": {"rejectedSpans": rejected, "errorMessage": self.reason}});
        (StatusCode::OK, Json(if is_partial { partial } else { json!({}) })).into_response()
    }
}

#[cfg(test)]
mod tests;
