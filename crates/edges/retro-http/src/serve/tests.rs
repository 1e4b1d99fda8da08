use axum::body::{Body, to_bytes};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tower::ServiceExt;

use axum::extract::Request;
use axum::http::{HeaderMap, header};

use super::*;
use crate::{Caller, JsonBody, PathId, QueryParams};

#[derive(serde::Deserialize)]
struct Question {
    names: Vec<u8>,
}

#[derive(serde::Deserialize)]
struct Page {
    limit: Option<u32>,
}

fn api() -> Api {
    let router = Router::new()
        .route("/who", get(|Caller(tenant): Caller| async move { tenant.to_string() }))
        .route("/ask", post(|JsonBody(ask): JsonBody<Question>| async move { ask.names.len().to_string() }))
        .route(
            "/page",
            get(|QueryParams(page): QueryParams<Page>| async move { page.limit.unwrap_or(7).to_string() }),
        )
        .route("/number/{id}", get(|PathId(id): PathId<u8>| async move { id.to_string() }));
    router.into()
}

async fn ask(request: axum::http::request::Builder, body: &str) -> (StatusCode, String, String) {
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let response = finish_router(api()).oneshot(request).await.unwrap();
    let kind = response.headers().get(header::CONTENT_TYPE).map(|kind| kind.to_str().unwrap().to_owned());
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, kind.unwrap_or_default(), String::from_utf8(bytes.to_vec()).unwrap())
}

fn local_server() -> HttpServer {
    HttpServer { authenticator: Authenticator::trusting_header(), certificate: None }
}

fn post_json() -> axum::http::request::Builder {
    Request::post("/ask").header("content-type", "application/json; charset=utf-8")
}

