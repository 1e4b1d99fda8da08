use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::routing::get;
use base64::Engine as _;
use retro_core::access::{AccessToken, SecretToken, TOKEN_RANDOM_BYTES, TokenId};
use retro_core::attribution::Attribution;
use retro_store::{AccessTokenStore, CreateTokenResult, NewAccessToken, Result, StoreError, UsableToken};
use tokio::time::advance;
use tower::ServiceExt as _;

use super::*;
use crate::{Api, RouteAccess, finish_router_for};

/// A store of tokens that may fail, or never answer.
#[derive(Default)]
struct FakeStore {
    tokens: Mutex<Vec<UsableToken>>,
    fails: AtomicBool,
    hangs: AtomicBool,
    loads: AtomicUsize,
    used: Mutex<Vec<TokenId>>,
}

#[async_trait]
impl AccessTokenStore for FakeStore {
    async fn create_access_token(&self, _token: &NewAccessToken) -> Result<CreateTokenResult> {
        unreachable!("no server creates tokens")
    }

    async fn list_access_tokens(&self, _tenant: &Tenant, _limit: u32) -> Result<Vec<AccessToken>> {
        unreachable!("no server lists tokens")
    }

    async fn revoke_access_token(&self, _tenant: &Tenant, _id: &TokenId, _act: &Attribution) -> Result<bool> {
        unreachable!("no server revokes tokens")
    }

    async fn load_usable_tokens(&self) -> Result<Vec<UsableToken>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if self.fails.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("the database is away".to_owned()));
        }
        Ok(self.tokens.lock().unwrap().clone())
    }

    async fn record_token_use(&self, used: &[TokenId]) -> Result<()> {
        self.used.lock().unwrap().extend_from_slice(used);
        Ok(())
    }
}

fn token(byte: u8) -> SecretToken {
    SecretToken::from_random([byte; TOKEN_RANDOM_BYTES])
}

struct World {
    store: Arc<FakeStore>,
    app: Router,
}

impl World {
    /// Creates a server that requires tokens, and answers 10 requests per second of each.
    fn new() -> Self {
        Self::with_authenticator(Authenticator::with_required_tokens)
    }

    fn with_authenticator(authenticator: impl Fn(Arc<TokenRegistry>) -> Authenticator) -> Self {
        let store = Arc::new(FakeStore::default());
        let registry = TokenRegistry::new(store.clone(), 10, Duration::from_millis(200));
        let who = async |Caller(tenant): Caller| tenant.to_string();
        let api = |path: &str, access| Api::from(Router::new().route(path, get(who).post(who))).allow(access);
        let api = api("/emit", RouteAccess::Emit)
            .merge(api("/context", RouteAccess::Context))
            .merge(api("/memory", RouteAccess::ContextOrRead))
            .merge(api("/people", RouteAccess::People))
            .merge(api("/metrics", RouteAccess::AnyToken))
            .merge(Api::from(Router::new().route("/forgotten", get(who))))
            .merge(Api::from(Router::new().route("/livez", get(|| async { "ok" }))));
        Self { store, app: finish_router_for(api, authenticator(registry)) }
    }

    fn add(&self, token: &SecretToken, tenant: &str, scopes: &str) {
        self.store.tokens.lock().unwrap().push(UsableToken {
            id: token.id().clone(),
            name: "ci-ops".parse().unwrap(),
            digest: token.digest(),
            tenant: Tenant::new(tenant).unwrap(),
            scopes: scopes.parse().unwrap(),
            valid_for: None,
        });
    }

