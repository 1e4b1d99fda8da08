//! Tests which remarks in reviews become rules and which do not.

mod by_hand;
mod by_model;
mod life;

use jiff::Timestamp;
use retro_events::github::{
    AuthorAssociation, Comment, GithubData, Person, PullRequest, RepositoryEvent, Review, ReviewState,
};
use serde_json::Value;

use crate::world::{DatabaseKind, Fleet, World, build_correcting_runs, json_items, json_text};

const RULE: &str = "Always return a `Result` instead of calling `unwrap()` in library code.";
const REPO: &str = "acme/shop";
/// Long enough to decide a review together with its comments, and short enough for a test.
const SHORT_DEBOUNCE: [(&str, &str); 1] = [("RETRO_REVIEW_DEBOUNCE_S", "1")];

#[tokio::test]
async fn a_members_review_becomes_an_active_rule_and_redelivery_changes_nothing_on_sqlite() {
    check_members_review(&mut *start_fleet(DatabaseKind::Sqlite).await).await;
}

#[tokio::test]
async fn a_members_review_becomes_an_active_rule_and_redelivery_changes_nothing_on_postgres() {
    check_members_review(&mut *start_fleet(DatabaseKind::Postgres).await).await;
}

async fn start_fleet(kind: DatabaseKind) -> Box<Fleet> {
    let mut fleet = Fleet::unstarted(kind).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    fleet.up_with_env(&SHORT_DEBOUNCE).await;
    Box::new(fleet)
}

async fn check_members_review(world: &mut Fleet) {
    // The comments of a review come before the review, and one of them is not a rule.
    let events = [
        build_comment(7, 12, "ann", AuthorAssociation::Member, "Why is this here?"),
        build_comment(7, 11, "ann", AuthorAssociation::Member, RULE),
        build_review(7, 5, "ann", AuthorAssociation::Member, ""),
    ];
    for (number, data) in events.iter().enumerate() {
        world.publish_github_event("default", &format!("delivery-{number}"), data).await;
    }
    let rule = wait_for_rule(world, "active").await;
    assert_eq!((rule["weight"].as_u64(), rule["scope"]["repo"].as_str()), (Some(300), Some(REPO)), "{rule}");
    // Later comments are decided later: once this one is decided, nothing of the review is left to decide, no
    // matter how many rounds it took.
    world
        .publish_github_event(
            "default",
            "later",
            &build_comment(9, 31, "ann", AuthorAssociation::Member, "Thank you!"),
        )
        .await;
    wait_until_decided(world, 9).await;
    world.wait_until_idle().await;
    check_review_reports(world).await;
    // An agent of the repository gets the rule, and the presentation is recorded if there is a run id.
    let context = ["context", "--workflow", "fix", "--run", "run-1", "--repo", REPO];
    let context_answer = world.run_json(&context).await;
    assert!(json_text(&context_answer["rules"], "text").contains("unwrap"), "{context_answer}");
    assert_eq!(context_answer["recorded"], "recorded");
    let elsewhere = world.run_json(&["context", "--workflow", "fix", "--repo", "acme/other"]).await;
    assert_eq!(elsewhere["rules"]["rules"], serde_json::json!([]));
    let foreign =
        world.run_json(&["--tenant", "other", "context", "--workflow", "fix", "--repo", REPO]).await;
    assert_eq!(foreign["rules"]["rules"], serde_json::json!([]));
    world.emit_and_wait("default", "runs", &build_correcting_runs("fix", "deploy_service", 0..1)).await;
    world.verify_store().await;
    let before = world.export_canonical().await;
    assert!(before.contains("repo:acme/shop"), "{before}");
    for (number, data) in events.iter().enumerate() {
        world.publish_github_event("default", &format!("delivery-{number}"), data).await;
    }
    // The last comment is handled last.
    world
        .publish_github_event(
            "default",
            "last",
            &build_comment(8, 21, "ann", AuthorAssociation::Member, "Thanks!"),
        )
        .await;
    wait_until_decided(world, 8).await;
    assert_eq!(world.export_canonical().await, before);
    assert_eq!(world.run_json(&["dead-letters", "list"]).await, serde_json::json!([]));
    world.stop_up().await;
}

/// Asserts that the reports show both remarks, and the rule created from one of them.
async fn check_review_reports(world: &World) {
    let reports = world.run_json(&["rules", "reports", "--repo", REPO]).await;
    let review = format!("{REPO}#7");
    let of_it = json_items(&reports).iter().filter(|report| report["review"]["pull_request"] == review);
    let (mut remarks, mut output) = (0, String::new());
    for report in of_it {
        remarks = remarks.max(json_items(&report["remarks"]).len());
        output.push_str(&world.run_retro(&["rules", "reports", json_text(report, "id")]).await.out);
    }
    assert_eq!(remarks, 2, "{reports}");
    assert!(output.contains("Why is this here?") && output.contains("created"), "{output}");
}

