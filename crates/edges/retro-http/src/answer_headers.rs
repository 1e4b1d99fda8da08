//! Headers that every answer has, so that a browser or a cache between does nothing with it that it should not.

use axum::http::{HeaderMap, HeaderValue, header};

/// Forbids browsers to guess another type than the stated one, and caches to keep what belongs to a tenant. Scripts,
/// style sheets and images are the program's own and the same for everybody.
pub(crate) fn add_answer_headers(headers: &mut HeaderMap) {
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !is_own_file(headers) {
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    }
}

fn is_own_file(headers: &HeaderMap) -> bool {
    const TYPES: [&str; 4] = ["text/css", "text/javascript", "application/javascript", "image/"];
    let stated = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    TYPES.iter().any(|own| stated.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_neither_guessed_at_nor_kept_and_own_files_may_be_kept() {
        let complete = |content_type: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.extend(content_type.map(|text| (header::CONTENT_TYPE, HeaderValue::from_static(text))));
            add_answer_headers(&mut headers);
            [header::X_CONTENT_TYPE_OPTIONS, header::CACHE_CONTROL]
                .map(|name| headers.get(name).map(|value| value.to_str().unwrap().to_owned()))
        };
        let (nosniff, no_store) = (Some("nosniff".to_owned()), Some("no-store".to_owned()));
        assert_eq!(complete(Some("application/json")), [nosniff.clone(), no_store.clone()]);
        assert_eq!(complete(None), [nosniff.clone(), no_store]);
        assert_eq!(complete(Some("text/css; charset=utf-8")), [nosniff, None]);
    }
}
