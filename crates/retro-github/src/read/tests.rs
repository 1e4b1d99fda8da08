use retro_core::run::Outcome;
use retro_events::github::TEXT_BYTES_MAX;
use serde_json::{Value, json};

use super::*;
use crate::testing::fixture;

fn read_fixture(event: &str, name: &str) -> Reading {
    read(event, "delivery-1", &Bytes::copy_from_slice(fixture(event, name).as_bytes())).unwrap()
}

fn taken_of(reading: Reading) -> Taken {
    let Reading::Taken(taken) = reading else { panic!("it is left: {reading:?}") };
    *taken
}

fn happened_in(event: &str, name: &str) -> (Taken, Happened) {
    let taken = taken_of(read_fixture(event, name));
    let Fact::Happened(data) = &taken.fact else { panic!("it is a run: {taken:?}") };
    let what = data.what.clone();
    (taken, what)
}

/// A payload of a comment in the conversation of a pull request, with something else in it.
fn with(path: &str, value: Value) -> Result<Reading, String> {
    let mut payload: Value = serde_json::from_str(&fixture("issue_comment", "on-pull-request")).unwrap();
    *payload.pointer_mut(path).unwrap_or_else(|| panic!("{path} is not there")) = value;
    read("issue_comment", "delivery-1", &payload.to_string().into())
}

#[test]
fn a_pull_request_says_who_opened_it_and_how_it_ended() {
    let (taken, opened) = happened_in("pull_request", "opened");
    assert_eq!((taken.host.as_str(), taken.repo.as_str()), ("github.com", "Codertocat/Hello-World"));
    assert_eq!(taken.at.unwrap().to_string(), "2019-05-15T15:20:33Z");
    let Happened::PullRequest { action, pull_request } = opened else { panic!("{opened:?}") };
    assert_eq!((action.as_str(), pull_request.number, pull_request.open), ("opened", 2, true));
    assert_eq!(pull_request.author, Some(Person { login: "Codertocat".to_owned(), bot: false }));
    assert_eq!(pull_request.merge_commit, None, "nobody has merged it");

    let (taken, merged) = happened_in("pull_request", "merged");
    let Happened::PullRequest { pull_request, .. } = merged else { panic!("{merged:?}") };
    assert!(pull_request.merged && !pull_request.open && pull_request.merge_commit.is_some());
    assert_eq!(taken.at, pull_request.closed_at);
    let (_, closed) = happened_in("pull_request", "closed");
    let Happened::PullRequest { pull_request, .. } = closed else { panic!("{closed:?}") };
    assert!(!pull_request.merged && !pull_request.open && pull_request.merge_commit.is_none());
}

#[test]
fn a_review_of_an_enterprise_server_lies_at_its_host() {
    let (taken, review) = happened_in("pull_request_review", "submitted");
    assert_eq!(taken.host, "octocoders.github.io");
    let Happened::PullRequestReview { action, review, .. } = review else { panic!("{review:?}") };
    assert_eq!(
        (action.as_str(), review.state, review.association),
        ("submitted", ReviewState::Commented, Association::Owner)
    );
    assert_eq!(taken.at, review.at);
}

#[test]
fn a_comment_says_where_it_stands() {
    let (_, what) = happened_in("pull_request_review_comment", "created");
    let Happened::PullRequestReviewComment { comment, pull_request, .. } = what else { panic!("{what:?}") };
    assert_eq!((comment.path.as_deref(), comment.line), (Some("README.md"), Some(265)));
    assert_eq!((comment.review, pull_request.number), (Some(237_895_671), 2));
    let (_, what) = happened_in("pull_request_review_thread", "unresolved");
    let Happened::PullRequestReviewThread { comments, action, .. } = what else { panic!("{what:?}") };
    assert_eq!((action.as_str(), comments.is_empty()), ("unresolved", false));
}

#[test]
fn a_comment_is_taken_on_a_pull_request_and_left_on_a_plain_issue() {
    let (_, what) = happened_in("issue_comment", "on-pull-request");
    let Happened::IssueComment { number, comment, .. } = what else { panic!("{what:?}") };
    assert!(number > 0 && comment.body.contains("help"), "{comment:?}");
    let left = read_fixture("issue_comment", "on-issue");
    assert_eq!(left, Reading::Left(Left::Beside("the issue is no pull request")));
}

#[test]
fn what_is_no_webhook_or_says_too_little_is_left() {
    assert_eq!(read_fixture("pull_request_review_comment", "events-api"), Reading::Left(Left::Action));
    assert_eq!(read_fixture("pull_request", "null-repo"), Reading::Left(Left::Incomplete("`repository`")));
    assert_eq!(read_fixture("push", "push"), Reading::Left(Left::Beside("no commit names a run")));
    assert_eq!(read_fixture("ping", "ping"), Reading::Ping);
    let opened = fixture("pull_request", "opened");
    assert_eq!(read("star", "d", &Bytes::copy_from_slice(opened.as_bytes())), Ok(Reading::Left(Left::Event)));
    assert!(matches!(
        read("pull_request_review", "d", &Bytes::copy_from_slice(opened.as_bytes())),
        Ok(Reading::Left(Left::Action))
    ));
    for nothing in ["", "payload=%7B%7D", "{}{}", "{\"action\":"] {
        assert!(read("push", "d", &Bytes::copy_from_slice(nothing.as_bytes())).is_err(), "{nothing}");
        assert!(read("star", "d", &Bytes::copy_from_slice(nothing.as_bytes())).is_err(), "{nothing}");
    }
}

