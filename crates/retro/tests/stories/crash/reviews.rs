//! The road of a review: from the stream to a rule, and a person's word for one.

use retro_core::id::{MemoryId, Tenant};
use retro_core::memory::ChangeCause;
use retro_events::github::{AuthorAssociation, Comment, GithubData, Person, RepositoryEvent};
use retro_fault::{Label, Side};
use serde_json::{Value, json};

use super::ground::{Ground, Point, RUNS, tell};
use crate::world::{Kind, Run, items, mending, text};

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
            ground.say("default", &point.word(), &asked(&repo, AuthorAssociation::None)).await;
            let id = rule(ground, &repo, "tentative").await;
            let promote = ["rules", "promote", &id, "--by", "ada", "--reason", "it is our rule"];
            ground.given_twice(point, &promote).await;
            rule(ground, &repo, "active").await;
            continue;
        }
        // The writer applies what runs made of a rule in the same step as what a review asks: one side each.
        let of_runs = (point.label, point.side) == (Label::RulesCommit, Side::Before);
        if !of_runs {
            ground.arm(point);
        }
        ground.say("default", &point.word(), &asked(&repo, AuthorAssociation::Member)).await;
        if of_runs {
            let id = rule(ground, &repo, "active").await;
            let runs = using(ground, &point.workflow(), &repo).await;
            ground.arm(point);
            ground.publish_all(&point.workflow(), &runs).await;
            ground.dies(point).await;
            credited(ground, &id).await;
        } else {
            ground.dies(point).await;
            rule(ground, &repo, "active").await;
        }
        ground.recovered();
    }
    assert_eq!(ground.ask(&["dead-letters", "list"]).await, serde_json::json!([]));
}

/// The runs of a window, before which the rules of the repository stood and whose agents keep to the one of [`asked`].
async fn using(ground: &Ground, workflow: &str, repo: &str) -> Vec<Value> {
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let id = format!("{workflow}-{number}");
        let context = ["context", "--workflow", workflow, "--run", &id, "--repo", repo];
        assert_eq!(ground.ask(&context).await["recorded"], "recorded");
        let text = json!({"text": "library code: return Err(problem) as a Result"});
        let run = Run::new(workflow, &id).told("Mend the parser.");
        runs.push(run.call("write_file", &text, "written").event());
    }
    runs
}

/// Waits until both sampled runs are credited to the rule.
async fn credited(ground: &Ground, id: &str) {
    let (store, tenant) = (ground.store().await, Tenant::default_tenant());
    let id: MemoryId = id.parse().expect("an id");
    ground
        .until("the rule is credited", async || {
            let history = store.list_memory_changes(&tenant, id).await.ok()?;
            let credits = history.iter().filter(|change| matches!(change.cause, ChangeCause::Run { .. }));
            (credits.count() == 2).then_some(())
        })
        .await;
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
fn asked(repo: &str, association: AuthorAssociation) -> GithubData {
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
    let what = RepositoryEvent::IssueComment { action: "created".to_owned(), number: 7, comment };
    GithubData { repo: repo.to_owned(), host: "github.com".to_owned(), sender: None, what }
}
