//! Tests of all checks: the addresses and responses that they refuse, and those that they allow.

mod world;

use std::time::Duration;

use retro_events::ObjectError;
use world::{BODY, PUBLIC_ADDRESS, Page, World, create_authority, parse_address};

const BODY_URL: &str = "https://runs.example.com/1.json?right=s3cret";

/// Internal addresses that a name or a redirect could lead to.
const INTERNAL_ADDRESSES: [&str; 12] = [
    "127.0.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "169.254.169.254",
    "224.0.0.1",
    "::1",
    "::ffff:10.0.0.1",
    "fe80::1",
    "fd00:ec2::254",
];

#[tokio::test]
async fn a_body_is_fetched_from_the_address_that_was_checked() {
    let world = World::start().await;
    world.serve_body(BODY_URL, BODY);
    world.add_resolution("runs.example.com", &[PUBLIC_ADDRESS]);
    // A second resolution, between the check and the connection, would return an internal address.
    world.add_resolution("runs.example.com", &["127.0.0.1"]);
    assert_eq!(world.fetch_body(BODY_URL).await.unwrap(), BODY);
    assert_eq!(
        *world.network().requested_hosts.lock().unwrap(),
        ["runs.example.com"],
        "a name is resolved once"
    );
    assert_eq!(*world.network().connected.lock().unwrap(), [(parse_address(PUBLIC_ADDRESS), 443).into()]);
    let rebound = world.fetch_gone(BODY_URL).await;
    assert!(rebound.contains("127.0.0.1") && rebound.contains("not of the open internet"), "{rebound}");
}

