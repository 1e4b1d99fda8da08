//! Follows the life of a rule from signed webhooks to an agent's context.

use serde_json::{Value, json};

use crate::world::{BRIDGE_ENV, RunBuilder, Webhook, World, json_items, json_text, load_payload};

/// Two runs make a window, both are investigated, and two that ignore a rule archive it.
const POLICY: &str = "[trigger]\nthreshold_runs = 2\n[selection]\nsample_permille = 1000\nsample_runs_max = 2\n[rules]\nrule_presentations_max = 2\n";
const RULE: &str = "Always return a `Result` instead of calling `unwrap()` in library code.";
const REPO: &str = "acme/shop";

async fn start_bridged_world() -> World {
    let mut world = World::empty();
    world.write_policy(POLICY);
    world.up_with_env(&[&BRIDGE_ENV[..], &[("RETRO_REVIEW_DEBOUNCE_S", "1")]].concat()).await;
    world
}

/// Returns a recorded comment on a line of a pull request, with this author and text.
fn build_comment(number: u64, id: u64, by: &str, association: &str, body: &str) -> Value {
    let mut payload = load_payload("pull_request_review_comment", "created");
    payload["pull_request"]["number"] = json!(number);
    let comment = &mut payload["comment"];
    comment["id"] = json!(id);
    comment["user"]["login"] = json!(by);
    comment["author_association"] = json!(association);
    comment["body"] = json!(body);
    payload
}

/// Posts a comment to the bridge with a delivery id.
async fn post_comment(world: &World, delivery: &str, payload: &Value) {
    let webhook = Webhook::new("pull_request_review_comment", delivery, payload);
    assert_eq!(world.post_webhook(&webhook).await.0, 202, "{payload}");
}

/// Waits for a rule with this status that contains these words.
async fn wait_for_rule(world: &World, status: &str, words: &str) -> Value {
    let found = async || {
        let listed =
            world.run_json(&["--tenant", "acme", "rules", "list", "--repo", REPO, "--status", status]).await;
        json_items(&listed).iter().find(|rule| rule.to_string().contains(words)).cloned()
    };
    world.wait_for(&format!("a rule about {words} is {status}"), found).await
}

async fn explain_rule(world: &World, id: &str) -> String {
    world.run_json(&["--tenant", "acme", "rules", "why", id]).await.to_string()
}

/// Returns the rules that an agent of the repository gets. If there is a run id, they are recorded as
/// presented.
async fn fetch_rules(world: &World, run: Option<&str>) -> String {
    let arguments = ["--tenant", "acme", "context", "--workflow", "fix", "--repo", REPO];
    let run = run.map(|run| ["--run", run]);
    let answer =
        world.run_json(&[&arguments[..], run.as_ref().map_or(&[][..], |run| &run[..])].concat()).await;
    json_text(&answer["rules"], "text").to_owned()
}

/// Emits two runs to which the rule was presented and whose agents write these texts.
async fn emit_runs(world: &World, name: &str, wrote: [&str; 2]) {
    let mut events = Vec::new();
    for (number, text) in (1..).zip(wrote) {
        let id = format!("{name}-{number}");
        assert!(fetch_rules(world, Some(&id)).await.contains("unwrap"), "{id}");
        let run = RunBuilder::new("fix", &id).with_message("Mend the parser.");
        events.push(run.with_call("write_file", &json!({"text": text}), "written").build_event());
    }
    world.emit_and_wait("acme", name, &events).await;
}

