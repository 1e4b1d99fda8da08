use retro_core::audience::RepoVisibility;
use retro_core::run::RunOutcome;
use retro_events::github::TEXT_BYTES_MAX;
use serde_json::{Value, json};

use retro_events::github::RevertedChange;

use super::*;
use crate::testing;

fn parse_fixture(event: &str, name: &str) -> ParsedWebhook {
    parse_webhook(event, &Bytes::copy_from_slice(testing::read_fixture(event, name).as_bytes())).unwrap()
}

fn accepted_webhook(reading: ParsedWebhook) -> AcceptedWebhook {
    let ParsedWebhook::Accepted(taken) = reading else { panic!("it is left: {reading:?}") };
    *taken
}

fn repository_event_of(event: &str, name: &str) -> (AcceptedWebhook, RepositoryEvent) {
    let taken = accepted_webhook(parse_fixture(event, name));
    let WebhookContent::Repository(data) = &taken.content else { panic!("it is a run: {taken:?}") };
    let what = data.what.clone();
    (taken, what)
}

/// Parses the payload of a comment on a pull request, with one field replaced.
fn with(path: &str, value: Value) -> Result<ParsedWebhook, String> {
    let mut payload: Value =
        serde_json::from_str(&testing::read_fixture("issue_comment", "on-pull-request")).unwrap();
    *payload.pointer_mut(path).unwrap_or_else(|| panic!("{path} is not there")) = value;
    parse_webhook("issue_comment", &payload.to_string().into())
}

#[test]
fn a_pull_request_says_who_opened_it_and_how_it_ended() {
    let (taken, opened) = repository_event_of("pull_request", "opened");
    assert_eq!((taken.host.as_str(), taken.repo.as_str()), ("github.com", "Codertocat/Hello-World"));
    assert_eq!(taken.occurred_at.unwrap().to_string(), "2019-05-15T15:20:33Z");
    let RepositoryEvent::PullRequest { action, pull_request } = opened else { panic!("{opened:?}") };
    assert_eq!((action.as_str(), pull_request.number, pull_request.open), ("opened", 2, true));
    assert_eq!(pull_request.author, Some(Person { login: "Codertocat".to_owned(), bot: false }));
    assert_eq!(pull_request.merge_commit, None, "nobody has merged it");

    let (taken, merged) = repository_event_of("pull_request", "merged");
    let RepositoryEvent::PullRequest { pull_request, .. } = merged else { panic!("{merged:?}") };
    assert!(pull_request.merged && !pull_request.open && pull_request.merge_commit.is_some());
    assert_eq!(taken.occurred_at, pull_request.closed_at);
    let (_, closed) = repository_event_of("pull_request", "closed");
    let RepositoryEvent::PullRequest { pull_request, .. } = closed else { panic!("{closed:?}") };
    assert!(!pull_request.merged && !pull_request.open && pull_request.merge_commit.is_none());
}

#[test]
fn a_review_of_an_enterprise_server_lies_at_its_host() {
    let (taken, review) = repository_event_of("pull_request_review", "submitted");
    assert_eq!(taken.host, "octocoders.github.io");
    let RepositoryEvent::PullRequestReview { action, review, .. } = review else { panic!("{review:?}") };
    assert_eq!(
        (action.as_str(), review.state, review.association),
        ("submitted", ReviewState::Commented, AuthorAssociation::Owner)
    );
    assert_eq!(taken.occurred_at, review.at);
}

#[test]
fn a_comment_says_where_it_stands() {
    let (_, what) = repository_event_of("pull_request_review_comment", "created");
    let RepositoryEvent::PullRequestReviewComment { comment, pull_request, .. } = what else {
        panic!("{what:?}")
    };
    assert_eq!((comment.path.as_deref(), comment.line), (Some("README.md"), Some(265)));
    assert_eq!((comment.review, pull_request.number), (Some(237_895_671), 2));
    let (_, what) = repository_event_of("pull_request_review_thread", "unresolved");
    let RepositoryEvent::PullRequestReviewThread { comments, action, .. } = what else { panic!("{what:?}") };
    assert_eq!((action.as_str(), comments.is_empty()), ("unresolved", false));
}

#[test]
fn a_comment_is_accepted_on_a_pull_request_and_ignored_on_a_plain_issue() {
    let (_, what) = repository_event_of("issue_comment", "on-pull-request");
    let RepositoryEvent::IssueComment { number, comment, .. } = what else { panic!("{what:?}") };
    assert!(number > 0 && comment.body.contains("help"), "{comment:?}");
    let left = parse_fixture("issue_comment", "on-issue");
    assert_eq!(left, ParsedWebhook::Ignored(Ignored::NotRelevant("the issue is not a pull request")));
}

