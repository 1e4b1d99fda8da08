//! Defines the HTTP route `POST /v1/traces`: runs as OTLP traces, as exporters and collectors send them.
//!
//! An exporter in an agent sends spans in batches while it works. A trace that is whole in one request is a run at once; the
//! spans of others are stored until their run can be read (`collection.rs`, `trace_reader.rs`).

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message as _;
use retro_events::envelope::EVENT_BYTES_MAX;
use retro_events::subject;
use retro_http::{Api, Caller, IdempotencyKey, IdempotentRequest, Problem, RouteAccess, is_json, media_type};
use serde_json::json;
use utoipa_axum::routes;

use super::IngestService;
use super::collection::{CollectedRequest, SpanRejection};
use super::http::{begin_request_span, error_response, receive_body, unsupported_body};
use super::importer::RunImporter;

const PROTOBUF_MEDIA_TYPE: &str = "application/x-protobuf";
/// Number of traces that a refusal names.
const NAMED_MAX: usize = 5;

/// Returns the route that accepts traces.
pub(super) fn trace_routes() -> Api<IngestService> {
    Api::new().routes(routes!(traces)).allow(RouteAccess::Emit)
}

/// Accepts finished runs as traces of OpenTelemetry (OTLP over HTTP), in any number of requests. Responds once the run of a
/// whole trace, or the spans of another one, are stored on disk. A run is read from a trace that came in parts when its root
/// and every parent are there, or when nothing more has come for a while. Traces without a model, agent or tool are ignored.
/// Spans without valid ids, too many, or too late are rejected in a partial success. Sending spans again is harmless, because
/// each is stored once and a run is counted once.
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
        (status = 429, body = Problem, content_type = "application/problem+json", description = "the tenant or the process holds too many bytes, or too many traces of the tenant wait for more spans"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "the broker is full, unavailable, or did not confirm, or the database is unavailable"),
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
            let read =
                |importer: &dyn RunImporter| importer.import_traces(&body, is_protobuf, EVENT_BYTES_MAX);
            match send_span.instrument(service.collect_traces(&tenant, held, read)).await {
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

impl CollectedRequest {
    fn rejected_spans(&self) -> usize {
        let rejected: usize = self.rejected.iter().map(|(_, spans, _)| spans).sum();
        self.invalid_spans + rejected + self.refused_spans
    }

    /// Explains why spans were rejected; empty if none were.
    fn explain(&self) -> String {
        let mut reasons = Vec::new();
        if self.invalid_spans > 0 {
            reasons.push(format!(
                "{} spans have no valid ids: a trace id has 16 bytes and a span id 8, not all zero",
                self.invalid_spans
            ));
        }
        let kinds: BTreeSet<SpanRejection> = self.rejected.iter().map(|(kind, ..)| *kind).collect();
        for kind in kinds {
            let of_kind = || self.rejected.iter().filter(move |(one, ..)| *one == kind);
            let spans: usize = of_kind().map(|(_, spans, _)| spans).sum();
            let named = of_kind().take(NAMED_MAX).map(|(.., id)| id.as_str()).collect::<Vec<_>>().join(", ");
            reasons
                .push(format!("{spans} spans are not stored, of traces such as {named}: {}", kind.explain()));
        }
        reasons.extend(
            self.refused
                .refused
                .iter()
                .take(NAMED_MAX)
                .map(|refused| format!("{}: {} ({})", refused.path, refused.detail, refused.code.as_str())),
        );
        reasons.join("; ")
    }

    /// Returns the response of OTLP in this encoding. Without rejected spans it is an empty message.
    fn into_response(self, is_protobuf: bool) -> Response {
        let (rejected_spans, reason) = (self.rejected_spans(), self.explain());
        let is_partial = rejected_spans > 0;
        if is_protobuf {
            let partial_success = is_partial.then(|| ExportTracePartialSuccess {
                rejected_spans: i64::try_from(rejected_spans).unwrap_or(i64::MAX),
                error_message: reason,
            });
            let message = ExportTraceServiceResponse { partial_success }.encode_to_vec();
            return (StatusCode::OK, [(header::CONTENT_TYPE, PROTOBUF_MEDIA_TYPE)], message).into_response();
        }
        // 64-bit numbers are texts in JSON.
        let rejected = rejected_spans.to_string();
        let partial = json!({"partialSuccess": {"rejectedSpans": rejected, "errorMessage": reason}});
        (StatusCode::OK, Json(if is_partial { partial } else { json!({}) })).into_response()
    }
}

#[cfg(test)]
mod tests;
