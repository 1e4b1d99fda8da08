//! Defines the HTTP route `POST /v1/events`.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use retro_consumer::run_in_place;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Tenant;
use retro_core::trace::TraceContext;
use retro_events::envelope::EVENT_BYTES_MAX;
use retro_events::{IntakeError, ObjectError, encoding, subject};
use retro_http::{
    Api, BodyLimits, BodyPermit, BudgetExceeded, BufferedBody, Caller, IdempotencyKey, IdempotentRequest,
    OWNER_RESERVE_BYTES, Problem, ReadBodyError, RouteAccess, TenantPermit, is_json, media_type,
};
use retro_store::StoreError;
use retro_telemetry::trace::{Kind, Span, SpanParent};
use tracing::warn;
use utoipa_axum::routes;

use super::answer::{EventsAnswer, EventsRefused, RefusedEvent};
use super::schemas::{Event, RunData};
use super::{IngestError, IngestService};

/// Timeout for receiving a body, enough for the largest body over a slow connection.
const BODY_READ_MAX: Duration = Duration::from_secs(60);
/// `Retry-After` for a burst or a broker restart, in seconds. Both are over soon.
const RETRY_SOON_S: u32 = 1;
/// `Retry-After` for a full stream, in seconds: space becomes free only if messages expire or an operator
/// acts.
const RETRY_LATER_S: u32 = 30;

const BATCH_MEDIA_TYPE: &str = "application/cloudevents-batch+json";

/// Returns the route that accepts events.
pub(super) fn event_routes() -> Api<IngestService> {
    Api::new().routes(routes!(events)).allow(RouteAccess::Emit)
}

/// Accepts finished runs: one CloudEvent, structured or with `ce-` headers, or a batch of up to a thousand.
/// Responds once the broker has stored the events on disk. Sending an event again is harmless, because a run
/// is counted once.
#[utoipa::path(post, path = "/v1/events", tag = "engines",
    request_body(content(
        (Event = "application/cloudevents+json"),
        (Vec<Event> = "application/cloudevents-batch+json"),
        (RunData = "application/json"),
    )),
    params(("Idempotency-Key" = Option<String>, Header, description = "key of the request; the same key and content get the same answer for a day")),
    responses(
        (status = 202, body = EventsAnswer, description = "all events accepted"),
        (status = 207, body = EventsAnswer, description = "part of a batch accepted, the other events listed"),
        (status = 422, body = EventsRefused, content_type = "application/problem+json", description = "nothing accepted"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "a request with this key is in progress"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "the tenant or the process holds too many bytes"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "the broker is full, unavailable, or did not confirm"),
    ))]
