//! What people say in reviews becomes rules, or does not, and why.

mod life;

use jiff::Timestamp;
use retro_events::github::{
    AuthorAssociation, Comment, GithubData, Person, PullRequest, RepositoryEvent, Review, ReviewState,
};
use serde_json::Value;

use crate::world::{Fleet, Kind, World, items, mending, text};

const RULE: &str = "Always return a `Result` instead of calling `unwrap()` in library code.";
const REPO: &str = "acme/shop";
/// So that a review and its comments are decided upon together, and no story takes half a minute.
const QUICK: [(&str, &str); 1] = [("RETRO_REVIEW_DEBOUNCE_S", "1")];

#[tokio::test]
async fn a_members_review_becomes_an_active_rule_and_everything_again_changes_nothing_on_sqlite() {
    a_members_review(&mut *of(Kind::Sqlite).await).await;
}

#[tokio::test]
async fn a_members_review_becomes_an_active_rule_and_everything_again_changes_nothing_on_postgres() {
    a_members_review(&mut *of(Kind::Postgres).await).await;
}

async fn of(kind: Kind) -> Box<Fleet> {
    let mut fleet = Fleet::nowhere(kind).await;
    fleet.start_broker().await;
    fleet.start_database().await;
    fleet.up_with(&QUICK).await;
    Box::new(fleet)
}

async fn a_members_review(world: &mut Fleet) {
    // The comments of a review come before it, and one of them is no rule.
    let said = [
        comment(7, 12, "ann", AuthorAssociation::Member, "Why is this here?"),
        comment(7, 11, "ann", AuthorAssociation::Member, RULE),
        review(7, 5, "ann", AuthorAssociation::Member, ""),
    ];
    for (number, data) in said.iter().enumerate() {
        world.say("default", &format!("delivery-{number}"), data).await;
    }
    let rule = rule(world, "active").await;
    assert_eq!((rule["weight"].as_u64(), rule["scope"]["repo"].as_str()), (Some(300), Some(REPO)), "{rule}");
    // What is said later is decided upon later: by then nothing is left to decide about the review, in however many rounds.
    world.say("default", "later", &comment(9, 31, "ann", AuthorAssociation::Member, "Thank you!")).await;
    decided(world, 9).await;
    world.still().await;
    told_of_the_review(world).await;
    // An agent that works on the repository is handed it, once a run is named it is recorded.
    let context = ["context", "--workflow", "fix", "--run", "run-1", "--repo", REPO];
    let handed = world.ask(&context).await;
    assert!(text(&handed["rules"], "text").contains("unwrap"), "{handed}");
    assert_eq!(handed["recorded"], "recorded");
    let elsewhere = world.ask(&["context", "--workflow", "fix", "--repo", "acme/other"]).await;
    assert_eq!(elsewhere["rules"]["rules"], serde_json::json!([]));
    let foreign = world.ask(&["--tenant", "other", "context", "--workflow", "fix", "--repo", REPO]).await;
    assert_eq!(foreign["rules"]["rules"], serde_json::json!([]));
    world.emit("default", "runs", &mending("fix", "deploy_service", 0..1)).await;
    world.sound().await;
    let before = world.export().await;
    assert!(before.contains("repo:acme/shop"), "{before}");
    for (number, data) in said.iter().enumerate() {
        world.say("default", &format!("delivery-{number}"), data).await;
    }
    // What is said last is taken last.
    world.say("default", "last", &comment(8, 21, "ann", AuthorAssociation::Member, "Thanks!")).await;
    decided(world, 8).await;
    assert_eq!(world.export().await, before);
    assert_eq!(world.ask(&["dead-letters", "list"]).await, serde_json::json!([]));
    world.stop_up().await;
}

/// The reports tell of both remarks, and that a rule came of one.
async fn told_of_the_review(world: &World) {
    let reports = world.ask(&["rules", "reports", "--repo", REPO]).await;
    let review = format!("{REPO}#7");
    let of_it = items(&reports).iter().filter(|report| report["review"]["pull_request"] == review);
    let (mut remarks, mut told) = (0, String::new());
    for report in of_it {
        remarks = remarks.max(items(&report["remarks"]).len());
        told.push_str(&world.retro(&["rules", "reports", text(report, "id")]).await.out);
    }
    assert_eq!(remarks, 2, "{reports}");
    assert!(told.contains("Why is this here?") && told.contains("created"), "{told}");
}

