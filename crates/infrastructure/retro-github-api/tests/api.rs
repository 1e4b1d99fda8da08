//! Tests the client against a fake GitHub on loopback ports.

use std::time::Duration;

use retro_config::Secret;
use retro_core::id::Tenant;
use retro_core::run::GithubLogRef;
use retro_events::github::tenants::GithubTenants;
use retro_events::{JobLogFetcher as _, ObjectError};
use retro_github_api::{ApiBounds, ApiError, GithubApi, GithubLogs, JOBS_MAX};
use retro_outgoing_http::OutgoingHttp;
use retro_testkit::{FakeGithub, GITHUB_TOKEN};
use serde_json::{Value, json};

const JOBS: &str = "/repos/acme/shop/actions/runs/17/attempts/2/jobs";

fn connect_with(github: &FakeGithub, token: &str, bounds: ApiBounds) -> GithubApi {
    GithubApi::new("github.com", github.url(), &Secret::new(token), bounds, &OutgoingHttp::default())
        .expect("a loopback address")
}

fn connect(github: &FakeGithub) -> GithubApi {
    connect_with(github, GITHUB_TOKEN, ApiBounds::default())
}

fn build_logs(api: GithubApi) -> GithubLogs {
    GithubLogs::new(api, GithubTenants::parse("acme/* = acme, theirs/* = other").expect("entries"))
}

fn log_ref() -> GithubLogRef {
    GithubLogRef { host: "github.com".to_owned(), repo: "acme/shop".to_owned(), run: 17, attempt: 2 }
}

fn tenant() -> Tenant {
    Tenant::new("acme").expect("a name")
}

fn job(id: u64, conclusion: &str) -> Value {
    let steps =
        json!([{"name": "Set up job", "conclusion": "success"}, {"name": "Tests", "conclusion": conclusion}]);
    json!({"id": id, "name": format!("job {id}"), "conclusion": conclusion, "steps": steps})
}

fn log_path(id: u64) -> String {
    format!("/repos/acme/shop/actions/jobs/{id}/logs")
}

fn set_pull_request(github: &FakeGithub, comments: usize) {
    let at = "/repos/acme/shop/pulls/7";
    github.set_document(at, json!({"number": 7, "head": {"sha": "abc123"}}));
    for list in ["reviews", "comments", "commits"] {
        github.set_document(&format!("{at}/{list}"), json!([{"id": list}]));
    }
    let all: Vec<Value> = (0..comments).map(|id| json!({"id": id})).collect();
    github.set_document("/repos/acme/shop/issues/7/comments", json!(all));
    github.set_document("/repos/acme/shop/actions/runs", json!({"workflow_runs": [{"id": 17}]}));
}

#[tokio::test]
async fn a_pull_request_is_fetched_with_all_pages_of_its_lists() {
    let github = FakeGithub::start().await;
    set_pull_request(&github, 250);
    let fetched = connect(&github).fetch_pull_request("acme/shop", 7).await.expect("it is there");
    assert_eq!(fetched.pull_request["number"], 7);
    let ids: Vec<_> = fetched.issue_comments.items.iter().map(|one| one["id"].as_u64()).collect();
    assert_eq!(ids, (0..250).map(Some).collect::<Vec<_>>());
    assert!(!fetched.issue_comments.truncated);
    let lists = [&fetched.reviews, &fetched.review_comments, &fetched.commits, &fetched.workflow_runs];
    assert!(lists.iter().all(|list| list.items.len() == 1 && !list.truncated), "{fetched:?}");
    let requests = github.api_requests();
    assert!(
        requests.iter().any(|one| one.path.contains("runs?head_sha=abc123&status=completed")),
        "{requests:?}"
    );
    let bearer = format!("Bearer {GITHUB_TOKEN}");
    assert!(requests.iter().all(|one| one.authorization.as_ref() == Some(&bearer)));
}

