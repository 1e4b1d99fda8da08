//! Checks the address of GitHub's REST API, to which a token is sent.

use url::{Host, Url};

/// Returns the address of the REST API for repositories at this host: that of github.com, or of an Enterprise
/// server.
pub fn default_api_url(host: &str) -> String {
    if host.eq_ignore_ascii_case(super::tenants::DEFAULT_HOST) {
        return "https://api.github.com".to_owned();
    }
    format!("https://{host}/api/v3")
}

/// Parses the address of an API. Fails if it is neither https nor at a loopback address, because the token would
/// be readable on its way, or if it contains credentials or a query.
pub fn parse_api_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is not a URL: {error}"))?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    if !is_plain {
        return Err("must contain neither credentials nor a query".to_owned());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err("must begin with https://; http:// is allowed for a loopback address such as \
                  http://127.0.0.1:8080"
            .to_owned()),
    }
}

/// Returns `true` if a URL's host is a loopback address. A name is none, because it may be resolved to any
/// address.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_of_a_host_has_a_known_address() {
        assert_eq!(default_api_url("GitHub.com"), "https://api.github.com");
        assert_eq!(default_api_url("ghe.example.com"), "https://ghe.example.com/api/v3");
    }

    #[test]
    fn a_token_is_sent_over_https_or_to_this_machine_only() {
        for text in [
            "https://api.github.com",
            "https://ghe.example.com/api/v3",
            "http://127.0.0.1:9",
            "http://[::1]:9/api",
        ] {
            assert!(parse_api_url(text).is_ok(), "{text}");
        }
        for text in [
            "http://api.github.com",
            "http://localhost:9",
            "http://127.0.0.1.example.com",
            "http://10.0.0.1",
            "ftp://x",
            "api.github.com",
            "https://u:p@x.example",
            "https://x.example/?a=b",
        ] {
            assert!(parse_api_url(text).is_err(), "{text}");
        }
    }
}
