//! Tests what a token for GitHub's REST API adds: a missed pull request is fetched, and the logs of failed workflow
//! runs are investigated.

use retro_testkit::{FakeGithub, GITHUB_TOKEN};
use serde_json::{Value, json};

use crate::bridge::build_bare_run;
use crate::world::{
    BRIDGE_ENV, CommandOutput, Webhook, World, json_items, json_text, load_payload, run_command,
};

const RULE: &str = "Always return a `Result` instead of calling `unwrap()` in library code.";
const HEAD: &str = "c9abcadf285659684c0975cead8bf982fa84e123";
const NUMBER: u64 = 7;
/// A line of a log that no failing line is near to.
const NOISE: &str = "Downloading a wheel of a package that is no part of the failure";

/// Returns the environment of a program that uses the fake GitHub, with the token in a file.
fn build_environment(world: &World, github: &FakeGithub) -> Vec<(&'static str, String)> {
    let token = world.write_file("github-token", format!("{GITHUB_TOKEN}\n"));
    let mut variables: Vec<_> = BRIDGE_ENV.map(|(name, value)| (name, value.to_owned())).to_vec();
    variables.extend([
        ("RETRO_GITHUB_TOKEN_FILE", token),
        ("RETRO_GITHUB_API", github.url().to_owned()),
        ("RETRO_REVIEW_DEBOUNCE_S", "1".to_owned()),
    ]);
    variables
}