#[test]
fn a_revert_is_read_from_a_description_and_from_a_push_to_the_default_branch() {
    let parse = |event: &str, payload: Value| {
        let body = Bytes::from(payload.to_string());
        let Ok(ParsedWebhook::Accepted(webhook)) = parse_webhook(event, &body) else {
            panic!("{payload} is used")
        };
        let WebhookContent::Repository(data) = webhook.content else { panic!("{payload} is no run") };
        data.what
    };
    let repository = json!({ "full_name": "acme/shop", "default_branch": "trunk" });
    let closed = parse(
        "pull_request",
        json!({ "action": "closed", "repository": repository, "pull_request": {
            "number": 9, "state": "closed", "merged": true, "body": "Reverts acme/shop#7" } }),
    );
    let RepositoryEvent::PullRequest { pull_request, .. } = closed else { panic!("{closed:?}") };
    assert_eq!(pull_request.reverts, [RevertedChange::PullRequest(7)]);
    let (old, new) = ("a".repeat(40), "b".repeat(40));
    let commits = json!([{ "id": new, "message": format!("Revert \"x\"\n\nThis reverts commit {old}.") }]);
    let push = |name: &str| json!({ "ref": name, "repository": repository, "commits": commits });
    let RepositoryEvent::Push { commits } = parse("push", push("refs/heads/trunk")) else { panic!("a push") };
    assert_eq!((commits.len(), &commits[0].reverts), (1, &vec![RevertedChange::Commit(old)]));
    let elsewhere = parse_webhook("push", &Bytes::from(push("refs/heads/topic").to_string()));
    assert!(matches!(elsewhere, Ok(ParsedWebhook::Ignored(Ignored::NotRelevant(_)))), "{elsewhere:?}");
}

#[test]
fn invalid_or_incomplete_webhooks_are_ignored() {
    assert_eq!(
        parse_fixture("pull_request_review_comment", "events-api"),
        ParsedWebhook::Ignored(Ignored::UnusedAction)
    );
    assert_eq!(
        parse_fixture("pull_request", "null-repo"),
        ParsedWebhook::Ignored(Ignored::Incomplete("`repository`"))
    );
    assert_eq!(
        parse_fixture("push", "push"),
        ParsedWebhook::Ignored(Ignored::NotRelevant("no commit names a run or a revert"))
    );
    assert_eq!(parse_fixture("ping", "ping"), ParsedWebhook::Ping);
    let opened = testing::read_fixture("pull_request", "opened");
    assert_eq!(
        parse_webhook("star", &Bytes::copy_from_slice(opened.as_bytes())),
        Ok(ParsedWebhook::Ignored(Ignored::UnusedEvent))
    );
    assert!(matches!(
        parse_webhook("pull_request_review", &Bytes::copy_from_slice(opened.as_bytes())),
        Ok(ParsedWebhook::Ignored(Ignored::UnusedAction))
    ));
    for nothing in ["", "payload=%7B%7D", "{}{}", "{\"action\":"] {
        assert!(parse_webhook("push", &Bytes::copy_from_slice(nothing.as_bytes())).is_err(), "{nothing}");
        assert!(parse_webhook("star", &Bytes::copy_from_slice(nothing.as_bytes())).is_err(), "{nothing}");
    }
}

#[test]
fn unknown_and_missing_fields_are_accepted_but_other_shapes_are_not() {
    for (path, value) in [
        ("/comment/user", Value::Null),
        ("/comment/body", Value::Null),
        ("/comment/author_association", json!("BRAND_NEW")),
        ("/comment/created_at", json!("yesterday")),
        ("/comment/node_id", json!({"brand": "new"})),
    ] {
        let reading = with(path, value);
        assert!(matches!(reading, Ok(ParsedWebhook::Accepted(_))), "{path}: {reading:?}");
    }
    let shape = |path: &str| Ok(ParsedWebhook::Ignored(Ignored::UnexpectedShape(path.to_owned())));
    assert_eq!(with("/comment/id", json!("seven")), shape("comment.id"));
    for nothing in ["[]", "null", "\"x\""] {
        assert_eq!(
            parse_webhook("push", &Bytes::copy_from_slice(nothing.as_bytes())),
            shape("."),
            "{nothing}"
        );
        assert_eq!(
            parse_webhook("star", &Bytes::copy_from_slice(nothing.as_bytes())),
            shape("."),
            "{nothing}"
        );
    }
    for (path, value) in [
        ("/comment/id", Value::Null),
        ("/issue/number", Value::Null),
        ("/repository/full_name", json!("../../etc/passwd")),
        ("/repository/full_name", json!("x".repeat(1_000_000))),
    ] {
        let reading = with(path, value);
        assert!(matches!(reading, Ok(ParsedWebhook::Ignored(Ignored::Incomplete(_)))), "{path}: {reading:?}");
    }
}

