//! The road of a review: from the stream to a rule, and a person's word for one.

use retro_events::github::{Association, Comment, GithubData, Happened, Person};
use retro_fault::Label;

use super::ground::{Ground, Point, tell};
use crate::world::{Kind, items, mending, text};

pub(super) const LABELS: [Label; 5] =
    [Label::HearCommit, Label::HearAck, Label::ReviewCommit, Label::RulesCommit, Label::PromoteCommit];

#[tokio::test]
async fn killed_at_every_step_of_a_review_on_sqlite_it_learns_what_it_would_have_learnt() {
    println!("{}", tell(Kind::Sqlite, &LABELS, script).await);
}

#[tokio::test]
async fn killed_at_every_step_of_a_review_on_postgres_it_learns_what_it_would_have_learnt() {
    println!("{}", tell(Kind::Postgres, &LABELS, script).await);
}

async fn script(ground: &mut Ground) {
    ground.up().await;
    // What is sound has counted a run.
    ground.publish_all("runs", &mending("runs", "deploy_service", 0..1)).await;
    ground.finished("runs", 1).await;
    for point in Point::of(&LABELS) {
        let repo = format!("acme/{}", point.workflow());
        if point.label == Label::PromoteCommit {
            ground.say("default", &point.word(), &asked(&repo, Association::None)).await;
            let id = rule(ground, &repo, "tentative").await;
            let promote = ["rules", "promote", &id, "--by", "ada", "--reason", "it is our rule"];
            ground.given_twice(point, &promote).await;
            rule(ground, &repo, "active").await;
            continue;
        }
        ground.arm(point);
        ground.say("default", &point.word(), &asked(&repo, Association::Member)).await;
        ground.dies(point).await;
        rule(ground, &repo, "active").await;
        ground.recovered();
    }
    assert_eq!(ground.ask(&["dead-letters", "list"]).await, serde_json::json!([]));
}

/// Waits for the only rule of a repository, and returns its id.
async fn rule(ground: &Ground, repo: &str, status: &str) -> String {
    let listed = ground
        .until(&format!("{repo} has a rule"), async || {
            let listed = ground.ask(&["rules", "list", "--repo", repo, "--status", status]).await;
            (!items(&listed).is_empty()).then_some(listed)
        })
        .await;
    assert_eq!(items(&listed).len(), 1, "{listed}");
    text(&items(&listed)[0], "id").to_owned()
}

/// Somebody asks for something in the conversation of a pull request.
fn asked(repo: &str, association: Association) -> GithubData {
    let comment = Comment {
        id: 11,
        by: Some(Person { login: "ann".to_owned(), bot: false }),
        association,
        body: "Always return a `Result` instead of calling `unwrap()` in library code.".to_owned(),
        cut: false,
        review: None,
        reply_to: None,
        path: None,
        line: None,
        thumbs_up: 0,
        at: None,
        changed_at: None,
        url: None,
    };
    let what = Happened::IssueComment { action: "created".to_owned(), number: 7, comment };
    GithubData { repo: repo.to_owned(), host: "github.com".to_owned(), sender: None, what }
}