#[tokio::test]
async fn a_rule_that_runs_ignore_is_archived_and_one_that_a_run_used_is_not() {
    let mut world = start_bridged_world().await;
    post_comment(&world, "asked", &build_comment(7, 11, "ann", "MEMBER", RULE)).await;
    let id = json_text(&wait_for_rule(&world, "active", "unwrap").await, "id").to_owned();
    emit_runs(
        &world,
        "first",
        ["library code: return Err(problem) as a Result", "library code: value.unwrap()"],
    )
    .await;
    let used = async || explain_rule(&world, &id).await.contains("in run first-1").then_some(());
    world.wait_for("the run that used it is credited", used).await;
    assert!(!explain_rule(&world, &id).await.contains("archived"), "{}", explain_rule(&world, &id).await);
    emit_runs(&world, "second", ["library code: value.unwrap()", "library code: other.unwrap()"]).await;
    wait_for_rule(&world, "archived", "unwrap").await;
    let explanation = explain_rule(&world, &id).await;
    assert!(explanation.contains("ignored in 2 investigated runs that it was presented to"), "{explanation}");
    assert_eq!(fetch_rules(&world, None).await, "");
    // A new request for the rule revives it.
    post_comment(&world, "again", &build_comment(8, 12, "ann", "MEMBER", RULE)).await;
    wait_for_rule(&world, "active", "unwrap").await;
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_rule_is_weighed_by_what_its_run_and_a_person_say_with_the_next_batch() {
    let mut world = start_bridged_world().await;
    post_comment(&world, "asked", &build_comment(7, 11, "ann", "MEMBER", RULE)).await;
    let id = json_text(&wait_for_rule(&world, "active", "unwrap").await, "id").to_owned();
    let said =
        |run: &str, verdict: &str| json!({"memory": id, "verdict": verdict, "run": run, "workflow": "fix"});
    // The rule belongs to a repository: an agent that was not handed it hears nothing of it.
    let (status, _) = world.post_json("acme", "/v1/feedback", &said("first-1", "hurt")).await;
    assert_eq!(status, 404);
    assert!(fetch_rules(&world, Some("first-1")).await.contains("unwrap"));
    let (status, answer) = world.post_json("acme", "/v1/feedback", &said("first-1", "hurt")).await;
    assert_eq!((status, &answer["recorded"]), (200, &json!("recorded")), "{answer}");
    let person = ["--tenant", "acme", "memories", "feedback", &id, "helped", "--by", "bob"];
    assert_eq!(world.run_json(&person).await["recorded"], "recorded");
    emit_runs(
        &world,
        "first",
        ["library code: return Err(problem) as a Result", "library code: value.unwrap()"],
    )
    .await;
    let weighed = async || {
        let explanation = explain_rule(&world, &id).await;
        explanation.contains("bob said that it helped").then_some(explanation)
    };
    let explanation = world.wait_for("the batch weighs what was said", weighed).await;
    // What its agent said is stronger than what the investigator saw, and counts in its place.
    assert!(
        explanation.contains("-0.150 harmed in run first-1: its agent said that it hurt"),
        "{explanation}"
    );
    let rule = world.run_json(&["--tenant", "acme", "rules", "show", &id]).await;
    assert_eq!(rule["weight"], 300 - 150 + 100, "{rule}");
    world.verify_store().await;
    world.stop().await;
}

/// Posts the webhook of a pull request that was merged with this commit.
async fn post_merge(world: &World, number: u64, commit: &str) {
    let mut payload = load_payload("pull_request", "closed");
    let pull_request = &mut payload["pull_request"];
    (pull_request["number"], pull_request["merged"]) = (json!(number), json!(true));
    pull_request["merge_commit_sha"] = json!(commit);
    let webhook = Webhook::new("pull_request", "merged", &payload);
    assert_eq!(world.post_webhook(&webhook).await.0, 202, "{payload}");
}

/// Posts the webhook of a push to the default branch with one commit that reverts another.
async fn post_revert(world: &World, reverted: &str) {
    let mut payload = load_payload("push", "push");
    payload["repository"]["default_branch"] = json!("main");
    payload["ref"] = json!("refs/heads/main");
    let message = format!("Revert \"Mend the parser\"\n\nThis reverts commit {reverted}.\n");
    payload["commits"] = json!([{ "id": "b".repeat(40), "message": message }]);
    let webhook = Webhook::new("push", "revert", &payload);
    assert_eq!(world.post_webhook(&webhook).await.0, 202, "{payload}");
}

/// Posts the webhook of a finished workflow of CI for this pull request.
async fn post_failed_check(world: &World, number: u64) {
    let mut payload = load_payload("workflow_run", "completed");
    let run = &mut payload["workflow_run"];
    (run["conclusion"], run["path"]) = (json!("failure"), json!(".github/workflows/ci.yml"));
    run["pull_requests"] = json!([{ "number": number }]);
    let webhook = Webhook::new("workflow_run", "checked", &payload);
    assert_eq!(world.post_webhook(&webhook).await.0, 202, "{payload}");
}

#[tokio::test]
async fn the_outcome_of_a_pull_request_credits_the_rule_that_its_run_used() {
    let mut world = start_bridged_world().await;
    post_comment(&world, "asked", &build_comment(7, 11, "ann", "MEMBER", RULE)).await;
    let id = json_text(&wait_for_rule(&world, "active", "unwrap").await, "id").to_owned();
    let mut events = Vec::new();
    for (number, text) in [(21, "library code: return Err(problem) as a Result"), (22, "no code at all")] {
        let run = format!("fix-{number}");
        assert!(fetch_rules(&world, Some(&run)).await.contains("unwrap"));
        let run = RunBuilder::new("fix", &run).with_message("Mend the parser.");
        let mut event = run.with_call("write_file", &json!({"text": text}), "written").build_event();
        (event["data"]["repo"], event["data"]["pull_request"]) = (json!(REPO), json!(number));
        events.push(event);
    }
    world.emit_and_wait("acme", "runs", &events).await;
    let weight = async || {
        let shown = world.run_json(&["--tenant", "acme", "rules", "show", &id]).await;
        shown["weight"].as_i64().expect("a weight")
    };
    let explained = async |words: &str| {
        let found = async || explain_rule(&world, &id).await.contains(words).then_some(());
        world.wait_for(words, found).await;
    };
    explained("in run fix-21").await;
    let before = weight().await;
    let merge = "a".repeat(40);
    post_merge(&world, 21, &merge).await;
    explained("run fix-21, whose pull request acme/shop#21 was merged").await;
    assert_eq!(weight().await, before + 50);
    post_revert(&world, &merge).await;
    explained("run fix-21, whose pull request acme/shop#21 was merged and then reverted").await;
    assert_eq!(weight().await, before - 50);
    assert!(
        !explain_rule(&world, &id).await.contains("fix-22, whose pull request"),
        "it did not use the rule"
    );
    post_failed_check(&world, 21).await;
    let check = async || {
        let shown = world.run_json(&["--tenant", "acme", "runs", "show", "fix-21"]).await;
        shown["checks"].as_array()?.first().cloned()
    };
    let check = world.wait_for("CI's conclusion reaches the run", check).await;
    assert_eq!(
        (&check["workflow"], &check["outcome"]),
        (&json!("github.com/acme/shop/ci.yml"), &json!("failure"))
    );
    let checked = world.run_json(&["--tenant", "acme", "runs", "show", json_text(&check, "run")]).await;
    assert_eq!(checked["counting"], "outcome_only", "{checked}");
    let outcomes = world.run_json(&["--tenant", "acme", "outcomes", "--workflow", "fix"]).await;
    let row = &json_items(&outcomes)[0];
    assert_eq!((&row["merged"], &row["reverted"]), (&json!(1), &json!(1)), "{outcomes}");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn the_later_of_two_opposite_rules_supersedes_the_other_within_its_path() {
    let mut world = start_bridged_world().await;
    for (number, path) in [(1, "src/api"), (2, "src/web")] {
        let body = format!("By convention we always log the request id in `{path}/`.");
        post_comment(&world, path, &build_comment(number, number, "ann", "MEMBER", &body)).await;
    }
    let opposite = "By convention we never log the request id in `src/web/`.";
    wait_for_rule(&world, "active", "src/api").await;
    let older = wait_for_rule(&world, "active", "src/web").await;
    let older = json_text(&older, "id").to_owned();
    post_comment(&world, "opposite", &build_comment(3, 3, "bea", "OWNER", opposite)).await;
    wait_for_rule(&world, "superseded", "src/web").await;
    let newest = json_text(&find_rule_of_path(&world, "src/web").await, "id").to_owned();
    assert_ne!(newest, older);
    // The older rule names the newer one.
    let explanation = explain_rule(&world, &older).await;
    assert!(explanation.contains("superseded") && explanation.contains(&newest), "{explanation}");
    assert!(explain_rule(&world, &newest).await.contains("never log"), "{newest}");
    let answer = fetch_rules(&world, None).await;
    assert_eq!(answer.to_lowercase().matches("log the request id").count(), 2, "one for each path: {answer}");
    assert!(!json_text(&find_rule_of_path(&world, "src/api").await, "id").is_empty());
    world.stop().await;
}

#[tokio::test]
async fn another_tool_for_the_same_replaces_a_rule_and_a_rule_beside_it_stays() {
    let mut world = start_bridged_world().await;
    let post = async |number, name: &str, body: &str| {
        post_comment(&world, name, &build_comment(number, number, "ann", "MEMBER", body)).await;
    };
    post(1, "jest", "By convention we use Jest for unit tests.").await;
    post(2, "timers", "By convention we never log the request id in tests.").await;
    let older = wait_for_rule(&world, "active", "Jest").await;
    wait_for_rule(&world, "active", "request id").await;
    post(3, "vitest", "By convention we use Vitest for unit tests.").await;
    wait_for_rule(&world, "superseded", "Jest").await;
    let newer = wait_for_rule(&world, "active", "Vitest").await;
    // Each of the two names the other.
    let [older, newer] = [&older, &newer].map(|rule| json_text(rule, "id"));
    assert!(explain_rule(&world, older).await.contains(newer), "the older one says what replaced it");
    assert!(explain_rule(&world, newer).await.contains(older), "the newer one says what it replaced");
    let answer = fetch_rules(&world, None).await;
    assert!(answer.contains("Vitest") && answer.contains("request id"), "{answer}");
    assert!(!answer.contains("Jest"), "{answer}");
    world.stop().await;
}

/// Returns the active rule for a path.
async fn find_rule_of_path(world: &World, path: &str) -> Value {
    let listed =
        world.run_json(&["--tenant", "acme", "rules", "list", "--repo", REPO, "--status", "active"]).await;
    let of_path: Vec<_> =
        json_items(&listed).iter().filter(|rule| rule["scope"]["path"] == path).cloned().collect();
    assert_eq!(of_path.len(), 1, "{path}: {listed}");
    of_path[0].clone()
}

#[tokio::test]
async fn an_edited_remark_is_decided_again_and_a_deleted_one_ends_its_rule() {
    let mut world = start_bridged_world().await;
    post_comment(&world, "said", &build_comment(7, 11, "ann", "MEMBER", RULE)).await;
    wait_for_rule(&world, "active", "unwrap").await;
    let mut edited = build_comment(7, 11, "ann", "MEMBER", "Never commit generated files to the repository.");
    edited["action"] = json!("edited");
    edited["comment"]["updated_at"] = json!("2026-11-21T10:00:00Z");
    post_comment(&world, "edited", &edited).await;
    let anew = wait_for_rule(&world, "active", "generated").await;
    wait_for_rule(&world, "superseded", "unwrap").await;
    assert!(!fetch_rules(&world, None).await.contains("unwrap"));
    let mut deleted = edited;
    deleted["action"] = json!("deleted");
    post_comment(&world, "gone", &deleted).await;
    let id = json_text(&anew, "id");
    let shown = async || {
        let shown = world.run_json(&["--tenant", "acme", "rules", "show", id]).await;
        (shown["status"] != "active").then_some(())
    };
    world.wait_for("the rule of a deleted remark ends", shown).await;
    assert_eq!(fetch_rules(&world, None).await, "");
    world.stop().await;
}

#[tokio::test]
async fn a_resolved_thread_a_reply_and_a_thumbs_up_are_reported_as_support() {
    let mut world = start_bridged_world().await;
    let mut liked = build_comment(7, 11, "ann", "MEMBER", RULE);
    liked["comment"]["reactions"]["+1"] = json!(2);
    post_comment(&world, "said", &liked).await;
    let author = json_text(&liked["pull_request"]["user"], "login").to_owned();
    let mut done = build_comment(7, 12, &author, "CONTRIBUTOR", "Done, thanks!");
    done["comment"]["in_reply_to_id"] = json!(11);
    post_comment(&world, "done", &done).await;
    let mut thread = load_payload("pull_request_review_thread", "unresolved");
    thread["action"] = json!("resolved");
    thread["pull_request"]["number"] = json!(7);
    thread["thread"]["comments"][0]["id"] = json!(11);
    let resolved = Webhook::new("pull_request_review_thread", "resolved", &thread);
    assert_eq!(world.post_webhook(&resolved).await.0, 202);
    let supported_remark = async || {
        let reports = world.run_json(&["--tenant", "acme", "rules", "reports", "--repo", REPO]).await;
        let remarks = json_items(&reports).iter().flat_map(|report| json_items(&report["remarks"]).to_vec());
        let all = json!({"resolved": true, "acknowledged": true, "thumbs_up": 2});
        remarks.into_iter().find(|remark| remark["support"] == all)
    };
    let remark = world.wait_for("all support is reported", supported_remark).await;
    assert!(json_text(&remark, "title").contains("unwrap"), "{remark}");
    world.stop().await;
}