#[test]
fn a_bot_is_one_by_its_kind_or_its_name() {
    for (user, bot) in [
        (json!({"login": "dependabot[bot]", "type": "User"}), true),
        (json!({"login": "ci", "type": "Bot"}), true),
        (json!({"login": "ann", "type": "User"}), false),
    ] {
        let taken = accepted_webhook(with("/comment/user", user).unwrap());
        let WebhookContent::Repository(GithubData {
            what: RepositoryEvent::IssueComment { comment, .. },
            ..
        }) = taken.content
        else {
            panic!("it is a comment")
        };
        assert_eq!(comment.by.map(|by| by.bot), Some(bot));
    }
}

#[test]
fn the_largest_texts_fit_into_a_message() {
    let long = "\u{1f600}".repeat(TEXT_BYTES_MAX);
    let taken = accepted_webhook(with("/comment/body", json!(long)).unwrap());
    let WebhookContent::Repository(data) = taken.content else { panic!("it is a comment") };
    assert!(matches!(&data.what, RepositoryEvent::IssueComment { comment, .. } if comment.truncated));
    let sent =
        data.to_envelope("delivery-1", "2026-11-20T10:00:00Z".parse().unwrap()).to_structured().payload;
    assert!(sent.len() < 2 * TEXT_BYTES_MAX, "{}", sent.len());

    let commits: Vec<Value> = (0..2 * COMMITS_MAX)
        .map(|nth| {
            let runs: String = (0..100).map(|run| format!("Retro-Run: {run}{}\n", "x".repeat(250))).collect();
            json!({"id": format!("{nth:040x}1"), "message": format!("Fix\n\n{runs}")})
        })
        .collect();
    let mut push: Value = serde_json::from_str(&testing::read_fixture("push", "push")).unwrap();
    push["commits"] = commits.into();
    let taken = accepted_webhook(parse_webhook("push", &push.to_string().into()).unwrap());
    let WebhookContent::Repository(data) = taken.content else { panic!("it is a push") };
    let RepositoryEvent::Push { commits } = &data.what else { panic!("it is a push") };
    assert_eq!(commits.len(), COMMITS_MAX);
    let sent =
        data.to_envelope("delivery-1", "2026-11-20T10:00:00Z".parse().unwrap()).to_structured().payload;
    assert!(sent.len() < 1024 * 1024, "{}", sent.len());
}

#[test]
fn a_finished_workflow_becomes_a_run_identified_by_its_content() {
    let taken = accepted_webhook(parse_fixture("workflow_run", "completed"));
    let WebhookContent::Run(run) = taken.content else { panic!("it is a run") };
    assert_eq!(run.workflow.as_str(), "github.com/Kobzol/bors-kindergarten/test.yml");
    assert!(run.run.outcome_only, "no more is known of it");
    let same = accepted_webhook(parse_fixture("workflow_run", "completed")).content;
    assert_eq!(same, WebhookContent::Run(run.clone()));
    let rerun = testing::read_fixture("workflow_run", "completed")
        .replace("\"run_attempt\": 1", "\"run_attempt\": 2");
    let rerun = parse_webhook("workflow_run", &rerun.into()).unwrap();
    let WebhookContent::Run(rerun) = accepted_webhook(rerun).content else { panic!("it is a run") };
    assert_eq!(rerun.run.attempt, 2);
    assert_ne!(rerun.envelope.id, run.envelope.id);
    assert_eq!(
        (run.run.run_id.as_str(), run.run.outcome, run.run.attempt),
        ("4900979072", RunOutcome::Failure, 1)
    );
    assert_eq!(run.run.commit.as_deref(), Some("c9abcadf285659684c0975cead8bf982fa84e123"));
    assert_eq!(run.run.repo.as_deref(), Some("Kobzol/bors-kindergarten"));
    assert_eq!(run.run.repo_visibility, Some(RepoVisibility::Private));
    let public =
        testing::read_fixture("workflow_run", "completed").replace("\"private\": true", "\"private\": false");
    let taken = parse_webhook("workflow_run", &Bytes::copy_from_slice(public.as_bytes()));
    let WebhookContent::Run(run) = accepted_webhook(taken.unwrap()).content else { panic!("it is a run") };
    assert_eq!(run.run.repo_visibility, Some(RepoVisibility::Public));
    let taken = accepted_webhook(parse_fixture("workflow_run", "of-pull-request"));
    let WebhookContent::Run(run) = taken.content else { panic!("it is a run") };
    assert_eq!((run.run.pull_request, run.run.outcome), (Some(46), RunOutcome::Success));
    let requested =
        testing::read_fixture("workflow_run", "completed").replace("\"completed\"", "\"requested\"");
    assert_eq!(
        parse_webhook("workflow_run", &Bytes::copy_from_slice(requested.as_bytes())),
        Ok(ParsedWebhook::Ignored(Ignored::UnusedAction))
    );
}
