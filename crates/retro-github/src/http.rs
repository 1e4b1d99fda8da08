//! `POST /github/webhook`.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use retro_core::trace::TraceContext;
use retro_events::IntakeError;
use retro_http::{Api, BodyLimits, BufferedBody, Problem, ReadBodyError, is_json, media_type};
use retro_meter::WEBHOOKS;
use retro_trace::{Cause, Kind, Work};
use serde::Serialize;
use tracing::warn;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::bridge::{Bridge, Done, ROUTE, Refused, WEBHOOK_BYTES_MAX};
use crate::read::{EVENTS, Left};

/// How long a body may take to arrive: GitHub gives up after 10 s, and the broker wants its part.
const BODY_READ_MAX: Duration = Duration::from_secs(8);
/// When to come again, seconds: a burst is over, a broker is started again.
const AGAIN_SOON_S: u32 = 1;
/// When to come again, seconds: room in a stream is made by time, or by a person.
const AGAIN_LATER_S: u32 = 30;

/// What GitHub is answered, for a person who reads it in the list of deliveries.
#[derive(Debug, Serialize, ToSchema)]
struct Answer {
    /// What became of it: taken, ping, not_taken, incomplete or unmapped.
    outcome: &'static str,
    /// Why it was not taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
}

/// The one route of the bridge, to be handed to [`retro_http::serve_signed`].
pub fn router(bridge: Bridge) -> Api {
    Api::new().routes(routes!(webhook)).with_state(bridge)
}

/// Takes a webhook of GitHub's, signed in `X-Hub-Signature-256`. Sending it again is harmless: its delivery is known.
#[utoipa::path(post, path = "/github/webhook", tag = "github", request_body(content = serde_json::Value, content_type = "application/json"),
    responses(
        (status = 202, body = Answer, description = "the broker has it on disk"),
        (status = 200, body = Answer, description = "it was left alone, or is a ping"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "no secret here has signed it"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "the broker did not take it, or there is no room: deliver it again"),
    ))]
async fn webhook(State(bridge): State<Bridge>, request: Request) -> Response {
    let headers = request.headers().clone();
    let (event, asking) = (event(&headers), traced(&headers));
    asking.note("retro.github.event", event);
    let (outcome, response) = match asking.around(take(&bridge, &headers, request)).await {
        Ok(done) => answer(&done),
        Err((outcome, problem)) => (outcome, problem.into_response()),
    };
    WEBHOOKS.add(1, [event, outcome]);
    asking.note("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

/// The span of the request, which continues its caller's.
fn traced(headers: &HeaderMap) -> Work {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let caller =
        text("traceparent").and_then(|parent| TraceContext::of_headers(parent, text("tracestate")).ok());
    let work = Work::begin("POST /github/webhook", Kind::Server, Cause::of(caller.as_ref(), false));
    work.note("http.request.method", "POST");
    work.note("http.route", ROUTE);
    work
}

/// The event as metrics have it: whatever is not used is one.
fn event(headers: &HeaderMap) -> &'static str {
    let named = headers.get("x-github-event").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = EVENTS.into_iter().chain(["ping"]);
    known.into_iter().find(|event| *event == named).unwrap_or("other")
}

async fn take(
    bridge: &Bridge,
    headers: &HeaderMap,
    request: Request,
) -> Result<Done, (&'static str, Problem)> {
    check_form(headers).map_err(|problem| ("refused", problem))?;
    let body = read_body(bridge, request).await?;
    bridge.take(headers, &body.bytes).await.map_err(refusal)
}

fn check_form(headers: &HeaderMap) -> Result<(), Problem> {
    if is_json(headers) && !headers.contains_key(header::CONTENT_ENCODING) {
        return Ok(());
    }
    let detail = match media_type(headers).as_str() {
        "application/x-www-form-urlencoded" => {
            "a form is not read: choose the content type application/json in the settings of the webhook at GitHub"
        }
        _ => "send the payload as it is, with `Content-Type: application/json`",
    };
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the body is in a form that is not read", detail))
}

async fn read_body(bridge: &Bridge, request: Request) -> Result<BufferedBody, (&'static str, Problem)> {
    let limits = BodyLimits::new(WEBHOOK_BYTES_MAX, BODY_READ_MAX);
    let read = bridge.budget.read(None, request, limits).await;
    read.map_err(|error| match error {
        ReadBodyError::NoRoom(_) => {
            let detail = "this server has as many bytes in hand as it may; deliver it again";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too much at once", detail);
            ("busy", problem.with_code("busy").retry_after(AGAIN_SOON_S))
        }
        ReadBodyError::TooLarge(bytes_max) => {
            let detail = format!("the body is larger than {bytes_max} bytes; GitHub sends none above 25 MB");
            ("refused", Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", detail))
        }
        other => ("refused", other.into()),
    })
}

fn answer(done: &Done) -> (&'static str, Response) {
    let (status, outcome, why) = match done {
        Done::Taken => (StatusCode::ACCEPTED, "taken", None),
        Done::Ping => (StatusCode::OK, "ping", None),
        Done::Left(left @ (Left::Incomplete(_) | Left::Shape(_))) => {
            (StatusCode::OK, "incomplete", Some(left.to_string()))
        }
        Done::Left(left) => (StatusCode::OK, "not_taken", Some(left.to_string())),
        Done::Unmapped => {
            let why = "the repository belongs to no tenant that this secret speaks for: `github_tenants` of the configuration says whose it is";
            (StatusCode::OK, "unmapped", Some(why.to_owned()))
        }
    };
    (outcome, (status, Json(Answer { outcome, why })).into_response())
}

fn refusal(refused: Refused) -> (&'static str, Problem) {
    let detail = refused.to_string();
    match refused {
        Refused::Unsigned(_) => (
            "unsigned",
            Problem::new(StatusCode::UNAUTHORIZED, "the webhook is not signed by anybody known", detail),
        ),
        Refused::Header(_) => ("refused", Problem::unreadable(detail)),
        Refused::Unreadable(_) => {
            warn!(cause = %detail, "a signed webhook is not what GitHub sends: {detail}");
            (
                "refused",
                Problem::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    "the webhook is not what GitHub sends",
                    detail,
                ),
            )
        }
        Refused::Broker(error) => ("failed", no_broker(&error)),
    }
}

fn no_broker(error: &IntakeError) -> Problem {
    warn!(cause = %error, "a webhook was not taken, and is to be delivered again at GitHub: {error}");
    let (code, again_s, detail) = match error {
        IntakeError::Full(_) => (
            "intake_full",
            AGAIN_LATER_S,
            "there is no room for more until older events expire; nothing was stored",
        ),
        IntakeError::Unavailable(_) => {
            ("broker_away", AGAIN_SOON_S, "the broker is not available; nothing was stored")
        }
        IntakeError::Unknown(_) => (
            "outcome_unknown",
            AGAIN_SOON_S,
            "the broker did not confirm in time and may have it; delivering it again is harmless",
        ),
    };
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the webhook was not taken", detail);
    problem.with_code(code).retry_after(again_s)
}

#[cfg(test)]
mod tests;