#[tokio::test]
async fn a_list_is_cut_after_its_last_page_and_an_oversized_page_is_refused() {
    let github = FakeGithub::start().await;
    set_pull_request(&github, 250);
    let bounds = ApiBounds { pages_max: 2, ..ApiBounds::default() };
    let fetched =
        connect_with(&github, GITHUB_TOKEN, bounds).fetch_pull_request("acme/shop", 7).await.unwrap();
    assert_eq!((fetched.issue_comments.items.len(), fetched.issue_comments.truncated), (200, true));
    let bounds = ApiBounds { page_bytes_max: 1000, ..ApiBounds::default() };
    let refused = connect_with(&github, GITHUB_TOKEN, bounds).fetch_pull_request("acme/shop", 7).await;
    assert!(refused.unwrap_err().to_string().contains("larger than 1000 bytes"));
}

#[tokio::test]
async fn an_error_says_what_to_do() {
    let github = FakeGithub::start().await;
    set_pull_request(&github, 1);
    let refused =
        connect_with(&github, "another", ApiBounds::default()).fetch_pull_request("acme/shop", 7).await;
    assert_eq!(refused.unwrap_err(), ApiError::TokenRefused);
    let api = connect(&github);
    let at = "/repos/acme/shop/pulls/7";
    for (status, headers, words) in [
        (403, &[][..], "the token may not read /repos/acme/shop/pulls/7 (403)"),
        (404, &[], "knows no /repos/acme/shop/pulls/7 (404)"),
        (429, &[("retry-after", "30")], "try again in 30 s"),
        (403, &[("retry-after", "60")], "try again in 60 s"),
        (
            403,
            &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1800000000")],
            "try again after 2027-01-15T08:00:00Z",
        ),
        (301, &[("location", "/repositories/1")], "use the repository's present name"),
        (502, &[], "not available: /repos/acme/shop/pulls/7 is answered with 502"),
    ] {
        github.set_status(at, status, headers);
        let error = api.fetch_pull_request("acme/shop", 7).await.unwrap_err();
        assert!(error.to_string().contains(words), "{status}: {error}");
        assert_eq!(
            error.is_transient(),
            status == 429 || status == 502 || words.contains("try again"),
            "{error}"
        );
    }
    assert!(api.fetch_pull_request("acme/other", 7).await.is_err());
    set_pull_request(&github, 1);
    assert!(api.fetch_pull_request("acme/shop", 7).await.is_ok(), "positive control");
}

#[tokio::test]
async fn an_api_that_is_down_is_not_available() {
    let github = FakeGithub::start().await;
    let api = connect(&github);
    drop(github);
    let error = api.fetch_pull_request("acme/shop", 7).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("not available"), "{error}");
}

#[tokio::test]
async fn the_logs_of_failed_jobs_are_fetched_and_the_token_never_reaches_the_storage() {
    let github = FakeGithub::start().await;
    let jobs: Vec<Value> =
        (1..=9).map(|id| job(id, if id % 2 == 0 { "failure" } else { "success" })).collect();
    github.set_document(JOBS, json!({"total_count": 9, "jobs": jobs}));
    for id in 1..=9 {
        github.set_log(&log_path(id), &format!("log of {id}\nerror: no such table\n"));
    }
    let fetched = build_logs(connect(&github)).fetch_failed_jobs(&tenant(), &log_ref()).await.expect("logs");
    let found: Vec<_> = fetched.iter().map(|one| (one.job.as_str(), one.step.as_deref())).collect();
    assert_eq!(found, [("job 2", Some("Tests")), ("job 4", Some("Tests")), ("job 6", Some("Tests"))]);
    assert_eq!(found.len(), JOBS_MAX);
    assert_eq!(&fetched[0].log[..], b"log of 2\nerror: no such table\n");
    let stored = github.storage_requests();
    assert_eq!(stored.len(), JOBS_MAX);
    assert!(stored.iter().all(|one| one.authorization.is_none()), "{stored:?}");
    assert!(github.api_requests().iter().all(|one| one.authorization.is_some()), "positive control");
}

