use std::sync::Arc;

use retro_core::id::Tenant;
use retro_core::time::FixedClock;
use retro_events::github::RepositoryEvent;
use retro_events::github::tenants::GithubTenants;

use super::*;
use crate::testing::FakeBroker;
use crate::{Publishers, WebhookPublisher};

const AT: &str = "2026-11-10T10:00:00Z";

fn build_record() -> PullRequestRecord {
    let repository =
        json!({"full_name": "acme/shop", "html_url": "https://github.com/acme/shop", "private": false});
    let comment = |id: u64, updated_at: &str| json!({"id": id, "body": "x", "created_at": AT, "updated_at": updated_at});
    let review = |id: u64, state: &str| json!({"id": id, "state": state, "submitted_at": AT});
    let commit = |sha: &str, message: &str| json!({"sha": sha.repeat(20), "commit": {"message": message, "committer": {"date": AT}}});
    PullRequestRecord {
        pull_request: json!({
            "number": 7, "state": "open", "updated_at": "2026-11-12T10:00:00Z", "created_at": AT,
            "base": {"repo": repository},
        }),
        reviews: vec![review(1, "APPROVED"), review(2, "DISMISSED"), review(3, "PENDING")],
        review_comments: vec![comment(4, AT)],
        issue_comments: vec![comment(5, "2026-11-11T10:00:00Z"), json!({"body": "without an id"})],
        commits: vec![commit("ab", "Fix\n\nRetro-Run: run-17"), commit("cd", "Fix more")],
        workflow_runs: vec![json!({
            "id": 6, "path": ".github/workflows/ci.yml", "conclusion": "failure", "run_attempt": 2,
            "updated_at": AT,
        })],
    }
}

fn accepted(record: &PullRequestRecord) -> Vec<SyncedEvent> {
    events_of_record(record).into_iter().filter_map(Result::ok).collect()
}

fn describe(event: &SyncedEvent) -> (&'static str, String) {
    let about = match &event.webhook.content {
        WebhookContent::Repository(data) => data.what.describe(),
        WebhookContent::Run(run) => run.run.run_id.as_str().to_owned(),
    };
    (event.event, about)
}

#[test]
fn each_object_gives_the_event_that_a_webhook_would_have_given() {
    let results = events_of_record(&build_record());
    let found: Vec<_> = results.iter().filter_map(|one| one.as_ref().ok()).map(describe).collect();
    let expected = [
        ("pull_request", "7 synchronize"),
        ("pull_request_review", "review 1 submitted"),
        ("pull_request_review", "review 2 dismissed"),
        ("pull_request_review_comment", "comment 4 created"),
        ("issue_comment", "comment 5 edited"),
        ("push", "1 commits that name a run"),
        ("workflow_run", "6"),
    ];
    assert_eq!(found, expected.map(|(event, about)| (event, about.to_owned())));
    let left_out: Vec<_> = results.into_iter().filter_map(Result::err).collect();
    assert_eq!(
        left_out,
        [
            ("issue_comment", Ignored::Incomplete("`comment.id`")),
            ("push", Ignored::NotRelevant("no commit names a run or a revert")),
        ]
    );
}

#[test]
fn a_closed_pull_request_is_closed() {
    let mut record = build_record();
    record.pull_request["state"] = json!("closed");
    record.pull_request["closed_at"] = json!(AT);
    record.pull_request["merged_at"] = json!(AT);
    let first = accepted(&record).swap_remove(0).webhook;
    let WebhookContent::Repository(data) = first.content else { panic!("it is no run") };
    let RepositoryEvent::PullRequest { action, pull_request } = data.what else { panic!("it is one") };
    assert_eq!((action.as_str(), pull_request.open, pull_request.merged), ("closed", false, true));
}

#[test]
fn the_same_state_has_the_same_ids_and_a_change_another_one() {
    let ids = |record: &PullRequestRecord| accepted(record).into_iter().map(|one| one.id).collect::<Vec<_>>();
    let first = ids(&build_record());
    assert_eq!(ids(&build_record()), first);
    let distinct: std::collections::BTreeSet<_> = first.iter().collect();
    assert_eq!(distinct.len(), first.len());
    // Comments do not change with the pull request's time, and its own event does.
    let mut later = build_record();
    later.pull_request["updated_at"] = json!("2026-11-13T10:00:00Z");
    let later = ids(&later);
    assert_ne!(later[0], first[0]);
    assert_eq!(later[1..], first[1..]);
    let mut edited = build_record();
    edited.review_comments[0]["body"] = json!("y");
    let changed: Vec<_> = ids(&edited).into_iter().zip(&first).map(|(one, before)| one == *before).collect();
    assert_eq!(changed, [true, true, true, false, true, true, true]);
}

/// Publishes the record's workflow run and returns the data of its event.
async fn publish_run(tenants: &str, log_host: Option<&str>, conclusion: &str) -> Value {
    let broker = Arc::new(FakeBroker::default());
    let publishers = Publishers { events: broker.clone(), runs: broker.clone() };
    let clock = FixedClock("2026-11-20T10:00:00Z".parse().unwrap());
    let tenants = Arc::new(GithubTenants::parse(tenants).unwrap());
    let publisher = WebhookPublisher::new(tenants, publishers, Arc::new(clock))
        .with_log_host(log_host.map(str::to_owned));
    let mut record = build_record();
    record.workflow_runs[0]["conclusion"] = json!(conclusion);
    let event = accepted(&record).pop().unwrap();
    publisher.publish(&Tenant::new("acme").unwrap(), event.webhook, &event.id).await.unwrap();
    let runs = broker.runs.lock().unwrap();
    serde_json::from_slice::<Value>(&runs[0].payload).unwrap()["data"].take()
}

#[tokio::test]
async fn a_failed_run_has_its_log_as_its_body_if_it_can_be_fetched() {
    let log = json!({"github_log": {"host": "github.com", "repo": "acme/shop", "run": 6, "attempt": 2}});
    for (tenants, host, conclusion, has_log) in [
        ("acme/* = acme", Some("github.com"), "failure", true),
        ("acme/* = acme", Some("GitHub.com"), "timed_out", true),
        ("acme/* = acme", Some("github.com"), "startup_failure", true),
        ("* = acme", Some("github.com"), "failure", true),
        ("acme/* = acme", Some("github.com"), "success", false),
        ("acme/* = acme", Some("github.com"), "cancelled", false),
        ("acme/* = acme", Some("ghe.example.com"), "failure", false),
        ("acme/* = acme", None, "failure", false),
        // By its name alone, the repository could be another tenant's.
        ("4242 = acme, * = acme", Some("github.com"), "failure", false),
    ] {
        let data = publish_run(tenants, host, conclusion).await;
        let expected = if has_log { log.clone() } else { Value::Null };
        assert_eq!(data["dataref"], expected, "{tenants} {host:?} {conclusion}");
        assert_eq!(data["outcome_only"] == true, !has_log, "{tenants} {host:?} {conclusion}");
    }
}
