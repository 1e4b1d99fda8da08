use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use axum::http::Request;
use tokio::sync::Notify;

use super::*;

/// A store that never forgets a request. A request in progress has the response `None`.
#[derive(Default)]
struct FakeRequestStore {
    requests: Mutex<HashMap<RequestKey, (String, Option<StoredResponse>)>>,
    away: bool,
    forgotten: Notify,
}

#[async_trait]
impl IdempotencyStore for FakeRequestStore {
    async fn begin_request(
        &self,
        name: &RequestKey,
        fingerprint: &str,
        _times: IdempotencyTimeouts,
    ) -> retro_store::Result<BeginRequestResult> {
        if self.away {
            return Err(StoreError::Unavailable("secret host".to_owned()));
        }
        let mut requests = self.requests.lock().unwrap();
        Ok(match requests.get(name) {
            None => {
                requests.insert(name.clone(), (fingerprint.to_owned(), None));
                BeginRequestResult::Started(1)
            }
            Some((known, _)) if known != fingerprint => BeginRequestResult::ContentMismatch,
            Some((_, None)) => BeginRequestResult::InProgress,
            Some((_, Some(answer))) => BeginRequestResult::Answered(answer.clone()),
        })
    }

    async fn end_request(
        &self,
        name: &RequestKey,
        _token: u64,
        answer: Option<&StoredResponse>,
    ) -> retro_store::Result<()> {
        let mut requests = self.requests.lock().unwrap();
        match (requests.get_mut(name), answer) {
            (Some(row), Some(answer)) => row.1 = Some(answer.clone()),
            _ => drop(requests.remove(name)),
        }
        Ok(())
    }

    async fn purge_requests(&self, older_than_s: u64, _limit: u32) -> retro_store::Result<u64> {
        assert_eq!(older_than_s, ANSWER_TTL_S);
        self.forgotten.notify_one();
        Ok(std::mem::take(&mut *self.requests.lock().unwrap()).len() as u64)
    }
}

/// A route that counts its executions.
struct CountingRoute {
    idempotency: Idempotency,
    done: Arc<AtomicU32>,
}

impl CountingRoute {
    fn new(desk: FakeRequestStore) -> Self {
        Self { idempotency: Idempotency::new(Arc::new(desk)), done: Arc::default() }
    }

    async fn ask(&self, key: Option<&str>, content: &str, status: u16) -> (u16, bool, String) {
        let done = self.done.clone();
        let work = async move {
            let nth = done.fetch_add(1, Ordering::Relaxed) + 1;
            (StatusCode::from_u16(status).unwrap(), format!("done {nth}")).into_response()
        };
        read_response(self.idempotency.run_once(build_request(key, &[content.as_bytes()]), work).await).await
    }
}

