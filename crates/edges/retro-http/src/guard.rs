//! Stands before all routes of the agents' and the people's API.
//!
//! One layer does all of it, because each layer of a router clones everything below it for each request.

use std::net::IpAddr;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use crate::answer_headers::add_answer_headers;
use crate::authentication::{Authenticator, authenticate_requests};
use crate::cross_site::refuse_cross_site_request;
use crate::problem::Problem;

/// Refuses requests for a foreign host and of another site, authenticates the others, and adds the headers that every
/// answer has.
pub(crate) async fn guard_requests(
    State(authenticator): State<Authenticator>,
    mut request: Request,
    next: Next,
) -> Response {
    // Where each request needs a token, a page under another name has none.
    let foreign = if authenticator.requires_token() { None } else { refuse_foreign_host(&request) };
    let mut response = match foreign.or_else(|| refuse_cross_site_request(&mut request)) {
        Some(refusal) => refusal,
        None => authenticate_requests(State(authenticator), request, next).await,
    };
    add_answer_headers(response.headers_mut());
    response
}

/// Refuses a request for a host name that is not local. A browser sends the host of the page's URL, so a
/// foreign name reveals a page whose host name resolves to loopback (DNS rebinding).
fn refuse_foreign_host(request: &Request) -> Option<Response> {
    let host = find_host(request.headers(), request.uri())?;
    let refuse = || {
        let detail = "only requests for localhost, 127.0.0.1 or [::1] are answered";
        Problem::new(StatusCode::FORBIDDEN, "the host is not local", detail).into_response()
    };
    (!is_local(&host)).then(refuse)
}

fn find_host(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    if let Some(host) = uri.host() {
        return Some(host.to_owned());
    }
    let value = headers.get(header::HOST)?;
    // A host that cannot be parsed counts as foreign.
    let authority = value.to_str().ok().and_then(|text| text.parse::<Authority>().ok());
    Some(authority.map_or_else(String::new, |authority| authority.host().to_owned()))
}

fn is_local(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}