#[tokio::test]
async fn the_tenant_is_the_header_s_and_default_without_one() {
    assert_eq!(ask(Request::get("/who"), "").await.2, "default");
    assert_eq!(ask(Request::get("/who").header("Retro-Tenant", "acme"), "").await.2, "acme");
    let (status, _, body) = ask(Request::get("/who").header("Retro-Tenant", ""), "").await;
    assert_eq!((status, body.contains("tenant is empty")), (StatusCode::BAD_REQUEST, true), "{body}");
    let twice = Request::get("/who").header("Retro-Tenant", "a").header("Retro-Tenant", "b");
    assert_eq!(ask(twice, "").await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn every_refusal_is_a_problem_with_the_path_of_its_field() {
    assert_eq!(ask(post_json(), r#"{"names":[1,2],"later":true}"#).await.2, "2", "positive control");
    assert_eq!(ask(Request::get("/page?limit=3"), "").await.2, "3", "positive control");
    let large = format!(r#"{{"names":[{}1]}}"#, "1,".repeat(BODY_BYTES_MAX));
    let cases = [
        (post_json(), r#"{"names":[1,"two"]}"#, 400, json!("names[1]")),
        (post_json(), r#"{"names":3}"#, 400, json!("names")),
        (post_json(), r#"{"names":"#, 400, Value::Null),
        (post_json(), r#"{}"#, 400, Value::Null),
        (post_json(), r#"{"names":[]} {}"#, 400, Value::Null),
        (post_json(), "\u{0}", 400, Value::Null),
        (post_json(), &large, 413, Value::Null),
        (Request::post("/ask"), r#"{"names":[]}"#, 415, Value::Null),
        (Request::get("/page?limit=many"), "", 400, json!("limit")),
        (Request::get("/page?limit=-1"), "", 400, json!("limit")),
        (Request::get("/number/twelve"), "", 400, json!("id")),
        (Request::get("/number/%ff"), "", 400, json!("id")),
        (Request::get("/nowhere"), "", 404, Value::Null),
        (Request::delete("/who"), "", 405, Value::Null),
        (Request::get("/who").header("host", "evil.example"), "", 403, Value::Null),
        (Request::get("/who").header("host", "evil example"), "", 403, Value::Null),
    ];
    for (request, body, status, path) in cases {
        let shown = format!("{:?} {:.60}", request.uri_ref(), body);
        let (got, kind, body) = ask(request, body).await;
        let problem: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{shown}: {body}"));
        assert_eq!((got.as_u16(), kind.as_str()), (status, "application/problem+json"), "{shown}: {body}");
        assert_eq!(problem.get("path").cloned().unwrap_or_default(), path, "{shown}: {body}");
        assert_eq!(problem["status"], status, "{shown}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.len() > 10), "{shown}: {body}");
    }
}

#[tokio::test]
async fn local_names_are_served() {
    for host in ["localhost:8080", "127.0.0.1", "127.0.0.1:1", "[::1]:80", "LOCALHOST"] {
        assert_eq!(ask(Request::get("/who").header("host", host), "").await.0, StatusCode::OK, "{host}");
    }
}

#[test]
fn the_preferred_media_type_wins_and_the_first_when_nothing_fits() {
    let chosen = |accept: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        crate::negotiate_media_type(&headers, &["application/json", "text/markdown"])
    };
    assert_eq!(chosen("text/markdown"), "text/markdown");
    assert_eq!(chosen("text/*;q=0.9, application/json;q=0.1"), "text/markdown");
    assert_eq!(chosen("*/*"), "application/json");
    assert_eq!(chosen("*/*, text/markdown;q=0.1"), "application/json");
    assert_eq!(chosen("application/json;q=0, */*"), "text/markdown");
    assert_eq!(chosen("image/png"), "application/json");
    assert_eq!(crate::negotiate_media_type(&HeaderMap::new(), &["application/json"]), "application/json");
}

#[tokio::test]
async fn an_address_other_than_loopback_is_refused() {
    let error = listen(([0, 0, 0, 0], 0).into()).await.unwrap_err().to_string();
    assert!(error.starts_with("refusing to listen on 0.0.0.0:0") && error.contains("127.0.0.1"), "{error}");
    let everywhere = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let served = local_server().serve(everywhere, api(), CancellationToken::new()).await;
    assert!(matches!(served, Err(ServeError::NotLoopback(_))), "{served:?}");
}

#[tokio::test]
async fn a_stop_lets_requests_in_progress_finish() {
    let (begun, go_on) = (std::sync::Arc::new(Notify::new()), std::sync::Arc::new(Notify::new()));
    let handler = {
        let (begun, go_on) = (begun.clone(), go_on.clone());
        move || async move {
            begun.notify_one();
            go_on.notified().await;
            "whole"
        }
    };
    let listener = listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let slow = Router::new().route("/slow", get(handler));
    let served = tokio::spawn(local_server().serve(listener, slow.into(), stop.clone()));
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(b"GET /slow HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.unwrap();
    begun.notified().await;
    stop.cancel();
    go_on.notify_one();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("whole"), "{answer}");
    served.await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nothing listens any more");
}

#[tokio::test]
async fn only_health_is_served_to_other_machines() {
    use std::sync::Arc;

    use crate::{Probes, Readiness};
    let listener = listen_anywhere(([0, 0, 0, 0], 0).into()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let missing = || Readiness::NotReady("the broker is away".to_owned());
    let probes = Probes { ready: Arc::new(missing), metrics: Arc::new(|| "retro_build_info 1\n".to_owned()) };
    let serving = tokio::spawn(serve_health(listener, probes, stop.clone()));
    for (path, status, expected) in [
        ("/livez", "200", "ok"),
        ("/readyz", "503", "the broker is away"),
        ("/metrics", "200", "text/plain; version=0.0.4"),
        ("/metrics", "200", "retro_build_info 1"),
        ("/v1/memories", "404", "nothing is served at /v1/memories"),
    ] {
        let mut stream = TcpStream::connect(("127.0.0.1", address.port())).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: 10.1.2.3:80\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(expected), "{answer}");
    }
    stop.cancel();
    serving.await.unwrap().unwrap();
    let everywhere = listen(([0, 0, 0, 0], 0).into()).await;
    assert!(matches!(everywhere, Err(ServeError::NotLoopback(_))), "the rest stays on loopback");
}
