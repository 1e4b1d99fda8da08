//! `POST /v1/events`.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::Tenant;
use retro_core::trace::TraceContext;
use retro_events::envelope::EVENT_BYTES_MAX;
use retro_events::{IntakeError, ObjectError, encoding, subject};
use retro_http::{
    Api, Asked, BodyLimits, BudgetExceeded, BufferedBody, Caller, IdempotencyKey, OWNER_FLOOR_BYTES, Permit,
    Problem, ReadBodyError, Turn, is_json, media_type,
};
use retro_trace::{Cause, Kind, Work};
use tracing::warn;
use utoipa_axum::routes;

use super::answer::{EventsAnswer, EventsRefused, RefusedEvent};
use super::described::{Event, RunData};
use super::{IngestService, NotTaken};

/// How long a body may take to arrive: the largest one over a slow line.
const BODY_READ_MAX: Duration = Duration::from_secs(60);
/// When to come again, seconds: a burst is over, a broker is started again.
const AGAIN_SOON_S: u32 = 1;
/// When to come again, seconds: room in a stream is made by time, or by a person.
const AGAIN_LATER_S: u32 = 30;

const BATCH: &str = "application/cloudevents-batch+json";

/// The road in.
pub(crate) fn routes() -> Api<IngestService> {
    Api::new().routes(routes!(events))
}

/// Takes finished runs: one CloudEvent, structured or with `ce-` headers, or up to a thousand. Answers when they are on
/// disk. Sending again is harmless: a run is counted once.
#[utoipa::path(post, path = "/v1/events", tag = "engines",
    request_body(content(
        (Event = "application/cloudevents+json"),
        (Vec<Event> = "application/cloudevents-batch+json"),
        (RunData = "application/json"),
    )),
    params(("Idempotency-Key" = Option<String>, Header, description = "the same key and content get the same answer for a day")),
    responses(
        (status = 202, body = EventsAnswer, description = "all accepted"),
        (status = 207, body = EventsAnswer, description = "some of a batch accepted, the others named"),
        (status = 422, body = EventsRefused, content_type = "application/problem+json", description = "nothing accepted"),
        (status = 409, body = Problem, content_type = "application/problem+json", description = "a request with this key is under way"),
        (status = 429, body = Problem, content_type = "application/problem+json", description = "too much in hand"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "the broker has no room, is away, or did not say"),
    ))]
async fn events(
    State(service): State<IngestService>,
    Caller(tenant): Caller,
    key: IdempotencyKey,
    request: Request,
) -> Response {
    let headers = request.headers().clone();
    let asking = traced(&headers);
    let (body, turn) = match read_body(&service, &tenant, request).await {
        Ok(read) => read,
        Err(problem) => return problem.into_response(),
    };
    let BufferedBody { bytes: packed, mut permit } = body;
    let payload = match unpack(&headers, &packed, &mut permit) {
        Ok(payload) => payload,
        Err(problem) => return problem.into_response(),
    };
    drop(packed);
    let (idempotency, said) = (service.idempotency.clone(), said(&headers));
    let work = {
        let (tenant, payload) = (tenant.clone(), payload.clone());
        let sending = asking.within(|| retro_trace::send_event(subject::RUN_COMPLETED));
        async move {
            let _held = (permit, turn);
            sending.around(answer(&service, &tenant, &headers, &payload)).await
        }
    };
    let asked =
        Asked { tenant: &tenant, route: "POST /v1/events", key, content: &[said.as_bytes(), &payload] };
    let response = idempotency.once(asked, work).await;
    asking.note("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

/// The span of the request, which continues its caller's.
fn traced(headers: &HeaderMap) -> Work {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let caller =
        text("traceparent").and_then(|parent| TraceContext::of_headers(parent, text("tracestate")).ok());
    let work = Work::begin("POST /v1/events", Kind::Server, Cause::of(caller.as_ref(), false));
    work.note("http.request.method", "POST");
    work.note("http.route", "/v1/events");
    work
}

/// Reads the body as far as there is room for it. It is charged as it arrives, and once it is whole for at least what handling the
/// smallest request costs.
async fn read_body(
    service: &IngestService,
    tenant: &Tenant,
    request: Request,
) -> Result<(BufferedBody, Turn), Problem> {
    check(request.headers())?;
    let limits = BodyLimits::new(EVENT_BYTES_MAX, BODY_READ_MAX);
    let read = service.budget.read(Some(tenant), request, limits).await;
    let mut body = read.map_err(|error| match error {
        ReadBodyError::NoRoom(exceeded) => too_many(exceeded),
        other => other.into(),
    })?;
    body.permit.charge_up_to(OWNER_FLOOR_BYTES).map_err(too_many)?;
    let turn = service.handled.try_enter(tenant).ok_or_else(|| too_many(BudgetExceeded::Process))?;
    Ok((body, turn))
}

/// The body as it was before it was packed, charged for what it has become. How large that is is found out before memory is
/// taken for it, by unpacking it once without keeping anything.
fn unpack(headers: &HeaderMap, packed: &Bytes, permit: &mut Permit) -> Result<Bytes, Problem> {
    let encoding = headers.get(header::CONTENT_ENCODING).and_then(|encoding| encoding.to_str().ok());
    let bytes = encoding::unpacked_bytes(encoding, packed, EVENT_BYTES_MAX).map_err(refused)?;
    permit.charge_up_to(bytes as u64).map_err(too_many)?;
    encoding::unpack(encoding, packed, EVENT_BYTES_MAX).map_err(refused)
}

/// What the headers say of the event: the same body under others is another request.
fn said(headers: &HeaderMap) -> String {
    let mut said = texts(headers);
    said.retain(|(name, _)| {
        name.starts_with("ce-") || name.starts_with("content-type") || name == "content-encoding"
    });
    said.sort();
    format!("{said:?}")
}

async fn answer(service: &IngestService, tenant: &Tenant, headers: &HeaderMap, payload: &Bytes) -> Response {
    let taken = if media_type(headers) == BATCH {
        service.batch(tenant, payload).await
    } else {
        let mut headers = texts(headers);
        headers.retain(|(name, _)| name != encoding::HEADER);
        service.one(tenant, &headers, payload).await
    };
    match taken {
        Ok(answer) if answer.refused.is_empty() => (StatusCode::ACCEPTED, Json(answer)).into_response(),
        Ok(answer) => (StatusCode::MULTI_STATUS, Json(answer)).into_response(),
        Err(not_taken) => refusal(not_taken),
    }
}

/// Refuses what can be refused before the body is read.
fn check(headers: &HeaderMap) -> Result<(), Problem> {
    let unsupported = |detail: &str| {
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is in a form that is not read", detail)
    };
    if !is_json(headers) {
        return Err(unsupported(
            "send a CloudEvent as application/cloudevents+json, many as application/cloudevents-batch+json, or its data \
             as application/json with ce- headers",
        ));
    }
    let encoding =
        headers.get(header::CONTENT_ENCODING).map(|encoding| encoding.to_str().unwrap_or("unreadable"));
    if encoding.is_some_and(|encoding| !encoding::is_read(encoding)) {
        let problem =
            unsupported("send the body as it is, or packed by one Content-Encoding of zstd and gzip");
        let path = Some(encoding::HEADER.to_owned());
        return Err(Problem { path, ..problem }.with_code(Code::EncodingInvalid.as_str()));
    }
    Ok(())
}

fn texts(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value.as_bytes()))).collect()
}

