//! Headers that every answer has, so that a browser or a cache between does nothing with it that it should not.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;

/// Forbids browsers to guess another type than the stated one, and caches to keep what belongs to a tenant. Scripts,
/// style sheets and images are the program's own and the same for everybody.
pub(crate) async fn add_answer_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !is_own_file(headers) {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
    response
}

fn is_own_file(headers: &HeaderMap) -> bool {
    const TYPES: [&str; 4] = ["text/css", "text/javascript", "application/javascript", "image/"];
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    TYPES.iter().any(|own| stated.starts_with(own))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::Body;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn answers_are_neither_guessed_at_nor_kept_and_own_files_may_be_kept() {
        let style = || async { ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], "") };
        let router = Router::new().route("/", get(|| async { "{}" })).route("/style.css", get(style));
        let router = router.layer(from_fn(add_answer_headers));
        let ask = async |path: &str| {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            let headers = router.clone().oneshot(request).await.unwrap().headers().clone();
            [header::X_CONTENT_TYPE_OPTIONS, header::CACHE_CONTROL]
                .map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
        };
        let (nosniff, no_store) = (Some("nosniff".to_owned()), Some("no-store".to_owned()));
        assert_eq!(ask("/").await, [nosniff.clone(), no_store.clone()]);
        assert_eq!(ask("/missing").await, [nosniff.clone(), no_store]);
        assert_eq!(ask("/style.css").await, [nosniff, None]);
    }
}
