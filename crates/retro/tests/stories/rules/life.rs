//! The life of a rule, from signed webhooks to what an agent is handed.

use serde_json::{Value, json};

use crate::world::{BRIDGED, Run, Webhook, World, items, real, text};

/// Two runs make a window, both are looked into, and two that ignore a rule end it.
const POLICY: &str =
    "[policy]\nthreshold_runs = 2\nsample_permille = 1000\nsample_runs_max = 2\nrule_presentations_max = 2\n";
const RULE: &str = "Always return a `Result` instead of calling `unwrap()` in library code.";
const REPO: &str = "acme/shop";

async fn bridged() -> World {
    let mut world = World::empty();
    world.write_policy(POLICY);
    world.up_with(&[&BRIDGED[..], &[("RETRO_REVIEW_DEBOUNCE_S", "1")]].concat()).await;
    world
}

/// A real comment on a line, by this person of the repository, on a pull request.
fn comment(number: u64, id: u64, by: &str, association: &str, body: &str) -> Value {
    let mut payload = real("pull_request_review_comment", "created");
    payload["pull_request"]["number"] = json!(number);
    let comment = &mut payload["comment"];
    comment["id"] = json!(id);
    comment["user"]["login"] = json!(by);
    comment["author_association"] = json!(association);
    comment["body"] = json!(body);
    payload
}

/// Posts it to the bridge under the id of a delivery.
async fn post(world: &World, delivery: &str, payload: &Value) {
    let webhook = Webhook::new("pull_request_review_comment", delivery, payload);
    assert_eq!(world.webhook(&webhook).await.0, 202, "{payload}");
}

/// Waits for a rule of this status that holds these words.
async fn rule(world: &World, status: &str, words: &str) -> Value {
    let found = async || {
        let listed =
            world.ask(&["--tenant", "acme", "rules", "list", "--repo", REPO, "--status", status]).await;
        items(&listed).iter().find(|rule| rule.to_string().contains(words)).cloned()
    };
    world.until(&format!("a rule about {words} is {status}"), found).await
}

async fn why(world: &World, id: &str) -> String {
    world.ask(&["--tenant", "acme", "rules", "why", id]).await.to_string()
}

/// What an agent that works on the repository is handed; with a run it is recorded as presented.
async fn handed(world: &World, run: Option<&str>) -> String {
    let asked = ["--tenant", "acme", "context", "--workflow", "fix", "--repo", REPO];
    let run = run.map(|run| ["--run", run]);
    let answer = world.ask(&[&asked[..], run.as_ref().map_or(&[][..], |run| &run[..])].concat()).await;
    text(&answer["rules"], "text").to_owned()
}

/// Two runs before which the rule stands, of which the agent writes these.
async fn runs(world: &World, name: &str, wrote: [&str; 2]) {
    let mut events = Vec::new();
    for (number, text) in (1..).zip(wrote) {
        let id = format!("{name}-{number}");
        assert!(handed(world, Some(&id)).await.contains("unwrap"), "{id}");
        let run = Run::new("fix", &id).told("Mend the parser.");
        events.push(run.call("write_file", &json!({"text": text}), "written").event());
    }
    world.emit("acme", name, &events).await;
}