#[tokio::test]
async fn the_authors_association_decides_how_a_rule_starts() {
    let mut world = World::empty();
    world.up_with_env(&SHORT_DEBOUNCE).await;
    let bot =
        GithubData { ..build_comment_by(1, 1, build_person("lint", true), AuthorAssociation::None, RULE) };
    world.publish_github_event("default", "bot", &bot).await;
    wait_until_decided(&world, 1).await;
    assert_eq!(world.run_json(&["rules", "list"]).await, serde_json::json!([]));
    world
        .publish_github_event(
            "default",
            "contributor",
            &build_comment(2, 2, "cy", AuthorAssociation::Contributor, RULE),
        )
        .await;
    let tentative = wait_for_rule(&world, "tentative").await;
    assert_eq!(tentative["quarantine"], Value::Null);
    world
        .publish_github_event(
            "default",
            "again",
            &build_comment(3, 3, "cy", AuthorAssociation::Contributor, RULE),
        )
        .await;
    wait_for_rule(&world, "active").await;
    let other = "Never commit generated files to the repository.";
    world
        .publish_github_event(
            "default",
            "stranger",
            &build_comment(4, 4, "eve", AuthorAssociation::None, other),
        )
        .await;
    let quarantined = wait_for_rule(&world, "tentative").await;
    assert!(quarantined["quarantine"].is_string(), "{quarantined}");
    let context = world.run_json(&["context", "--workflow", "fix", "--repo", REPO]).await;
    assert!(!context.to_string().contains("generated"), "{context}");
    let id = json_text(&quarantined, "id").to_owned();
    let promote = ["rules", "promote", &id[..8], "--by", "ann", "--reason", "it is our rule"];
    assert_eq!(world.run_json(&promote).await["result"], "promoted");
    assert_eq!(world.run_json(&promote).await["result"], "was already promoted by this request");
    let context = world.run_json(&["context", "--workflow", "fix", "--repo", REPO]).await;
    assert!(context.to_string().contains("generated"), "{context}");
    let retire = ["rules", "retire", &id, "--by", "ann", "--reason", "not any more"];
    assert_eq!(world.run_json(&retire).await["result"], "retired");
    let why = world.run_json(&["rules", "why", &id]).await;
    assert!(why.to_string().contains("retired by ann: not any more"), "{why}");
    assert_eq!(world.run_retro(&["--tenant", "other", "rules", "why", &id]).await.code, Some(3));
    world.stop().await;
}

#[tokio::test]
async fn a_rule_whose_remark_is_deleted_ends() {
    let mut world = World::empty();
    world.up_with_env(&SHORT_DEBOUNCE).await;
    world
        .publish_github_event(
            "default",
            "said",
            &build_comment(7, 11, "ann", AuthorAssociation::Member, RULE),
        )
        .await;
    let rule_id = json_text(&wait_for_rule(&world, "active").await, "id").to_owned();
    let mut deleted = build_comment(7, 11, "ann", AuthorAssociation::Member, RULE);
    if let RepositoryEvent::PullRequestReviewComment { action, .. } = &mut deleted.what {
        "deleted".clone_into(action);
    }
    world.publish_github_event("default", "gone", &deleted).await;
    world
        .wait_for("the rule is gone", async || {
            let memory = world.run_json(&["rules", "show", &rule_id]).await;
            (memory["status"] != "active").then_some(())
        })
        .await;
    world.stop().await;
}

/// Waits for a rule with this status and returns the newest.
async fn wait_for_rule(world: &World, status: &str) -> Value {
    world
        .wait_for(&format!("a rule is {status}"), async || {
            let rules = world.run_json(&["rules", "list", "--status", status]).await;
            json_items(&rules).first().cloned()
        })
        .await
}

/// Waits until a pull request is decided.
async fn wait_until_decided(world: &World, number: u64) {
    let review = format!("{REPO}#{number}");
    world
        .wait_for(&format!("{review} is decided"), async || {
            let reports = world.run_json(&["rules", "reports", "--limit", "1000"]).await;
            json_items(&reports).iter().any(|report| report["review"]["pull_request"] == review).then_some(())
        })
        .await;
}

fn build_person(login: &str, bot: bool) -> Person {
    Person { login: login.to_owned(), bot }
}

fn build_pull_request(number: u64) -> PullRequest {
    PullRequest {
        number,
        author: Some(build_person("jo", false)),
        open: true,
        merged: false,
        head_commit: None,
        merge_commit: None,
        opened_at: None,
        closed_at: None,
        url: None,
        reverts: Vec::new(),
    }
}

fn sample_time() -> Timestamp {
    "2026-11-20T10:00:00Z".parse().expect("a timestamp")
}

/// Returns a comment on line 3 of a pull request of [`REPO`].
pub(crate) fn build_comment(
    number: u64,
    id: u64,
    by: &str,
    association: AuthorAssociation,
    body: &str,
) -> GithubData {
    build_comment_by(number, id, build_person(by, false), association, body)
}

fn build_comment_by(
    number: u64,
    id: u64,
    by: Person,
    association: AuthorAssociation,
    body: &str,
) -> GithubData {
    let comment = Comment {
        id,
        by: Some(by),
        association,
        body: body.to_owned(),
        truncated: false,
        review: Some(5),
        reply_to: None,
        path: Some("src/lib.rs".to_owned()),
        line: Some(3),
        thumbs_up: 0,
        at: Some(sample_time()),
        changed_at: Some(sample_time()),
        url: None,
    };
    let what = RepositoryEvent::PullRequestReviewComment {
        action: "created".to_owned(),
        pull_request: build_pull_request(number),
        comment,
    };
    GithubData { repo: REPO.to_owned(), host: "github.com".to_owned(), what }
}

fn build_review(number: u64, id: u64, by: &str, association: AuthorAssociation, body: &str) -> GithubData {
    let review = Review {
        id,
        by: Some(build_person(by, false)),
        association,
        state: ReviewState::ChangesRequested,
        body: body.to_owned(),
        truncated: false,
        at: Some(sample_time()),
        url: None,
    };
    let what = RepositoryEvent::PullRequestReview {
        action: "submitted".to_owned(),
        pull_request: build_pull_request(number),
        review,
    };
    GithubData { repo: REPO.to_owned(), host: "github.com".to_owned(), what }
}
