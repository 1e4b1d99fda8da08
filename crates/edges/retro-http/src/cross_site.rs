//! Refuses requests that a page of another site makes its visitor's browser send.
//!
//! A browser adds what it knows to such a request: credentials that a person typed earlier, or the position on the
//! machine on which the server listens. It also says where the request comes from, which a page cannot change:
//! `Sec-Fetch-Site`, or in old browsers `Origin`. Programs that are no browsers send neither.

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::problem::Problem;

/// Marks a request by which a person follows a link of another site. It may show something, and must change nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForeignNavigation;

impl IntoResponse for &ForeignNavigation {
    fn into_response(self) -> Response {
        refuse()
    }
}

/// Refuses a request of another site, unless a person follows a link: those are marked.
pub(crate) fn refuse_cross_site_request(request: &mut Request) -> Option<Response> {
    if !is_cross_site(request.headers(), request.uri()) {
        return None;
    }
    let is_navigation = request.headers().get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    if !is_navigation || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some(refuse());
    }
    request.extensions_mut().insert(ForeignNavigation);
    None
}

fn refuse() -> Response {
    Problem::new(
        StatusCode::FORBIDDEN,
        "a page of another site asks",
        "a browser sent this request for a page of another site; only links to what people read may come from there",
    )
    .with_code("cross_site")
    .into_response()
}

fn is_cross_site(headers: &HeaderMap, uri: &Uri) -> bool {
    if let Some(site) = headers.get("sec-fetch-site") {
        return site != "same-origin" && site != "none";
    }
    let Some(origin) = headers.get(header::ORIGIN) else { return false };
    // `null`, and whatever cannot be read, is another site.
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let host = uri.authority().cloned().or_else(|| headers.get(header::HOST)?.to_str().ok()?.parse().ok());
    origin.as_ref().and_then(Uri::authority).map(Authority::as_str) != host.as_ref().map(Authority::as_str)
        || host.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_foreign(headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        map.insert("host", "retro.example:8443".parse().unwrap());
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        is_cross_site(&map, &Uri::from_static("/v1/memories"))
    }

    #[test]
    fn what_a_browser_says_decides_and_programs_say_nothing() {
        for own in [
            &[][..],
            &[("sec-fetch-site", "same-origin")],
            &[("sec-fetch-site", "none")],
            &[("origin", "https://retro.example:8443")],
            &[("sec-fetch-site", "same-origin"), ("origin", "null")],
        ] {
            assert!(!is_foreign(own), "{own:?}");
        }
        for foreign in [
            &[("sec-fetch-site", "cross-site")][..],
            &[("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "surprise")],
            &[("origin", "null")],
            &[("origin", "https://evil.example")],
            &[("origin", "https://retro.example")],
            &[("origin", "https://retro.example:8443.evil.example")],
        ] {
            assert!(is_foreign(foreign), "{foreign:?}");
        }
    }
}