#[tokio::test]
async fn whoever_asks_decides_how_a_rule_begins() {
    let mut world = World::empty();
    world.up_with(&QUICK).await;
    let bot =
        GithubData { sender: None, ..comment_by(1, 1, person("lint", true), AuthorAssociation::None, RULE) };
    world.say("default", "bot", &bot).await;
    decided(&world, 1).await;
    assert_eq!(world.ask(&["rules", "list"]).await, serde_json::json!([]));
    world.say("default", "contributor", &comment(2, 2, "cy", AuthorAssociation::Contributor, RULE)).await;
    let tentative = rule(&world, "tentative").await;
    assert_eq!(tentative["quarantine"], Value::Null);
    world.say("default", "again", &comment(3, 3, "cy", AuthorAssociation::Contributor, RULE)).await;
    rule(&world, "active").await;
    let other = "Never commit generated files to the repository.";
    world.say("default", "stranger", &comment(4, 4, "eve", AuthorAssociation::None, other)).await;
    let kept = rule(&world, "tentative").await;
    assert!(kept["quarantine"].is_string(), "{kept}");
    let handed = world.ask(&["context", "--workflow", "fix", "--repo", REPO]).await;
    assert!(!handed.to_string().contains("generated"), "{handed}");
    let id = text(&kept, "id").to_owned();
    let promote = ["rules", "promote", &id[..8], "--by", "ann", "--reason", "it is our rule"];
    assert_eq!(world.ask(&promote).await["did"], "promoted");
    assert_eq!(world.ask(&promote).await["did"], "was already promoted by this request");
    let handed = world.ask(&["context", "--workflow", "fix", "--repo", REPO]).await;
    assert!(handed.to_string().contains("generated"), "{handed}");
    let retire = ["rules", "retire", &id, "--by", "ann", "--reason", "not any more"];
    assert_eq!(world.ask(&retire).await["did"], "retired");
    let why = world.ask(&["rules", "why", &id]).await;
    assert!(why.to_string().contains("retired by ann: not any more"), "{why}");
    assert_eq!(world.retro(&["--tenant", "other", "rules", "why", &id]).await.code, Some(3));
    world.stop().await;
}

#[tokio::test]
async fn a_rule_whose_remark_is_taken_back_goes() {
    let mut world = World::empty();
    world.up_with(&QUICK).await;
    world.say("default", "said", &comment(7, 11, "ann", AuthorAssociation::Member, RULE)).await;
    let rule_id = text(&rule(&world, "active").await, "id").to_owned();
    let mut gone = comment(7, 11, "ann", AuthorAssociation::Member, RULE);
    if let RepositoryEvent::PullRequestReviewComment { action, .. } = &mut gone.what {
        "deleted".clone_into(action);
    }
    world.say("default", "gone", &gone).await;
    world
        .until("the rule is gone", async || {
            let memory = world.ask(&["rules", "show", &rule_id]).await;
            (memory["status"] != "active").then_some(())
        })
        .await;
    world.stop().await;
}

/// Waits for the rule of this status, the newest.
async fn rule(world: &World, status: &str) -> Value {
    world
        .until(&format!("there is one that is {status}"), async || {
            let rules = world.ask(&["rules", "list", "--status", status]).await;
            items(&rules).first().cloned()
        })
        .await
}

/// Waits until a pull request was decided upon.
async fn decided(world: &World, number: u64) {
    let review = format!("{REPO}#{number}");
    world
        .until(&format!("{review} is decided upon"), async || {
            let reports = world.ask(&["rules", "reports", "--limit", "1000"]).await;
            items(&reports).iter().any(|report| report["review"]["pull_request"] == review).then_some(())
        })
        .await;
}

fn person(login: &str, bot: bool) -> Person {
    Person { login: login.to_owned(), bot }
}

fn pull_request(number: u64) -> PullRequest {
    PullRequest {
        number,
        author: Some(person("jo", false)),
        open: true,
        merged: false,
        head_commit: None,
        merge_commit: None,
        opened_at: None,
        closed_at: None,
        url: None,
    }
}

fn moment() -> Timestamp {
    "2026-11-20T10:00:00Z".parse().expect("a moment")
}

fn comment(number: u64, id: u64, by: &str, association: AuthorAssociation, body: &str) -> GithubData {
    comment_by(number, id, person(by, false), association, body)
}

fn comment_by(number: u64, id: u64, by: Person, association: AuthorAssociation, body: &str) -> GithubData {
    let comment = Comment {
        id,
        by: Some(by),
        association,
        body: body.to_owned(),
        cut: false,
        review: Some(5),
        reply_to: None,
        path: Some("src/lib.rs".to_owned()),
        line: Some(3),
        thumbs_up: 0,
        at: Some(moment()),
        changed_at: Some(moment()),
        url: None,
    };
    let what = RepositoryEvent::PullRequestReviewComment {
        action: "created".to_owned(),
        pull_request: pull_request(number),
        comment,
    };
    GithubData { repo: REPO.to_owned(), host: "github.com".to_owned(), sender: None, what }
}

fn review(number: u64, id: u64, by: &str, association: AuthorAssociation, body: &str) -> GithubData {
    let review = Review {
        id,
        by: Some(person(by, false)),
        association,
        state: ReviewState::ChangesRequested,
        body: body.to_owned(),
        at: Some(moment()),
        url: None,
    };
    let what = RepositoryEvent::PullRequestReview {
        action: "submitted".to_owned(),
        pull_request: pull_request(number),
        review,
    };
    GithubData { repo: REPO.to_owned(), host: "github.com".to_owned(), sender: None, what }
}
