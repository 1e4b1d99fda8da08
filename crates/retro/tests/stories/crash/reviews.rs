//! Crashes along the path of a review from the stream to a rule, and while an operator promotes a rule.

use retro_core::id::{MemoryId, Tenant};
use retro_core::memory::ChangeCause;
use retro_events::github::{AuthorAssociation, Comment, GithubData, Person, RepositoryEvent};
use retro_fault::{Label, Side};
use serde_json::{Value, json};

use super::harness::{CrashHarness, CrashPoint, RUNS, compare_with_undisturbed};
use crate::world::{RunBuilder, build_correcting_runs, json_items, json_text};

pub(super) const LABELS: [Label; 5] = [
    Label::RecordEventsCommit,
    Label::RecordEventsAck,
    Label::ReviewCommit,
    Label::RulesCommit,
    Label::PromoteCommit,
];

#[test]
fn killed_at_every_step_of_a_review_the_same_is_learned() {
    println!("{}", compare_with_undisturbed(|_| &LABELS, run_script));
}

async fn run_script(ground: &mut CrashHarness) {
    ground.up().await;
    // `retro verify` requires at least one counted run.
    ground.publish_events("runs", &build_correcting_runs("runs", "deploy_service", 0..1)).await;
    ground.wait_until_finished("runs", 1).await;
    for point in CrashPoint::for_labels(&LABELS) {
        let repo = format!("acme/{}", point.workflow_name());
        if point.label == Label::PromoteCommit {
            ground
                .publish_github_event(
                    "default",
                    &point.to_fault_value(),
                    &build_rule_comment(&repo, AuthorAssociation::None),
                )
                .await;
            let id = wait_for_rule(ground, &repo, "tentative").await;
            let promote = ["rules", "promote", &id, "--by", "ada", "--reason", "it is our rule"];
            ground.run_killed_then_repeat(point, &promote).await;
            wait_for_rule(ground, &repo, "active").await;
            continue;
        }
        // The writer credits a rule with runs in the same step in which it applies a review's request, so
        // each is killed on one side.
        let of_runs = (point.label, point.side) == (Label::RulesCommit, Side::Before);
        if !of_runs {
            ground.arm_crash(point);
        }
        ground
            .publish_github_event(
                "default",
                &point.to_fault_value(),
                &build_rule_comment(&repo, AuthorAssociation::Member),
            )
            .await;
        if of_runs {
            let id = wait_for_rule(ground, &repo, "active").await;
            let runs = build_runs_using_rule(ground, &point.workflow_name(), &repo).await;
            ground.arm_crash(point);
            ground.publish_events(&point.workflow_name(), &runs).await;
            ground.wait_for_crash_and_restart(point).await;
            wait_until_credited(ground, &id).await;
        } else {
            ground.wait_for_crash_and_restart(point).await;
            wait_for_rule(ground, &repo, "active").await;
        }
        ground.record_recovery();
    }
    assert_eq!(ground.run_json(&["dead-letters", "list"]).await, serde_json::json!([]));
}

/// Returns the runs of a window to which the repository's rules were presented and whose agents follow the
/// rule of [`build_rule_comment`].
async fn build_runs_using_rule(ground: &CrashHarness, workflow: &str, repo: &str) -> Vec<Value> {
    let mut runs = Vec::new();
    for number in 0..RUNS {
        let id = format!("{workflow}-{number}");
        let context = ["context", "--workflow", workflow, "--run", &id, "--repo", repo];
        assert_eq!(ground.run_json(&context).await["recorded"], "recorded");
        let text = json!({"text": "library code: return Err(problem) as a Result"});
        let run = RunBuilder::new(workflow, &id).with_message("Mend the parser.");
        runs.push(run.with_call("write_file", &text, "written").build_event());
    }
    runs
}

/// Waits until both sampled runs are credited to the rule.
async fn wait_until_credited(ground: &CrashHarness, id: &str) {
    let (store, tenant) = (ground.open_store().await, Tenant::default_tenant());
    let id: MemoryId = id.parse().expect("an id");
    ground
        .wait_for("the rule is credited", async || {
            let history = store.list_memory_changes(&tenant, id).await.ok()?;
            let credits = history.iter().filter(|change| matches!(change.cause, ChangeCause::Run { .. }));
            (credits.count() == 2).then_some(())
        })
        .await;
}

/// Waits for the only rule of a repository and returns its id.
async fn wait_for_rule(ground: &CrashHarness, repo: &str, status: &str) -> String {
    let listed = ground
        .wait_for(&format!("{repo} has a rule"), async || {
            let listed = ground.run_json(&["rules", "list", "--repo", repo, "--status", status]).await;
            (!json_items(&listed).is_empty()).then_some(listed)
        })
        .await;
    assert_eq!(json_items(&listed).len(), 1, "{listed}");
    json_text(&json_items(&listed)[0], "id").to_owned()
}

/// Returns a comment on a pull request that asks for a rule.
fn build_rule_comment(repo: &str, association: AuthorAssociation) -> GithubData {
    let comment = Comment {
        id: 11,
        by: Some(Person { login: "ann".to_owned(), bot: false }),
        association,
        body: "Always return a `Result` instead of calling `unwrap()` in library code.".to_owned(),
        truncated: false,
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
    GithubData { repo: repo.to_owned(), host: "github.com".to_owned(), what }
}
