//! Defines the HTTP route `POST /github/webhook`.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use retro_core::trace::TraceContext;
use retro_events::IntakeError;
use retro_http::{Api, BodyLimits, BufferedBody, Problem, ReadBodyError, is_json, media_type};
use retro_telemetry::metrics::WEBHOOKS;
use retro_telemetry::trace::{Kind, Span, SpanParent};
use serde::Serialize;
use tracing::warn;
use utoipa::ToSchema;
use utoipa_axum::routes;

use crate::bridge::{Bridge, ROUTE, WEBHOOK_BYTES_MAX, WebhookError, WebhookOutcome};
use crate::ignored::Ignored;
use crate::webhook::USED_EVENTS;

/// Timeout for receiving a body. GitHub gives up after 10 s, and publishing needs part of that.
const BODY_READ_TIMEOUT: Duration = Duration::from_secs(8);
/// `Retry-After` for a burst or a broker restart, in seconds.
const RETRY_SOON_S: u32 = 1;
/// `Retry-After` for a full stream, in seconds: old messages have to expire, or an operator has to make
/// space.
const RETRY_LATER_S: u32 = 30;

/// Response to GitHub, shown in the delivery log of the webhook.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookAnswer {
    /// Outcome of the webhook: `accepted`, `ping`, `ignored`, `incomplete` or `unmapped`.
    outcome: &'static str,
    /// Reason why the webhook was ignored; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// Returns the bridge's only route, to be served with [`retro_http::serve_signed`].
pub fn router(bridge: Bridge) -> Api {
    Api::new().routes(routes!(webhook)).with_state(bridge)
}

/// Accepts a GitHub webhook, signed in `X-Hub-Signature-256`. Redelivery is harmless, because deliveries are
/// deduplicated by id.
#[utoipa::path(post, path = "/github/webhook", tag = "github", request_body(content = serde_json::Value, content_type = "application/json"),
    responses(
        (status = 202, body = WebhookAnswer, description = "the broker has it on disk"),
        (status = 200, body = WebhookAnswer, description = "ignored, or a ping"),
        (status = 401, body = Problem, content_type = "application/problem+json", description = "not signed by a known secret"),
        (status = 503, body = Problem, content_type = "application/problem+json", description = "the broker did not store it, or the server is at its limit: redeliver it"),
    ))]
async fn webhook(State(bridge): State<Bridge>, request: Request) -> Response {
    let headers = request.headers().clone();
    let (event, asking) = (event_label(&headers), begin_request_span(&headers));
    asking.set_attribute("retro.github.event", event);
    let (outcome, response) = match asking.instrument(accept_request(&bridge, &headers, request)).await {
        Ok(done) => render_outcome(&done),
        Err((outcome, problem)) => (outcome, problem.into_response()),
    };
    WEBHOOKS.add(1, [event, outcome]);
    asking.set_attribute("http.response.status_code", i64::from(response.status().as_u16()));
    response
}

/// Starts the span of the request, which continues the caller's trace.
fn begin_request_span(headers: &HeaderMap) -> Span {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let caller =
        text("traceparent").and_then(|parent| TraceContext::from_headers(parent, text("tracestate")).ok());
    let work =
        Span::start("POST /github/webhook", Kind::Server, SpanParent::from_trace(caller.as_ref(), false));
    work.set_attribute("http.request.method", "POST");
    work.set_attribute("http.route", ROUTE);
    work
}

/// Returns the event name as a metric label. All unused events share the label `other`.
fn event_label(headers: &HeaderMap) -> &'static str {
    let named = headers.get("x-github-event").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let known = USED_EVENTS.into_iter().chain(["ping"]);
    known.into_iter().find(|event| *event == named).unwrap_or("other")
}

async fn accept_request(
    bridge: &Bridge,
    headers: &HeaderMap,
    request: Request,
) -> Result<WebhookOutcome, (&'static str, Problem)> {
    check_content_type(headers).map_err(|problem| ("refused", problem))?;
    let body = read_body(bridge, request).await?;
    bridge.handle_webhook(headers, &body.bytes).await.map_err(render_error)
}

fn check_content_type(headers: &HeaderMap) -> Result<(), Problem> {
    if is_json(headers) && !headers.contains_key(header::CONTENT_ENCODING) {
        return Ok(());
    }
    let detail = match media_type(headers).as_str() {
        "application/x-www-form-urlencoded" => {
            "forms are not supported: choose the content type application/json in the settings of the webhook at GitHub"
        }
        _ => "send the payload as it is, with `Content-Type: application/json`",
    };
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "the content type is not supported", detail))
}

async fn read_body(bridge: &Bridge, request: Request) -> Result<BufferedBody, (&'static str, Problem)> {
    let limits = BodyLimits::new(WEBHOOK_BYTES_MAX, BODY_READ_TIMEOUT);
    let read = bridge.budget.read_request(None, request, limits).await;
    read.map_err(|error| match error {
        ReadBodyError::BudgetExceeded(_) => {
            let detail = "this server buffers as many bytes as it may; redeliver it";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too much at once", detail);
            ("busy", problem.with_code("busy").with_retry_after(RETRY_SOON_S))
        }
        ReadBodyError::TooLarge(bytes_max) => {
            let detail = format!("the body is larger than {bytes_max} bytes; GitHub sends none above 25 MB");
            ("refused", Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large", detail))
        }
        other => ("refused", other.into()),
    })
}

fn render_outcome(done: &WebhookOutcome) -> (&'static str, Response) {
    let (status, outcome, reason) = match done {
        WebhookOutcome::Accepted => (StatusCode::ACCEPTED, "accepted", None),
        WebhookOutcome::Ping => (StatusCode::OK, "ping", None),
        WebhookOutcome::Ignored(left @ (Ignored::Incomplete(_) | Ignored::UnexpectedShape(_))) => {
            (StatusCode::OK, "incomplete", Some(left.to_string()))
        }
        WebhookOutcome::Ignored(left) => (StatusCode::OK, "ignored", Some(left.to_string())),
        WebhookOutcome::Unmapped => {
            let reason = "the repository belongs to no tenant that this secret may act for; map it in `github_tenants` of the configuration";
            (StatusCode::OK, "unmapped", Some(reason.to_owned()))
        }
    };
    (outcome, (status, Json(WebhookAnswer { outcome, reason })).into_response())
}

fn render_error(refused: WebhookError) -> (&'static str, Problem) {
    let detail = refused.to_string();
    match refused {
        WebhookError::Unsigned(_) => (
            "unsigned",
            Problem::new(StatusCode::UNAUTHORIZED, "the webhook is not signed by a known secret", detail),
        ),
        WebhookError::Header(_) => ("refused", Problem::unreadable_request(detail)),
        WebhookError::Unreadable(_) => {
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
        WebhookError::Broker(error) => ("failed", broker_problem(&error)),
    }
}

fn broker_problem(error: &IntakeError) -> Problem {
    warn!(cause = %error, "a webhook was not stored and has to be redelivered at GitHub: {error}");
    let (code, again_s, detail) = match error {
        IntakeError::Full(_) => {
            ("intake_full", RETRY_LATER_S, "the stream is full until older events expire; nothing was stored")
        }
        IntakeError::Unavailable(_) => {
            ("broker_away", RETRY_SOON_S, "the broker is not available; nothing was stored")
        }
        IntakeError::Unconfirmed(_) => (
            "outcome_unknown",
            RETRY_SOON_S,
            "the broker did not confirm in time and may have stored it; redelivering it is harmless",
        ),
    };
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the webhook was not stored", detail);
    problem.with_code(code).with_retry_after(again_s)
}

#[cfg(test)]
mod tests;