#[tokio::test]
async fn disallowed_urls_are_refused_without_any_request() {
    let world = World::start().await;
    for url in [
        "file:///etc/passwd",
        "FILE:///etc/passwd",
        "/etc/passwd",
        "../1.json",
        "http://runs.example.com/1.json",
        "gopher://runs.example.com/",
    ] {
        world.fetch_gone(url).await;
    }
    for within in INTERNAL_ADDRESSES {
        let host = if within.contains(':') { format!("[{within}]") } else { within.to_owned() };
        assert!(world.fetch_gone(&format!("https://{host}/")).await.contains("numeric"), "{within}");
    }
    for host in ["localhost", "evil.example", "runs.example.com:8443", "runs.example.com.evil.example"] {
        assert!(world.fetch_gone(&format!("https://{host}/")).await.contains("does not name"), "{host}");
    }
    assert!(world.fetch_gone("https://me:s3cret@runs.example.com/").await.contains("credentials"));
    assert!(world.network().requested_hosts.lock().unwrap().is_empty());
    assert!(world.network().connected.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_name_with_an_internal_address_is_refused_before_connecting() {
    for within in INTERNAL_ADDRESSES {
        let world = World::start().await;
        world.serve_body(BODY_URL, BODY);
        world.add_resolution("runs.example.com", &[PUBLIC_ADDRESS, within]);
        assert!(world.fetch_gone(BODY_URL).await.contains(within));
        assert!(world.network().connected.lock().unwrap().is_empty(), "{within}");
    }
}

#[tokio::test]
async fn a_redirect_passes_the_same_checks() {
    let world = World::start().await;
    let to = "https://files.example.com/1.json";
    world.serve_redirect(BODY_URL, to);
    world.serve_body(to, BODY);
    assert_eq!(
        world.fetch_body(BODY_URL).await.unwrap(),
        BODY,
        "a redirect to another allowed host is followed"
    );
    for location in [
        "file:///etc/passwd",
        "http://files.example.com/",
        "https://evil.example/",
        "//localhost/",
        "https://2130706433/",
    ] {
        world.serve_redirect(BODY_URL, location);
        assert!(world.fetch_gone(BODY_URL).await.contains("redirected to what"), "{location}");
    }
    for within in INTERNAL_ADDRESSES {
        let host = if within.contains(':') { format!("[{within}]") } else { within.to_owned() };
        world.serve_redirect(BODY_URL, &format!("https://{host}/"));
        assert!(world.fetch_gone(BODY_URL).await.contains("numeric"), "{within}");
    }
    world.serve_redirect(BODY_URL, to);
    world.add_resolution("files.example.com", &["169.254.169.254"]);
    assert!(
        world.fetch_gone(BODY_URL).await.contains("169.254.169.254"),
        "a redirect to a name with an internal address"
    );
    world.serve_response(BODY_URL, "302 Found", "content-length: 0\r\n", "");
    assert!(world.fetch_gone(BODY_URL).await.contains("nowhere"));
    let connected = world.network().connected.lock().unwrap();
    assert!(connected.iter().all(|address| address.ip() == parse_address(PUBLIC_ADDRESS)), "{connected:?}");
}

#[tokio::test]
async fn three_redirects_are_followed_and_a_fourth_is_not() {
    let world = World::start().await;
    let at = |nth: usize| format!("https://runs.example.com/{nth}");
    for nth in 0..4 {
        world.serve_redirect(&at(nth), &format!("/{}", nth + 1));
    }
    world.serve_body(&at(4), BODY);
    assert_eq!(world.fetch_body(&at(1)).await.unwrap(), BODY);
    assert_eq!(world.fetch_gone(&at(0)).await, "it was redirected more than 3 times");
    world.serve_redirect(&at(4), &at(4));
    world.fetch_gone(&at(4)).await;
}

#[tokio::test]
async fn bytes_with_another_hash_are_refused() {
    let world = World::start().await;
    world.serve_body(BODY_URL, b"{}");
    assert!(world.fetch_gone(BODY_URL).await.contains("was promised"));
    world.serve_page(
        BODY_URL,
        Page::Whole(format!("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}", "x".repeat(50))),
    );
    let cut_off = world.fetch_unavailable(BODY_URL).await;
    assert!(!cut_off.contains("s3cret"), "{cut_off}");
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_with_or_without_a_length() {
    let world = World::start().await;
    world.serve_response(BODY_URL, "200 OK", "content-length: 1025\r\n", "");
    assert!(world.fetch_gone(BODY_URL).await.contains("larger than the 1024 bytes"));
    let chunk = format!("200\r\n{}\r\n", "x".repeat(0x200));
    world.serve_page(
        BODY_URL,
        Page::Stuck(format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{}", chunk.repeat(3))),
    );
    assert!(
        world.fetch_gone(BODY_URL).await.contains("larger than the 1024 bytes"),
        "a body without a length"
    );
    let head = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(64 * 1024));
    world.serve_page(BODY_URL, Page::Whole(head));
    world.fetch_unavailable(BODY_URL).await;
}

#[tokio::test]
async fn a_slow_host_is_unavailable() {
    let world = World::start().await;
    for sent in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 41\r\n\r\n{"] {
        world.serve_page(BODY_URL, Page::Stuck(sent.to_owned()));
        let problem = world.fetch_body_within(BODY_URL, Duration::from_millis(500)).await.unwrap_err();
        assert!(problem.to_string().contains("no whole answer within 500 ms"), "{sent:?}: {problem}");
        assert!(matches!(problem, ObjectError::Unavailable(_)), "the request can be retried");
    }
}

#[tokio::test]
async fn a_host_without_a_valid_certificate_gets_no_request() {
    let world = World::start().await;
    world.serve_body(BODY_URL, BODY);
    let (strangers, _) = create_authority(&["runs.example.com"]);
    let untrusted = world.fetch_body_trusting(BODY_URL, strangers).await.unwrap_err().to_string();
    assert!(untrusted.contains("certificate"), "{untrusted}");
    assert!(!untrusted.contains("s3cret"), "{untrusted}");
    world.fetch_body(BODY_URL).await.unwrap();
}

#[tokio::test]
async fn permanent_statuses_are_gone_and_transient_ones_unavailable() {
    let world = World::start().await;
    for status in [
        "204 No Content",
        "206 Partial Content",
        "304 Not Modified",
        "401 Unauthorized",
        "403 Forbidden",
        "410 Gone",
    ] {
        world.serve_response(BODY_URL, status, "", "");
        assert!(world.fetch_gone(BODY_URL).await.contains(status), "{status}");
    }
    assert!(world.fetch_gone("https://runs.example.com/nowhere").await.contains("404"));
    for status in [
        "408 Request Timeout",
        "429 Too Many Requests",
        "500 Internal Server Error",
        "503 Service Unavailable",
    ] {
        world.serve_response(BODY_URL, status, "content-length: 0\r\n", "");
        assert!(world.fetch_unavailable(BODY_URL).await.contains(status), "{status}");
    }
}
