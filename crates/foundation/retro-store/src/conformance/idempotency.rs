//! Conformance cases for requests that carry an idempotency key.

use futures::future::join;

use super::Database;
use super::scenario::test_tenant;
use crate::{BeginRequestResult, IdempotencyTimeouts, RequestKey, Store, StoredResponse};

/// Timeouts that do not expire during a case.
const LONG: IdempotencyTimeouts = IdempotencyTimeouts { lock_timeout_s: 600, retention_s: 6000 };
/// Timeouts that let any caller take over a request immediately.
const IMPATIENT: IdempotencyTimeouts = IdempotencyTimeouts { lock_timeout_s: 0, ..LONG };

/// Checks that a repeated request gets the stored response byte for byte and is not processed again.
pub async fn a_request_is_processed_once_and_its_response_is_repeated(database: &Database) {
    let token = begin_now(&*database.one, &request_key("k"), LONG).await;
    assert_eq!(begin_request(&*database.two, &request_key("k"), LONG).await, BeginRequestResult::InProgress);
    database.one.end_request(&request_key("k"), token, Some(&new_response())).await.expect("ending");
    for times in [LONG, IMPATIENT] {
        assert_eq!(
            begin_request(&*database.two, &request_key("k"), times).await,
            BeginRequestResult::Answered(new_response())
        );
    }
}

/// Checks that only one of two processes that receive a request concurrently processes it.
pub async fn of_two_that_begin_a_request_at_once_one_may_do_it(database: &Database) {
    let name = request_key("k");
    let (one, two) =
        join(begin_request(&*database.one, &name, LONG), begin_request(&*database.two, &name, LONG)).await;
    let both = [one, two];
    assert_eq!(
        both.iter().filter(|begun| matches!(begun, BeginRequestResult::Started(_))).count(),
        1,
        "{both:?}"
    );
    assert_eq!(both.iter().filter(|begun| **begun == BeginRequestResult::InProgress).count(), 1, "{both:?}");
}

/// Checks that reusing a key for different content is reported, whether or not the first request has ended.
pub async fn other_content_under_the_same_key_is_a_mismatch(database: &Database) {
    let token = begin_now(&*database.one, &request_key("k"), LONG).await;
    let other = async |times| {
        database.two.begin_request(&request_key("k"), &"1".repeat(64), times).await.expect("beginning")
    };
    assert_eq!(other(IMPATIENT).await, BeginRequestResult::ContentMismatch);
    database.one.end_request(&request_key("k"), token, Some(&new_response())).await.expect("ending");
    assert_eq!(other(IMPATIENT).await, BeginRequestResult::ContentMismatch);
    let forgetful = IdempotencyTimeouts { retention_s: 0, ..LONG };
    assert!(
        matches!(other(forgetful).await, BeginRequestResult::Started(_)),
        "a response is not kept for ever"
    );
}

/// Checks that a request of a crashed process is taken over after the timeout, and that the original process
/// can no longer store its response.
pub async fn an_abandoned_request_is_taken_over_and_its_late_response_is_dropped(database: &Database) {
    let late = begin_now(&*database.one, &request_key("k"), LONG).await;
    let token = begin_now(&*database.two, &request_key("k"), IMPATIENT).await;
    assert!(token > late);
    database.one.end_request(&request_key("k"), late, Some(&new_response())).await.expect("ending");
    database.one.end_request(&request_key("k"), late, None).await.expect("ending");
    assert_eq!(begin_request(&*database.one, &request_key("k"), LONG).await, BeginRequestResult::InProgress);
    let right = StoredResponse { status: 207, ..new_response() };
    database.two.end_request(&request_key("k"), token, Some(&right)).await.expect("ending");
    assert_eq!(
        begin_request(&*database.one, &request_key("k"), LONG).await,
        BeginRequestResult::Answered(right)
    );
}

/// Checks that a request that ended without a response, after a transient failure, can be retried with any
/// result.
pub async fn a_request_that_ends_without_a_response_can_be_repeated(database: &Database) {
    let token = begin_now(&*database.one, &request_key("k"), LONG).await;
    database.one.end_request(&request_key("k"), token, None).await.expect("ending");
    begin_now(&*database.two, &request_key("k"), LONG).await;
}

/// Checks that tenant, route and key together identify a request.
pub async fn requests_of_other_tenants_and_routes_are_separate(database: &Database) {
    let own = request_key("k");
    let token = begin_now(&*database.one, &own, LONG).await;
    database.one.end_request(&own, token, Some(&new_response())).await.expect("ending");
    for other in [
        RequestKey { tenant: test_tenant("u"), ..own.clone() },
        RequestKey { route: "POST /v1/other", ..own.clone() },
        RequestKey { key: "K".to_owned(), ..own.clone() },
    ] {
        begin_now(&*database.one, &other, LONG).await;
    }
    assert_eq!(
        begin_request(&*database.one, &own, LONG).await,
        BeginRequestResult::Answered(new_response()),
        "positive control"
    );
}

/// Checks that each call deletes at most `limit` requests, oldest first.
pub async fn old_requests_are_deleted_in_bounded_steps(database: &Database) {
    for key in ["a", "b", "c"] {
        begin_now(&*database.one, &request_key(key), LONG).await;
    }
    assert_eq!(database.one.purge_requests(600, 10).await.expect("deleting"), 0);
    let (one, two) = join(database.one.purge_requests(0, 2), database.two.purge_requests(0, 0)).await;
    assert_eq!((one.expect("deleting"), two.expect("deleting")), (2, 0));
    assert_eq!(database.two.purge_requests(0, 10).await.expect("deleting"), 1);
    begin_now(&*database.one, &request_key("a"), LONG).await;
}

async fn begin_now(store: &dyn Store, name: &RequestKey, times: IdempotencyTimeouts) -> u64 {
    match begin_request(store, name, times).await {
        BeginRequestResult::Started(token) => token,
        other => panic!("{name:?}: {other:?}"),
    }
}

async fn begin_request(
    store: &dyn Store,
    name: &RequestKey,
    times: IdempotencyTimeouts,
) -> BeginRequestResult {
    store.begin_request(name, &"0".repeat(64), times).await.expect("beginning")
}

fn request_key(key: &str) -> RequestKey {
    RequestKey { tenant: test_tenant("t"), route: "POST /v1/events", key: key.to_owned() }
}

fn new_response() -> StoredResponse {
    StoredResponse {
        status: 202,
        content_type: "application/json".to_owned(),
        body: b"{\"\0\xff\"}".to_vec(),
    }
}