async fn events(
    State(service): State<IngestService>,
    Caller(tenant): Caller,
    key: IdempotencyKey,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let request_span = begin_request_span("/v1/events", &headers);
    if !is_json(&headers) {
        let detail = "send a CloudEvent as application/cloudevents+json, many as application/cloudevents-batch+json, or its \
                      data as application/json with ce- headers";
        return unsupported_body(detail).into_response();
    }
    let (payload, held) = match receive_body(&service, &tenant, request).await {
        Ok(received) => received,
        Err(problem) => return problem.into_response(),
    };
    let (idempotency, event_headers) = (service.idempotency.clone(), describe_event_headers(&headers));
    let work = {
        let (tenant, payload) = (tenant.clone(), payload.clone());
        let send_span =
            request_span.in_scope(|| retro_telemetry::trace::start_send_event_span(subject::RUN_COMPLETED));
        async move {
            // Held until the work is done: if the client disconnects, the work continues and still uses this
            // memory.
            let _held = held;
            send_span.instrument(ingest_request(&service, &tenant, &headers, &payload)).await
        }
    };
    let keyed_request = IdempotentRequest {
        tenant: &tenant,
        route: "POST /v1/events",
        key,
        content: &[event_headers.as_bytes(), &payload],
    };
    let response = idempotency.run_once(keyed_request, work).await;
    request_span.set_attribute("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

/// Starts the span of the request as a child of the caller's span.
pub(super) fn begin_request_span(route: &'static str, headers: &HeaderMap) -> Span {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let caller =
        text("traceparent").and_then(|parent| TraceContext::from_headers(parent, text("tracestate")).ok());
    let work =
        Span::start(format!("POST {route}"), Kind::Server, SpanParent::from_trace(caller.as_ref(), false));
    work.set_attribute("http.request.method", "POST");
    work.set_attribute("http.route", route);
    work
}

/// Memory and place of a request. They are kept until its work is done.
pub(super) type HeldBody = (BodyPermit, TenantPermit);

/// Reads and decompresses the body of a request.
pub(super) async fn receive_body(
    service: &IngestService,
    tenant: &Tenant,
    request: Request,
) -> Result<(Bytes, HeldBody), Problem> {
    let headers = request.headers().clone();
    let (body, tenant_permit) = read_body(service, tenant, request).await?;
    let BufferedBody { bytes: compressed, mut permit } = body;
    // The permit covers only the larger of the two bodies, so the compressed one does not stay in memory.
    let payload = run_in_place(|| decompress_body(&headers, &compressed, &mut permit))?;
    Ok((payload, (permit, tenant_permit)))
}

/// Reads the body within the budget. Bytes are charged as they arrive; a complete body is charged at least
/// `OWNER_RESERVE_BYTES`, the cost of processing even the smallest request.
async fn read_body(
    service: &IngestService,
    tenant: &Tenant,
    request: Request,
) -> Result<(BufferedBody, TenantPermit), Problem> {
    check_encoding(request.headers())?;
    let limits = BodyLimits::new(EVENT_BYTES_MAX, BODY_READ_MAX);
    let read = service.budget.read_request(Some(tenant), request, limits).await;
    let mut body = read.map_err(|error| match error {
        ReadBodyError::BudgetExceeded(exceeded) => budget_problem(exceeded),
        other => other.into(),
    })?;
    body.permit.charge_up_to(OWNER_RESERVE_BYTES).map_err(budget_problem)?;
    // Acquired only after the body has arrived, so slow senders cannot use up the permits.
    let tenant_permit =
        service.in_flight.try_acquire(tenant).ok_or_else(|| budget_problem(BudgetExceeded::Process))?;
    Ok((body, tenant_permit))
}

/// Decompresses the body and charges its decompressed size. A first pass determines that size without keeping
/// the output, so memory is charged before it is allocated.
fn decompress_body(
    headers: &HeaderMap,
    compressed: &Bytes,
    permit: &mut BodyPermit,
) -> Result<Bytes, Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
    let bytes =
        encoding::decompressed_size(encoding, compressed, EVENT_BYTES_MAX).map_err(rejection_problem)?;
    permit.charge_up_to(bytes as u64).map_err(budget_problem)?;
    encoding::decompress_payload(encoding, compressed, EVENT_BYTES_MAX).map_err(rejection_problem)
}

/// Returns the headers that are part of the event, for the request's fingerprint: the same body under
/// different event headers is a different request.
fn describe_event_headers(headers: &HeaderMap) -> String {
    let mut event_headers = header_pairs(headers);
    event_headers.retain(|(name, _)| {
        name.starts_with("ce-") || name.starts_with("content-type") || name == "content-encoding"
    });
    event_headers.sort();
    format!("{event_headers:?}")
}

async fn ingest_request(
    service: &IngestService,
    tenant: &Tenant,
    headers: &HeaderMap,
    payload: &Bytes,
) -> Response {
    let outcome = if media_type(headers) == BATCH_MEDIA_TYPE {
        service.ingest_batch(tenant, payload).await
    } else {
        let mut headers = header_pairs(headers);
        headers.retain(|(name, _)| name != encoding::CONTENT_ENCODING);
        service.ingest_event(tenant, &headers, payload).await
    };
    answer_events(outcome)
}

/// Returns the response to events or runs.
pub(super) fn answer_events(outcome: Result<EventsAnswer, IngestError>) -> Response {
    match outcome {
        Ok(answer) if answer.refused.is_empty() => (StatusCode::ACCEPTED, Json(answer)).into_response(),
        Ok(answer) => (StatusCode::MULTI_STATUS, Json(answer)).into_response(),
        Err(not_taken) => error_response(not_taken),
    }
}

/// Returns the problem of a body in a form that is not accepted.
pub(super) fn unsupported_body(detail: &str) -> Problem {
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported form of the body", detail)
}

/// Rejects an unsupported encoding before the body is read.
fn check_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let encoding =
        headers.get(header::CONTENT_ENCODING).map(|encoding| encoding.to_str().unwrap_or("unreadable"));
    if encoding.is_some_and(|encoding| !encoding::is_supported(encoding)) {
        let problem =
            unsupported_body("send the body uncompressed, or with one Content-Encoding, zstd or gzip");
        let path = Some(encoding::CONTENT_ENCODING.to_owned());
        return Err(Problem { path, ..problem }.with_code(DeadLetterCode::EncodingInvalid.as_str()));
    }
    Ok(())
}