#[tokio::test]
async fn only_the_end_of_a_log_is_kept_and_an_endless_one_is_given_up() {
    let github = FakeGithub::start().await;
    github.set_document(JOBS, json!({"jobs": [job(1, "failure")]}));
    github.set_log(&log_path(1), &format!("{}the end", "line\n".repeat(100_000)));
    let fetch = |bounds| {
        let logs = build_logs(connect_with(&github, GITHUB_TOKEN, bounds));
        async move { logs.fetch_failed_jobs(&tenant(), &log_ref()).await }
    };
    let bounds = ApiBounds { log_tail_bytes_max: 12, ..ApiBounds::default() };
    assert_eq!(&fetch(bounds).await.expect("a log")[0].log[..], b"line\nthe end");
    let error = fetch(ApiBounds { log_bytes_max: 1000, ..ApiBounds::default() }).await.unwrap_err();
    assert!(
        matches!(&error, ObjectError::Gone { problem, .. } if problem.contains("larger than 1000")),
        "{error}"
    );
}

#[tokio::test]
async fn a_missing_log_is_gone_and_a_limit_is_not() {
    let github = FakeGithub::start().await;
    let logs = build_logs(connect(&github));
    let fetch = || async { logs.fetch_failed_jobs(&tenant(), &log_ref()).await };
    let is_gone = |result: Result<_, ObjectError>| matches!(result, Err(ObjectError::Gone { .. }));
    assert!(is_gone(fetch().await.map(|_| ())), "the run is unknown");
    github.set_document(JOBS, json!({"jobs": [job(1, "success"), job(3, "cancelled")]}));
    assert!(is_gone(fetch().await.map(|_| ())), "no job failed");
    github.set_document(JOBS, json!({"jobs": [job(1, "failure"), job(2, "timed_out")]}));
    github.set_status(&log_path(1), 410, &[]);
    assert!(is_gone(fetch().await.map(|_| ())), "both logs are missing");
    github.set_log(&log_path(2), "error: x\n");
    assert_eq!(fetch().await.expect("the other log").len(), 1);
    github.set_status(&log_path(1), 429, &[("retry-after", "5")]);
    assert!(matches!(fetch().await, Err(ObjectError::Unavailable(problem)) if problem.contains("in 5 s")));
    github.set_status(&log_path(1), 302, &[("location", "http://192.0.2.1/log")]);
    github.set_status(&log_path(2), 302, &[("location", &log_path(2))]);
    let error = fetch().await.unwrap_err();
    assert!(error.to_string().contains("redirects more than 3 times"), "{error}");
}

#[tokio::test]
async fn a_log_is_fetched_for_the_tenant_of_its_repository_only() {
    let github = FakeGithub::start().await;
    github.set_document(JOBS, json!({"jobs": [job(1, "failure")]}));
    github.set_log(&log_path(1), "error: x\n");
    let logs = build_logs(connect(&github));
    let other = Tenant::new("other").expect("a name");
    let elsewhere = GithubLogRef { host: "ghe.example.com".to_owned(), ..log_ref() };
    for (tenant, of) in [(&other, log_ref()), (&tenant(), elsewhere)] {
        let refused = logs.fetch_failed_jobs(tenant, &of).await;
        assert!(matches!(refused, Err(ObjectError::Gone { .. })), "{tenant} {of}");
    }
    assert_eq!(github.api_requests(), [], "nothing is asked for");
    assert!(logs.fetch_failed_jobs(&tenant(), &log_ref()).await.is_ok(), "positive control");
}

#[tokio::test]
async fn an_answer_without_an_end_is_left() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let bounds = ApiBounds { request_timeout: Duration::from_millis(50), ..ApiBounds::default() };
    let api = GithubApi::new("github.com", &url, &Secret::new("t"), bounds, &OutgoingHttp::default())
        .expect("a loopback address");
    // The connection waits in the accept queue and is never answered.
    let error = api.fetch_pull_request("acme/shop", 7).await.unwrap_err();
    assert!(error.to_string().contains("no whole answer within 50 ms"), "{error}");
}
