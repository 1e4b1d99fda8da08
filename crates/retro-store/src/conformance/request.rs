//! Requests that their callers gave a key.

use futures::future::join;

use super::Database;
use super::story::tenant;
use crate::{Begun, KeptAnswer, RequestName, RequestTimes, Store};

/// Nobody takes over, and nothing is forgotten, while a case runs.
const LONG: RequestTimes = RequestTimes { under_way_s: 600, kept_s: 6000 };
/// Whoever comes takes over at once.
const IMPATIENT: RequestTimes = RequestTimes { under_way_s: 0, ..LONG };

/// The same request again is not the caller's to do: it gets the answer, byte for byte.
pub async fn a_request_is_done_once_and_its_answer_is_given_again(database: &Database) {
    let token = now(&*database.one, &name("k"), LONG).await;
    assert_eq!(begin(&*database.two, &name("k"), LONG).await, Begun::UnderWay);
    database.one.end_request(&name("k"), token, Some(&answer())).await.expect("ending");
    for times in [LONG, IMPATIENT] {
        assert_eq!(begin(&*database.two, &name("k"), times).await, Begun::Answered(answer()));
    }
}

/// Two processes that are asked at once.
pub async fn of_two_that_begin_a_request_at_once_one_may_do_it(database: &Database) {
    let name = name("k");
    let (one, two) = join(begin(&*database.one, &name, LONG), begin(&*database.two, &name, LONG)).await;
    let both = [one, two];
    assert_eq!(both.iter().filter(|begun| matches!(begun, Begun::Now(_))).count(), 1, "{both:?}");
    assert_eq!(both.iter().filter(|begun| **begun == Begun::UnderWay).count(), 1, "{both:?}");
}

/// A key that is used twice is a mistake of the caller's, told whether or not the first is done.
pub async fn another_content_under_the_same_key_is_told(database: &Database) {
    let token = now(&*database.one, &name("k"), LONG).await;
    let other = async |times| {
        database.two.begin_request(&name("k"), &"1".repeat(64), times).await.expect("beginning")
    };
    assert_eq!(other(IMPATIENT).await, Begun::Differs);
    database.one.end_request(&name("k"), token, Some(&answer())).await.expect("ending");
    assert_eq!(other(IMPATIENT).await, Begun::Differs);
    let forgetful = RequestTimes { kept_s: 0, ..LONG };
    assert!(matches!(other(forgetful).await, Begun::Now(_)), "an answer is not kept for ever");
}

/// A process that died at it holds it only for a time; a stalled one that wakes up keeps no answer.
pub async fn a_request_that_somebody_left_is_taken_over_and_the_late_answer_is_dropped(database: &Database) {
    let late = now(&*database.one, &name("k"), LONG).await;
    let token = now(&*database.two, &name("k"), IMPATIENT).await;
    assert!(token > late);
    database.one.end_request(&name("k"), late, Some(&answer())).await.expect("ending");
    database.one.end_request(&name("k"), late, None).await.expect("ending");
    assert_eq!(begin(&*database.one, &name("k"), LONG).await, Begun::UnderWay);
    let right = KeptAnswer { status: 207, ..answer() };
    database.two.end_request(&name("k"), token, Some(&right)).await.expect("ending");
    assert_eq!(begin(&*database.one, &name("k"), LONG).await, Begun::Answered(right));
}

/// What failed for a time may be done again, whatever it says then.
pub async fn a_request_that_ends_without_an_answer_can_be_begun_again(database: &Database) {
    let token = now(&*database.one, &name("k"), LONG).await;
    database.one.end_request(&name("k"), token, None).await.expect("ending");
    now(&*database.two, &name("k"), LONG).await;
}

/// Tenant, route and key together are the name.
pub async fn requests_of_other_tenants_and_routes_are_others(database: &Database) {
    let own = name("k");
    let token = now(&*database.one, &own, LONG).await;
    database.one.end_request(&own, token, Some(&answer())).await.expect("ending");
    for other in [
        RequestName { tenant: tenant("u"), ..own.clone() },
        RequestName { route: "POST /v1/other", ..own.clone() },
        RequestName { key: "K".to_owned(), ..own.clone() },
    ] {
        now(&*database.one, &other, LONG).await;
    }
    assert_eq!(begin(&*database.one, &own, LONG).await, Begun::Answered(answer()), "positive control");
}

/// The oldest first, and no more than asked for.
pub async fn old_requests_are_forgotten_in_bounded_stages(database: &Database) {
    for key in ["a", "b", "c"] {
        now(&*database.one, &name(key), LONG).await;
    }
    assert_eq!(database.one.forget_requests(600, 10).await.expect("forgetting"), 0);
    let (one, two) = join(database.one.forget_requests(0, 2), database.two.forget_requests(0, 0)).await;
    assert_eq!((one.expect("forgetting"), two.expect("forgetting")), (2, 0));
    assert_eq!(database.two.forget_requests(0, 10).await.expect("forgetting"), 1);
    now(&*database.one, &name("a"), LONG).await;
}

async fn now(store: &dyn Store, name: &RequestName, times: RequestTimes) -> u64 {
    match begin(store, name, times).await {
        Begun::Now(token) => token,
        other => panic!("{name:?}: {other:?}"),
    }
}

async fn begin(store: &dyn Store, name: &RequestName, times: RequestTimes) -> Begun {
    store.begin_request(name, &"0".repeat(64), times).await.expect("beginning")
}

fn name(key: &str) -> RequestName {
    RequestName { tenant: tenant("t"), route: "POST /v1/events", key: key.to_owned() }
}

fn answer() -> KeptAnswer {
    KeptAnswer { status: 202, content_type: "application/json".to_owned(), body: b"{\"\0\xff\"}".to_vec() }
}