fn header_pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}

fn budget_problem(exceeded: BudgetExceeded) -> Problem {
    let (code, detail) = match exceeded {
        BudgetExceeded::Owner => {
            ("tenant_busy", "this tenant holds as many bytes of requests as it may; send fewer at once")
        }
        BudgetExceeded::Process => ("busy", "this server holds as many bytes of requests as it may"),
    };
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too much at once", detail);
    problem.with_code(code).with_retry_after(RETRY_SOON_S)
}

pub(super) fn error_response(not_taken: IngestError) -> Response {
    match not_taken {
        IngestError::Refused(rejection) => rejection_problem(rejection).into_response(),
        IngestError::AllRefused(refused) => all_refused_response(refused),
        IngestError::Broker(error) => broker_problem(&error).into_response(),
        IngestError::Body(error) => object_store_problem(&error).into_response(),
        IngestError::Store(error) => span_store_problem(&error).into_response(),
        IngestError::TracesFull => traces_full_problem().into_response(),
    }
}

fn rejection_problem(rejection: Rejection) -> Problem {
    let Rejection { code, path, detail } = rejection;
    Problem { path, ..Problem::new(status_of(code), "the event is refused", detail) }.with_code(code.as_str())
}

/// Returns a 422 for a batch without a valid event. The events may have different codes, so the status is the
/// general one for unprocessable content.
fn all_refused_response(refused: Vec<RefusedEvent>) -> Response {
    let first = refused.first().map(|first| (first.path.clone(), first.code.as_str()));
    let detail = format!("each of the {} events is refused", refused.len());
    let (path, code) = first.unzip();
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "every event is refused", detail);
    let status = problem.status;
    EventsRefused { problem: Problem { path, code, ..problem }, refused }.to_response(status)
}

const fn status_of(code: DeadLetterCode) -> StatusCode {
    match code {
        DeadLetterCode::Oversized | DeadLetterCode::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
        DeadLetterCode::NotJson
        | DeadLetterCode::NotUtf8
        | DeadLetterCode::EncodingInvalid
        | DeadLetterCode::NotCloudEvent
        | DeadLetterCode::TooDeep
        | DeadLetterCode::DuplicateKey
        | DeadLetterCode::SpecVersionUnknown => StatusCode::BAD_REQUEST,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn broker_problem(error: &IntakeError) -> Problem {
    warn!(cause = %error, "events were not accepted: {error}");
    let (code, again_s, detail) = match error {
        IntakeError::Full(_) => (
            "intake_full",
            RETRY_LATER_S,
            "there is no space for more events until older ones expire; nothing was stored",
        ),
        IntakeError::Unavailable(_) => {
            ("broker_away", RETRY_SOON_S, "the broker is not available; nothing was stored")
        }
        IntakeError::Unconfirmed(_) => (
            "outcome_unknown",
            RETRY_SOON_S,
            "the broker did not confirm in time and may have the events; sending them again is harmless, each is counted \
             once",
        ),
    };
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the events were not accepted", detail);
    problem.with_code(code).with_retry_after(again_s)
}

fn object_store_problem(error: &ObjectError) -> Problem {
    warn!(cause = %error, "a trajectory was not stored: {error}");
    let detail = "a trajectory could not be stored; no event was accepted";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the events were not accepted", detail);
    problem.with_code("broker_away").with_retry_after(RETRY_SOON_S)
}

fn span_store_problem(error: &StoreError) -> Problem {
    warn!(cause = %error, "spans were not stored: {error}");
    let detail = "the spans could not be stored; sending them again is harmless, each is stored once";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the spans were not accepted", detail);
    problem.with_code("database_away").with_retry_after(RETRY_SOON_S)
}

fn traces_full_problem() -> Problem {
    let detail = "as many spans of this tenant as may (`trace_tenant_mib`) wait for the rest of their traces; nothing was \
                  stored";
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "the spans were not accepted", detail);
    problem.with_code("traces_full").with_retry_after(RETRY_LATER_S)
}

impl EventsRefused {
    fn to_response(&self, status: StatusCode) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, kind, serde_json::to_vec(self).expect("a problem always serializes")).into_response()
    }
}

#[cfg(test)]
mod tests;