#[tokio::test]
async fn a_rule_that_runs_ignore_ends_and_one_that_some_run_used_does_not() {
    let mut world = bridged().await;
    post(&world, "asked", &comment(7, 11, "ann", "MEMBER", RULE)).await;
    let id = text(&rule(&world, "active", "unwrap").await, "id").to_owned();
    runs(&world, "first", ["library code: return Err(problem) as a Result", "library code: value.unwrap()"])
        .await;
    let used = async || why(&world, &id).await.contains("in run first-1").then_some(());
    world.until("the run that used it is credited", used).await;
    assert!(!why(&world, &id).await.contains("archived"), "{}", why(&world, &id).await);
    runs(&world, "second", ["library code: value.unwrap()", "library code: other.unwrap()"]).await;
    rule(&world, "archived", "unwrap").await;
    let told = why(&world, &id).await;
    assert!(told.contains("ignored in 2 investigated runs that it was presented to"), "{told}");
    assert_eq!(handed(&world, None).await, "");
    // Who asks for it again brings it back.
    post(&world, "again", &comment(8, 12, "ann", "MEMBER", RULE)).await;
    rule(&world, "active", "unwrap").await;
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn the_later_of_two_opposite_rules_stays_and_names_the_other_and_other_paths_keep_theirs() {
    let mut world = bridged().await;
    for (number, path) in [(1, "src/api"), (2, "src/web")] {
        let body = format!("By convention we always log the request id in `{path}/`.");
        post(&world, path, &comment(number, number, "ann", "MEMBER", &body)).await;
    }
    let opposite = "By convention we never log the request id in `src/web/`.";
    rule(&world, "active", "src/api").await;
    let older = rule(&world, "active", "src/web").await;
    let older = text(&older, "id").to_owned();
    post(&world, "opposite", &comment(3, 3, "bea", "OWNER", opposite)).await;
    rule(&world, "superseded", "src/web").await;
    let newest = text(&rule_within(&world, "src/web").await, "id").to_owned();
    assert_ne!(newest, older);
    // The link is told by the older one.
    let told = why(&world, &older).await;
    assert!(told.contains("superseded") && told.contains(&newest), "{told}");
    assert!(why(&world, &newest).await.contains("never log"), "{newest}");
    let answer = handed(&world, None).await;
    assert_eq!(answer.to_lowercase().matches("log the request id").count(), 2, "one for each path: {answer}");
    assert!(!text(&rule_within(&world, "src/api").await, "id").is_empty());
    world.stop().await;
}

/// The active rule of a path.
async fn rule_within(world: &World, path: &str) -> Value {
    let listed =
        world.ask(&["--tenant", "acme", "rules", "list", "--repo", REPO, "--status", "active"]).await;
    let of_path: Vec<_> =
        items(&listed).iter().filter(|rule| rule["scope"]["path"] == path).cloned().collect();
    assert_eq!(of_path.len(), 1, "{path}: {listed}");
    of_path[0].clone()
}

#[tokio::test]
async fn what_is_edited_is_decided_anew_and_what_is_taken_back_goes() {
    let mut world = bridged().await;
    post(&world, "said", &comment(7, 11, "ann", "MEMBER", RULE)).await;
    rule(&world, "active", "unwrap").await;
    let mut edited = comment(7, 11, "ann", "MEMBER", "Never commit generated files to the repository.");
    edited["action"] = json!("edited");
    edited["comment"]["updated_at"] = json!("2026-11-21T10:00:00Z");
    post(&world, "edited", &edited).await;
    let anew = rule(&world, "active", "generated").await;
    rule(&world, "superseded", "unwrap").await;
    assert!(!handed(&world, None).await.contains("unwrap"));
    let mut gone = edited;
    gone["action"] = json!("deleted");
    post(&world, "gone", &gone).await;
    let id = text(&anew, "id");
    let shown = async || {
        let shown = world.ask(&["--tenant", "acme", "rules", "show", id]).await;
        (shown["status"] != "active").then_some(())
    };
    world.until("what was taken back goes", shown).await;
    assert_eq!(handed(&world, None).await, "");
    world.stop().await;
}

#[tokio::test]
async fn a_thread_that_is_resolved_an_answer_and_a_thumb_are_told_as_evidence() {
    let mut world = bridged().await;
    let mut liked = comment(7, 11, "ann", "MEMBER", RULE);
    liked["comment"]["reactions"]["+1"] = json!(2);
    post(&world, "said", &liked).await;
    let author = text(&liked["pull_request"]["user"], "login").to_owned();
    let mut done = comment(7, 12, &author, "CONTRIBUTOR", "Done, thanks!");
    done["comment"]["in_reply_to_id"] = json!(11);
    post(&world, "done", &done).await;
    let mut thread = real("pull_request_review_thread", "unresolved");
    thread["action"] = json!("resolved");
    thread["pull_request"]["number"] = json!(7);
    thread["thread"]["comments"][0]["id"] = json!(11);
    let resolved = Webhook::new("pull_request_review_thread", "resolved", &thread);
    assert_eq!(world.webhook(&resolved).await.0, 202);
    let told = async || {
        let reports = world.ask(&["--tenant", "acme", "rules", "reports", "--repo", REPO]).await;
        let remarks = items(&reports).iter().flat_map(|report| items(&report["remarks"]).to_vec());
        let all = json!({"resolved": true, "acknowledged": true, "thumbs_up": 2});
        remarks.into_iter().find(|remark| remark["support"] == all)
    };
    let remark = world.until("all that speaks for it is told", told).await;
    assert!(text(&remark, "title").contains("unwrap"), "{remark}");
    world.stop().await;
}