fn build_request<'a>(key: Option<&str>, content: &'a [&'a [u8]]) -> IdempotentRequest<'a> {
    static TENANT: std::sync::LazyLock<Tenant> = std::sync::LazyLock::new(Tenant::default_tenant);
    IdempotentRequest {
        tenant: &TENANT,
        route: "POST /it",
        key: IdempotencyKey(key.map(str::to_owned)),
        content,
    }
}

async fn read_response(response: Response) -> (u16, bool, String) {
    let (status, replayed) =
        (response.status().as_u16(), response.headers().contains_key("idempotency-replayed"));
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, replayed, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn a_request_with_the_same_key_runs_once_and_its_answer_is_replayed() {
    let road = CountingRoute::new(FakeRequestStore::default());
    assert_eq!(road.ask(Some("k"), "a", 202).await, (202, false, "done 1".to_owned()));
    assert_eq!(road.ask(Some("k"), "a", 202).await, (202, true, "done 1".to_owned()));
    assert_eq!(road.ask(Some("l"), "a", 202).await, (202, false, "done 2".to_owned()));
    assert_eq!(road.ask(None, "a", 202).await, (202, false, "done 3".to_owned()));
    assert_eq!(road.ask(None, "a", 202).await, (202, false, "done 4".to_owned()));
    let (status, _, problem) = road.ask(Some("k"), "b", 202).await;
    assert!(status == 422 && problem.contains("key_reused"), "{problem}");
}

#[tokio::test]
async fn a_refusal_is_stored_and_a_temporary_failure_is_not() {
    let road = CountingRoute::new(FakeRequestStore::default());
    for (key, status, kept) in [("a", 404, true), ("b", 400, true), ("c", 503, false), ("d", 429, false)] {
        road.ask(Some(key), "x", status).await;
        let (_, replayed, _) = road.ask(Some(key), "x", 200).await;
        assert_eq!(replayed, kept, "{status}");
    }
}

#[tokio::test]
async fn work_finishes_without_its_caller_and_an_early_retry_gets_409() {
    let road = CountingRoute::new(FakeRequestStore::default());
    let (go_on, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let work = {
        let (go_on, ended) = (go_on.clone(), ended.clone());
        async move {
            go_on.notified().await;
            ended.notify_one();
            "whole".into_response()
        }
    };
    let mut first = Box::pin(road.idempotency.run_once(build_request(Some("k"), &[b"x"]), work));
    assert!(futures::poll!(&mut first).is_pending());
    drop(first);
    let (status, _, problem) = road.ask(Some("k"), "x", 200).await;
    assert!(status == 409 && problem.contains("request_under_way"), "{problem}");
    go_on.notify_one();
    ended.notified().await;
    let answer = loop {
        match road.ask(Some("k"), "x", 200).await {
            (409, ..) => tokio::task::yield_now().await,
            answer => break answer,
        }
    };
    assert_eq!(answer, (200, true, "whole".to_owned()));
    assert_eq!(road.done.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_unavailable_database_fails_only_requests_with_a_key() {
    let road = CountingRoute::new(FakeRequestStore { away: true, ..FakeRequestStore::default() });
    let (status, _, problem) = road.ask(Some("k"), "x", 200).await;
    assert!(status == 503 && problem.contains("database_away") && !problem.contains("secret"), "{problem}");
    assert_eq!(road.ask(None, "x", 200).await.0, 200);
}

#[tokio::test]
async fn expired_requests_are_purged_until_the_stop() {
    let desk = Arc::new(FakeRequestStore::default());
    let road = CountingRoute { idempotency: Idempotency::new(desk.clone()), done: Arc::default() };
    road.ask(Some("k"), "x", 202).await;
    let stop = CancellationToken::new();
    let forgetting = tokio::spawn(road.idempotency.clone().purge_expired(stop.clone()));
    desk.forgotten.notified().await;
    stop.cancel();
    forgetting.await.unwrap();
    assert!(desk.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn work_that_panics_is_a_problem() {
    let road = CountingRoute::new(FakeRequestStore::default());
    let work = async { panic!("no") };
    assert_eq!(
        read_response(road.idempotency.run_once(build_request(Some("k"), &[b"x"]), work).await).await.0,
        500
    );
}

#[test]
fn parts_of_the_content_cannot_be_shifted() {
    assert_ne!(fingerprint_content(&[b"ab", b"c"]), fingerprint_content(&[b"a", b"bc"]));
    assert_ne!(fingerprint_content(&[b""]), fingerprint_content(&[]));
    assert_eq!(fingerprint_content(&[b"ab", b"c"]), fingerprint_content(&[b"ab", b"c"]));
}

#[tokio::test]
async fn a_key_is_visible_ascii_and_given_once() {
    let read = async |keys: &[&str]| {
        let mut request = Request::get("/");
        for key in keys {
            request = request.header("Idempotency-Key", *key);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        IdempotencyKey::from_request_parts(&mut parts, &())
            .await
            .map(|key| key.0)
            .map_err(|problem| problem.path)
    };
    let path = Err(Some("Idempotency-Key".to_owned()));
    assert_eq!(read(&[]).await, Ok(None));
    assert_eq!(read(&["a-7"]).await, Ok(Some("a-7".to_owned())));
    for wrong in [&[""][..], &["a b"], &["a", "b"], &["x".repeat(256).as_str()]] {
        assert_eq!(read(wrong).await, path, "{wrong:?}");
    }
}