#[test]
fn whatever_github_adds_or_forgets_is_no_mistake_and_another_shape_is_one() {
    for (path, value) in [
        ("/sender", Value::Null),
        ("/comment/user", Value::Null),
        ("/comment/body", Value::Null),
        ("/comment/author_association", json!("BRAND_NEW")),
        ("/comment/created_at", json!("yesterday")),
        ("/comment/node_id", json!({"brand": "new"})),
    ] {
        let reading = with(path, value);
        assert!(matches!(reading, Ok(Reading::Taken(_))), "{path}: {reading:?}");
    }
    let shape = |path: &str| Ok(Reading::Left(Left::Shape(path.to_owned())));
    assert_eq!(with("/comment/id", json!("seven")), shape("comment.id"));
    for nothing in ["[]", "null", "\"x\""] {
        assert_eq!(read("push", "d", &Bytes::copy_from_slice(nothing.as_bytes())), shape("."), "{nothing}");
        assert_eq!(read("star", "d", &Bytes::copy_from_slice(nothing.as_bytes())), shape("."), "{nothing}");
    }
    for (path, value) in [
        ("/comment/id", Value::Null),
        ("/issue/number", Value::Null),
        ("/repository/full_name", json!("../../etc/passwd")),
        ("/repository/full_name", json!("x".repeat(1_000_000))),
    ] {
        let reading = with(path, value);
        assert!(matches!(reading, Ok(Reading::Left(Left::Incomplete(_)))), "{path}: {reading:?}");
    }
}

#[test]
fn a_bot_is_one_by_its_kind_or_its_name() {
    for (user, bot) in [
        (json!({"login": "dependabot[bot]", "type": "User"}), true),
        (json!({"login": "ci", "type": "Bot"}), true),
        (json!({"login": "ann", "type": "User"}), false),
    ] {
        let taken = taken_of(with("/comment/user", user).unwrap());
        let Fact::Happened(GithubData { what: Happened::IssueComment { comment, .. }, .. }) = taken.fact
        else {
            panic!("it is a comment")
        };
        assert_eq!(comment.by.map(|by| by.bot), Some(bot));
    }
}

#[test]
fn the_largest_texts_fit_into_a_message() {
    let long = "\u{1f600}".repeat(TEXT_BYTES_MAX);
    let taken = taken_of(with("/comment/body", json!(long)).unwrap());
    let Fact::Happened(data) = taken.fact else { panic!("it is a comment") };
    assert!(matches!(&data.what, Happened::IssueComment { comment, .. } if comment.cut));
    let sent = data.envelope("delivery-1", "2026-11-20T10:00:00Z".parse().unwrap()).structured().payload;
    assert!(sent.len() < 2 * TEXT_BYTES_MAX, "{}", sent.len());

    let commits: Vec<Value> = (0..2 * COMMITS_MAX)
        .map(|nth| {
            let runs: String = (0..100).map(|run| format!("Retro-Run: {run}{}\n", "x".repeat(250))).collect();
            json!({"id": format!("{nth:040x}1"), "message": format!("Fix\n\n{runs}")})
        })
        .collect();
    let mut push: Value = serde_json::from_str(&fixture("push", "push")).unwrap();
    push["commits"] = commits.into();
    let taken = taken_of(read("push", "d", &push.to_string().into()).unwrap());
    let Fact::Happened(data) = taken.fact else { panic!("it is a push") };
    let Happened::Push { commits } = &data.what else { panic!("it is a push") };
    assert_eq!(commits.len(), COMMITS_MAX);
    let sent = data.envelope("delivery-1", "2026-11-20T10:00:00Z".parse().unwrap()).structured().payload;
    assert!(sent.len() < 1024 * 1024, "{}", sent.len());
}

#[test]
fn a_workflow_that_is_over_is_a_run_whose_event_is_the_delivery() {
    let taken = taken_of(read_fixture("workflow_run", "completed"));
    let Fact::Run(run) = taken.fact else { panic!("it is a run") };
    assert_eq!(run.workflow.as_str(), "github.com/Kobzol/bors-kindergarten/test.yml");
    assert_eq!(run.envelope.id, "delivery-1");
    assert_eq!(
        (run.run.run_id.as_str(), run.run.outcome, run.run.attempt),
        ("4900979072", Outcome::Failure, 1)
    );
    assert_eq!(run.run.commit.as_deref(), Some("c9abcadf285659684c0975cead8bf982fa84e123"));
    assert_eq!(run.run.repo.as_deref(), Some("Kobzol/bors-kindergarten"));
    let taken = taken_of(read_fixture("workflow_run", "of-pull-request"));
    let Fact::Run(run) = taken.fact else { panic!("it is a run") };
    assert_eq!((run.run.pull_request, run.run.outcome), (Some(46), Outcome::Success));
    let requested = fixture("workflow_run", "completed").replace("\"completed\"", "\"requested\"");
    assert_eq!(
        read("workflow_run", "d", &Bytes::copy_from_slice(requested.as_bytes())),
        Ok(Reading::Left(Left::Action))
    );
}