async fn up(world: &mut World, variables: &[(&'static str, String)]) {
    let borrowed: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    world.up_with_env(&borrowed).await;
}

async fn sync(world: &World, variables: &[(&str, String)], more: &[&str]) -> CommandOutput {
    let arguments = [&["github", "sync", "--repo", "acme/shop", "--pr", "7"], more].concat();
    let mut command = world.command(&arguments);
    for (name, value) in variables {
        command.env(name, value);
    }
    run_command(&mut command).await
}

/// What GitHub knows of a merged pull request, in the form that webhooks and the API share.
struct PullRequest {
    repository: Value,
    pull_request: Value,
    review: Value,
    line_comment: Value,
    comment: Value,
    run: Value,
}

fn build_pull_request() -> PullRequest {
    let ann = json!({"login": "ann", "type": "User"});
    let repository =
        json!({"full_name": "acme/shop", "html_url": "https://github.com/acme/shop", "private": true});
    let said = |id: u64, body: &str| {
        json!({
            "id": id, "user": ann, "author_association": "MEMBER", "body": body, "reactions": {"+1": 1},
            "created_at": "2026-11-10T10:00:00Z", "updated_at": "2026-11-10T10:00:00Z",
            "html_url": format!("https://github.com/acme/shop/pull/7#{id}"),
        })
    };
    let mut line_comment = said(11, RULE);
    line_comment["path"] = json!("src/lib.rs");
    line_comment["line"] = json!(3);
    line_comment["pull_request_review_id"] = json!(5);
    PullRequest {
        pull_request: json!({
            "number": NUMBER, "state": "closed", "merged": true, "merged_at": "2026-11-12T10:00:00Z",
            "closed_at": "2026-11-12T10:00:00Z", "created_at": "2026-11-09T10:00:00Z",
            "updated_at": "2026-11-12T10:00:00Z", "user": {"login": "bea", "type": "User"},
            "head": {"sha": HEAD}, "merge_commit_sha": "aa".repeat(20), "base": {"repo": repository},
            "html_url": "https://github.com/acme/shop/pull/7",
        }),
        repository,
        review: json!({
            "id": 5, "user": ann, "author_association": "MEMBER", "body": "", "state": "CHANGES_REQUESTED",
            "submitted_at": "2026-11-10T10:00:01Z", "html_url": "https://github.com/acme/shop/pull/7#5",
        }),
        line_comment,
        comment: said(21, "Thank you!"),
        run: json!({
            "id": 17, "run_attempt": 1, "path": ".github/workflows/ci.yml", "conclusion": "success",
            "head_sha": HEAD, "pull_requests": [{"number": NUMBER}], "created_at": "2026-11-09T10:00:00Z",
            "run_started_at": "2026-11-09T10:00:00Z", "updated_at": "2026-11-09T10:05:00Z",
        }),
    }
}

impl PullRequest {
    /// Sets the answers of the API.
    fn set_answers(&self, github: &FakeGithub) {
        let at = "/repos/acme/shop/pulls/7";
        github.set_document(at, self.pull_request.clone());
        github.set_document(&format!("{at}/reviews"), json!([self.review]));
        github.set_document(&format!("{at}/comments"), json!([self.line_comment]));
        let commit = json!({"sha": HEAD, "commit": {"message": "Fix it", "committer": {"date": "2026-11-09T09:00:00Z"}}});
        github.set_document(&format!("{at}/commits"), json!([commit]));
        github.set_document("/repos/acme/shop/issues/7/comments", json!([self.comment]));
        github.set_document("/repos/acme/shop/actions/runs", json!({"workflow_runs": [self.run]}));
    }

    /// Posts the webhooks that GitHub sent of it.
    async fn post_webhooks(&self, world: &World) {
        let mut review = self.review.clone();
        review["state"] = json!("changes_requested");
        let (pull_request, issue) = (&self.pull_request, json!({"number": NUMBER, "pull_request": {}}));
        let webhooks = [
            (
                "pull_request_review_comment",
                json!({"action": "created", "pull_request": pull_request, "comment": self.line_comment}),
            ),
            (
                "pull_request_review",
                json!({"action": "submitted", "pull_request": pull_request, "review": review}),
            ),
            ("issue_comment", json!({"action": "created", "issue": issue, "comment": self.comment})),
            ("pull_request", json!({"action": "closed", "pull_request": pull_request})),
            ("workflow_run", json!({"action": "completed", "workflow_run": self.run})),
        ];
        for (event, mut payload) in webhooks {
            payload["repository"] = self.repository.clone();
            payload["sender"] = json!({"login": "ann", "type": "User"});
            let (status, answer) = world.post_webhook(&Webhook::new(event, event, &payload)).await;
            assert_eq!((status, json_text(&answer, "outcome")), (202, "accepted"), "{event}");
        }
    }
}

/// Workflow of the run in the fake GitHub.
const CI: &str = "github.com/acme/shop/ci.yml";

/// State of the tenant that must not depend on how GitHub's facts arrived.
#[derive(Debug, PartialEq)]
struct LearntState {
    rules: Vec<(String, u64, u64)>,
    outcomes: Value,
    runs: Vec<(String, String)>,
}

async fn read_state(world: &World) -> LearntState {
    let query = async |arguments: &[&str]| world.run_json(&[&["--tenant", "acme"], arguments].concat()).await;
    let rules = query(&["rules", "list"]).await;
    let rule = |one: &Value| {
        let sightings = one["evidence"].as_array().map_or(0, Vec::len) as u64;
        (json_text(&one["lesson"], "title").to_owned(), one["weight"].as_u64().unwrap_or_default(), sightings)
    };
    let runs = query(&["runs"]).await;
    let run = |one: &Value| (json_text(&one["facts"], "run_id").to_owned(), one["not_counted"].to_string());
    LearntState {
        rules: json_items(&rules).iter().map(rule).collect(),
        outcomes: query(&["outcomes", "--workflow", CI]).await,
        runs: json_items(&runs).iter().map(run).collect(),
    }
}

/// Waits until everything published so far is handled: a comment on another pull request is decided last.
async fn wait_until_handled(world: &World, number: u64) {
    let mut payload = load_payload("issue_comment", "on-pull-request");
    payload["issue"]["number"] = json!(number);
    payload["comment"]["body"] = json!("Thank you!");
    let delivery = format!("marker {number}");
    assert_eq!(world.post_webhook(&Webhook::new("issue_comment", &delivery, &payload)).await.0, 202);
    let review = format!("acme/shop#{number}");
    world
        .wait_for("the last comment is decided", async || {
            let reports = ["--tenant", "acme", "rules", "reports", "--limit", "1000"];
            let reports = world.run_json(&reports).await;
            json_items(&reports).iter().any(|one| one["review"]["pull_request"] == review).then_some(())
        })
        .await;
    world.wait_until_idle().await;
    let outcomes = ["--tenant", "acme", "outcomes", "--workflow", CI];
    world
        .wait_for("the run is linked", async || {
            (!json_items(&world.run_json(&outcomes).await).is_empty()).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_pull_request_teaches_the_same_by_webhooks_by_sync_and_by_both() {
    let mut states = Vec::new();
    for order in [["webhook", "sync"], ["sync", "webhook"], ["sync", "sync"]] {
        let (mut world, github) = (World::empty(), FakeGithub::start().await);
        let variables = build_environment(&world, &github);
        up(&mut world, &variables).await;
        let known = build_pull_request();
        known.set_answers(&github);
        let mut exports = Vec::new();
        for (nth, way) in order.into_iter().enumerate() {
            if way == "webhook" {
                known.post_webhooks(&world).await;
            } else {
                let synced = sync(&world, &variables, &[]).await;
                assert_eq!(synced.code, Some(0), "{synced:?}");
                assert!(synced.out.contains("published 5 events"), "{synced:?}");
                assert!(synced.out.contains("left out 1: push: no commit names a run"), "{synced:?}");
            }
            wait_until_handled(&world, 100 + nth as u64).await;
            states.push(read_state(&world).await);
            let export = world.run_retro(&["--tenant", "acme", "export", "--canonical"]).await;
            exports.push(export.out);
        }
        assert_eq!(exports[0], exports[1], "{order:?}");
        assert!(exports[0].contains("unwrap"), "{}", exports[0]);
        let dead_letters = world.run_json(&["--tenant", "acme", "dead-letters", "list"]).await;
        assert_eq!(dead_letters, json!([]), "{order:?}");
        // A store without a counted run has nothing to verify.
        world.publish_event("acme", "nightly", &build_bare_run("nightly", 0)).await;
        world.wait_until_counted("acme", 1).await;
        world.verify_store().await;
        world.stop().await;
    }
    assert_eq!(states[0].rules.len(), 1, "{states:?}");
    assert_eq!(states[0].runs.len(), 1, "{states:?}");
    assert_eq!(states[0].outcomes[0]["merged"], 1, "{states:?}");
    assert_eq!(states[0].outcomes[0]["changes_requested"], 1, "{states:?}");
    assert!(states.iter().all(|state| *state == states[0]), "{states:#?}");
}

#[tokio::test]
async fn a_dry_run_publishes_nothing_and_an_error_says_what_to_do() {
    let (world, github) = (World::empty(), FakeGithub::start().await);
    let variables = build_environment(&world, &github);
    build_pull_request().set_answers(&github);
    let planned = sync(&world, &variables, &["--dry-run"]).await;
    assert_eq!(planned.code, Some(0), "no broker is needed: {planned:?}");
    for line in ["would publish 5 events", "review 5 submitted", "comment 11 created", "run 17, attempt 1"] {
        assert!(planned.out.contains(line), "{line}: {planned:?}");
    }
    assert!(!planned.out.contains("unwrap"), "it prints no text of people: {planned:?}");
    let mut without_token = variables.clone();
    without_token.retain(|(name, _)| *name != "RETRO_GITHUB_TOKEN_FILE");
    let mut unmapped = variables.clone();
    unmapped.push(("RETRO_GITHUB_TENANTS", "theirs/* = acme, 4242 = acme, * = rest".to_owned()));
    for (variables, words) in
        [(&without_token, "github_token_file"), (&unmapped, "github.com/acme/shop belongs to no tenant")]
    {
        let refused = sync(&world, variables, &["--dry-run"]).await;
        assert!(refused.code == Some(1) && refused.err.contains(words), "{refused:?}");
    }
    for (status, headers, words) in [
        (401, &[][..], "replace it in github_token_file"),
        (403, &[], "may not read"),
        (404, &[], "knows no /repos/acme/shop/pulls/7"),
        (429, &[("retry-after", "42")], "try again in 42 s"),
    ] {
        github.set_status("/repos/acme/shop/pulls/7", status, headers);
        let refused = sync(&world, &variables, &[]).await;
        assert!(refused.code == Some(1) && refused.err.contains(words), "{refused:?}");
        assert!(!refused.err.contains(GITHUB_TOKEN), "{refused:?}");
    }
}

/// What the failed step says. It names its remedy, so one lesson can be made of it.
const ERROR: &str =
    "deploy.py: error: argument --region: invalid choice: 'eu' (choose from 'eu-west-1', 'us-east-1')";

/// Returns the log of a job that deployed to a region that does not exist, and printed a secret.
fn build_log(secret: &str) -> String {
    let noise = format!("{NOISE}\n").repeat(40);
    let text = format!(
        "##[group]Run python deploy.py --region eu\n\u{1b}[36;1mpython deploy.py --region eu\u{1b}[0m\n\
         shell: /usr/bin/bash -e {{0}}\n##[endgroup]\n{noise}using {secret}\n{ERROR}\n\
         ##[error]Process completed with exit code 2.\n{noise}"
    );
    text.lines().map(|line| format!("2026-11-20T10:00:00.0000000Z {line}\n")).collect()
}

#[tokio::test]
async fn failed_workflow_runs_are_investigated_by_the_failing_lines_of_their_logs() {
    let (mut world, github) = (World::empty(), FakeGithub::start().await);
    let variables = build_environment(&world, &github);
    up(&mut world, &variables).await;
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    for run in 1..=10 {
        let at = format!("/repos/acme/shop/actions/runs/{run}/attempts/1/jobs");
        let jobs = json!([{"id": 100 + run, "name": "test (3.12)", "conclusion": "failure", "steps": [{"name": "Tests", "conclusion": "failure"}]}]);
        github.set_document(&at, json!({"jobs": jobs}));
        let log = format!("/repos/acme/shop/actions/jobs/{}/logs", 100 + run);
        // Half of the logs have expired.
        if run > 5 { github.set_log(&log, &build_log(&secret)) } else { github.set_status(&log, 410, &[]) }
    }
    let mut payload = load_payload("workflow_run", "completed");
    payload["workflow_run"]["run_attempt"] = json!(1);
    for run in 1..=10 {
        payload["workflow_run"]["id"] = json!(run);
        let webhook = Webhook::new("workflow_run", &format!("run {run}"), &payload);
        assert_eq!(world.post_webhook(&webhook).await.0, 202);
    }
    world.wait_until_counted("acme", 10).await;
    world.wait_until_idle().await;
    let retrospectives = world.run_json(&["--tenant", "acme", "retrospectives", "list"]).await;
    assert_eq!(json_items(&retrospectives).len(), 1, "{retrospectives}");
    let reports = world.run_json(&["--tenant", "acme", "reports", "list"]).await;
    let id = json_text(&json_items(&reports)[0]["retrospective"], "id").to_owned();
    let report = world.run_retro(&["--tenant", "acme", "reports", "show", &id, "--markdown"]).await.out;
    assert!(report.contains(ERROR), "{report}");
    assert!(report.contains("no longer kept by GitHub"), "an expired log is replaced: {report}");
    let context = world
        .run_json(
            &[
                &["--tenant", "acme", "context", "--workflow", "github.com/acme/shop/test.yml"][..],
                &["--step", "test", "--repo", "acme/shop"],
            ]
            .concat(),
        )
        .await;
    assert!(json_text(&context, "text").contains("use one of the choices"), "{context}\n{report}");
    world.verify_store().await;
    world.stop().await;
    let stored = std::fs::read_dir(world.data_dir()).expect("the data folder");
    let stored: Vec<_> =
        stored.map(|one| one.expect("an entry").path()).filter(|path| path.is_file()).collect();
    let contains = |words: &str| {
        stored.iter().any(|path| {
            let bytes = std::fs::read(path).expect("a file of the data folder");
            bytes.windows(words.len()).any(|window| window == words.as_bytes())
        })
    };
    assert!(contains("invalid choice"), "positive control");
    assert!(!contains(NOISE) && !contains(&secret) && !contains(GITHUB_TOKEN));
    assert!(github.storage_requests().iter().all(|one| one.authorization.is_none()));
}