    async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let request = Request::builder().method(method).uri(path);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = self.app.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        assert_eq!(status == 401, response.headers().contains_key("www-authenticate"), "{path}");
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Sends a GET with a token.
    async fn get(&self, path: &str, token: &SecretToken) -> (u16, String) {
        self.send("GET", path, &[("authorization", &format!("Bearer {}", token.expose()))]).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_decides_the_tenant_and_what_a_request_may_do() {
    let world = World::new();
    let allowed = [
        ("emit", "GET /emit, POST /emit, GET /metrics, POST /metrics"),
        ("context", "GET /context, POST /context, GET /memory, POST /memory, GET /metrics, POST /metrics"),
        ("read", "GET /memory, POST /memory, GET /people, GET /metrics, POST /metrics"),
        ("operate", "GET /memory, POST /memory, GET /people, POST /people, GET /metrics, POST /metrics"),
    ];
    for (nth, (scope, expected)) in allowed.iter().enumerate() {
        let token = token(u8::try_from(nth).unwrap());
        world.add(&token, scope, scope);
        advance(Duration::from_secs(2)).await;
        let mut answered = Vec::new();
        for path in ["/emit", "/context", "/memory", "/people", "/metrics", "/forgotten"] {
            for method in ["GET", "POST"] {
                advance(Duration::from_millis(200)).await;
                let header = format!("bearer {}", token.expose());
                let (status, body) = world.send(method, path, &[("authorization", &header)]).await;
                match status {
                    200 => {
                        assert_eq!(body, *scope, "the tenant is the token's");
                        answered.push(format!("{method} {path}"));
                    }
                    403 => assert!(body.contains("insufficient_scope"), "{body}"),
                    405 => assert_eq!(path, "/forgotten"),
                    _ => panic!("{method} {path}: {status} {body}"),
                }
            }
        }
        assert_eq!(answered.join(", "), *expected, "{scope}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_valid_token_is_answered_for_probes_only() {
    let world = World::new();
    let good = token(1);
    world.add(&good, "acme", "emit,context,operate");
    let bearer = |text: &str| format!("Bearer {text}");
    let forged = format!("{}{}", &good.expose()[..23], &token(2).expose()[23..]);
    assert_eq!(SecretToken::parse(&forged).unwrap().id(), good.id(), "only its secret differs");
    let basic = |user: &str, password: &str| {
        let credential = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        format!("Basic {credential}")
    };
    let tenant = ("retro-tenant", "acme");
    let cases: [(&[(&str, &str)], u16); 11] = [
        (&[("authorization", &bearer(good.expose()))], 200),
        (&[("authorization", &basic("ada", good.expose()))], 200),
        (&[("authorization", &bearer(good.expose())), tenant], 200),
        (&[("authorization", &bearer(good.expose())), ("retro-tenant", "other")], 403),
        (&[tenant], 401),
        (&[], 401),
        (&[("authorization", &bearer(&forged)), tenant], 401),
        (&[("authorization", &bearer(token(3).expose())), tenant], 401),
        (&[("authorization", &bearer("")), tenant], 401),
        (&[("authorization", good.expose()), tenant], 401),
        (&[("authorization", &bearer(good.expose())), ("authorization", &bearer(good.expose()))], 401),
    ];
    for (headers, status) in cases {
        for path in ["/emit", "/context", "/memory", "/people"] {
            advance(Duration::from_millis(200)).await;
            let (got, body) = world.send("GET", path, headers).await;
            assert_eq!(got, status, "{path} {headers:?}: {body}");
            assert!(status == 200 || !body.contains(&good.expose()[30..]), "{body}");
        }
    }
    for path in ["/livez", "/v1/openapi.json"] {
        assert_eq!(world.send("GET", path, &[]).await.0, 200, "{path}");
    }
    assert_eq!(world.send("GET", "/metrics", &[]).await.0, 401);
    assert_eq!(world.send("GET", "/forgotten", &[]).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn on_loopback_the_header_is_trusted_but_a_refused_token_is_not_ignored() {
    let world = World::with_authenticator(Authenticator::with_optional_tokens);
    let good = token(1);
    world.add(&good, "acme", "context");
    let bearer = format!("Bearer {}", good.expose());
    let refused = format!("Bearer {}", token(2).expose());
    for (headers, expected) in [
        (&[][..], (200, "default")),
        (&[("retro-tenant", "other")], (200, "other")),
        (&[("authorization", bearer.as_str())], (200, "acme")),
        (&[("authorization", bearer.as_str()), ("retro-tenant", "other")], (403, "")),
        (&[("authorization", refused.as_str()), ("retro-tenant", "other")], (401, "")),
    ] {
        let (status, body) = world.send("POST", "/context", headers).await;
        let shown = if status == 200 { body.as_str() } else { "" };
        assert_eq!((status, shown), expected, "{headers:?}");
    }
    assert_eq!(world.send("POST", "/people", &[]).await.0, 200, "a person on the machine");
    assert_eq!(world.send("POST", "/people", &[("authorization", &bearer)]).await.0, 403);
}

#[tokio::test(start_paused = true)]
async fn a_new_token_is_accepted_at_once_and_a_revoked_one_for_seconds_only() {
    let world = World::new();
    let (first, second) = (token(1), token(2));
    world.add(&first, "acme", "context");
    assert_eq!(world.get("/context", &first).await.0, 200);
    world.add(&second, "acme", "context");
    assert_eq!(world.get("/context", &second).await.0, 200, "it waits for them to be loaded again");
    // Many wrong tokens at once wait for the same two loads.
    let loads = world.store.loads.load(Ordering::Relaxed);
    let wrong: Vec<_> = (10..60).map(token).collect();
    for (status, _) in futures::future::join_all(wrong.iter().map(|token| world.get("/context", token))).await
    {
        assert_eq!(status, 401);
    }
    assert!(world.store.loads.load(Ordering::Relaxed) <= loads + 2);
    world.store.tokens.lock().unwrap().retain(|token| token.id != *first.id());
    let mut accepted = Duration::ZERO;
    while world.get("/context", &first).await.0 == 200 {
        advance(Duration::from_millis(500)).await;
        accepted += Duration::from_millis(500);
    }
    assert!(accepted <= Duration::from_secs(REVOKED_WITHIN_S), "{accepted:?}");
    // Also if nobody has asked for long.
    world.store.tokens.lock().unwrap().clear();
    advance(Duration::from_secs(REVOKED_WITHIN_S)).await;
    assert_eq!(world.get("/context", &second).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_is_refused_from_its_time_on() {
    let world = World::new();
    let brief = token(1);
    world.add(&brief, "acme", "context");
    world.store.tokens.lock().unwrap()[0].valid_for = Some(Duration::from_millis(1500));
    assert_eq!(world.get("/context", &brief).await.0, 200);
    world.store.fails.store(true, Ordering::Relaxed);
    advance(Duration::from_millis(1499)).await;
    assert_eq!(world.get("/context", &brief).await.0, 200);
    advance(Duration::from_millis(1)).await;
    assert_ne!(world.get("/context", &brief).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn known_tokens_are_accepted_for_a_minute_without_the_database() {
    let world = World::new();
    let (known, unknown) = (token(1), token(2));
    world.add(&known, "acme", "context");
    assert_eq!(world.get("/context", &known).await.0, 200);
    world.store.hangs.store(true, Ordering::Relaxed);
    advance(Duration::from_secs(30)).await;
    let asked = tokio::time::Instant::now();
    for _ in 0..5 {
        assert_eq!(world.get("/context", &known).await.0, 200);
        let (status, body) = world.get("/context", &unknown).await;
        assert_eq!((status, body.contains("cannot be checked")), (503, true), "{body}");
    }
    assert!(
        asked.elapsed() <= Duration::from_millis(301),
        "one of them waited, not each: {:?}",
        asked.elapsed()
    );
    advance(Duration::from_secs(UNREACHABLE_S_MAX)).await;
    assert_eq!(world.get("/context", &known).await.0, 503);
    world.store.hangs.store(false, Ordering::Relaxed);
    advance(Duration::from_secs(1)).await;
    assert_eq!(world.get("/context", &known).await.0, 200);
    assert_eq!(world.get("/context", &unknown).await.0, 401);
}

#[tokio::test(start_paused = true)]
async fn each_token_has_its_rate_and_its_last_use_is_recorded_about_once_a_minute() {
    let world = World::new();
    let (busy, calm) = (token(1), token(2));
    world.add(&busy, "acme", "context");
    world.add(&calm, "acme", "context");
    let mut answered = 0;
    for _ in 0..30 {
        match world.get("/context", &busy).await {
            (200, _) => answered += 1,
            (status, body) => assert_eq!((status, body.contains("too_many_requests")), (429, true), "{body}"),
        }
    }
    assert_eq!(answered, 10);
    assert_eq!(world.get("/context", &calm).await.0, 200, "another token");
    for _ in 0..20 {
        advance(Duration::from_secs(5)).await;
        assert_eq!(world.get("/context", &busy).await.0, 200);
        tokio::task::yield_now().await;
    }
    let uses = |token: &SecretToken| {
        world.store.used.lock().unwrap().iter().filter(|used| *used == token.id()).count()
    };
    assert_eq!((uses(&busy), uses(&calm)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn another_site_may_link_to_what_people_read_and_nothing_else() {
    let world = World::with_authenticator(Authenticator::with_optional_tokens);
    let foreign = |mode| [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", mode)];
    for (method, path, mode, status) in [
        ("GET", "/people", "navigate", 200),
        ("POST", "/people", "navigate", 403),
        ("GET", "/people", "no-cors", 403),
        ("GET", "/memory", "navigate", 403),
        ("POST", "/emit", "cors", 403),
        ("GET", "/context", "navigate", 403),
    ] {
        assert_eq!(world.send(method, path, &foreign(mode)).await.0, status, "{method} {path} {mode}");
        let own = [("sec-fetch-site", "same-origin"), ("sec-fetch-mode", mode)];
        assert_eq!(world.send(method, path, &own).await.0, 200, "{method} {path} {mode}");
    }
}