fn too_many(exceeded: BudgetExceeded) -> Problem {
    let (code, detail) = match exceeded {
        BudgetExceeded::Owner => {
            ("tenant_busy", "this tenant has as many bytes in hand here as it may; send fewer at once")
        }
        BudgetExceeded::Process => ("busy", "this server has as many bytes in hand as it may"),
    };
    let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too much at once", detail);
    problem.with_code(code).retry_after(AGAIN_SOON_S)
}

fn refusal(not_taken: NotTaken) -> Response {
    match not_taken {
        NotTaken::Refused(rejection) => refused(rejection).into_response(),
        NotTaken::AllRefused(refused) => all_refused(refused),
        NotTaken::Broker(error) => no_broker(&error).into_response(),
        NotTaken::Body(error) => no_object_store(&error).into_response(),
    }
}

fn refused(rejection: Rejection) -> Problem {
    let Rejection { code, path, detail } = rejection;
    Problem { path, ..Problem::new(status_of(code), "the event is refused", detail) }.with_code(code.as_str())
}

/// Many events, many codes: the status is that of a content that cannot be taken, whatever is wrong with each.
fn all_refused(refused: Vec<RefusedEvent>) -> Response {
    let first = refused.first().map(|first| (first.path.clone(), first.code.as_str()));
    let detail = format!("each of the {} events is refused", refused.len());
    let (path, code) = first.unzip();
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "every event is refused", detail);
    let status = problem.status;
    EventsRefused { problem: Problem { path, code, ..problem }, refused }.respond(status)
}

const fn status_of(code: Code) -> StatusCode {
    match code {
        Code::Oversized | Code::TooManyValues => StatusCode::PAYLOAD_TOO_LARGE,
        Code::NotJson
        | Code::NotUtf8
        | Code::EncodingInvalid
        | Code::NotCloudEvent
        | Code::TooDeep
        | Code::DuplicateKey
        | Code::SpecVersionUnknown => StatusCode::BAD_REQUEST,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    }
}

fn no_broker(error: &IntakeError) -> Problem {
    warn!(cause = %error, "events were not taken: {error}");
    let (code, again_s, detail) = match error {
        IntakeError::Full(_) => (
            "intake_full",
            AGAIN_LATER_S,
            "there is no room for more events until older ones expire; nothing was stored",
        ),
        IntakeError::Unavailable(_) => {
            ("broker_away", AGAIN_SOON_S, "the broker is not available; nothing was stored")
        }
        IntakeError::Unknown(_) => (
            "outcome_unknown",
            AGAIN_SOON_S,
            "the broker did not confirm in time and may have the events; sending them again is harmless, each is counted \
             once",
        ),
    };
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the events were not taken", detail);
    problem.with_code(code).retry_after(again_s)
}

fn no_object_store(error: &ObjectError) -> Problem {
    warn!(cause = %error, "a body was not stored: {error}");
    let detail = "a body could not be stored apart; no event was taken";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the events were not taken", detail);
    problem.with_code("broker_away").retry_after(AGAIN_SOON_S)
}

impl EventsRefused {
    fn respond(&self, status: StatusCode) -> Response {
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (status, kind, serde_json::to_vec(self).expect("a problem is plain data")).into_response()
    }
}

#[cfg(test)]
mod tests;
