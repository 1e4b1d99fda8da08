//! A language model that reads reviews beside the heuristics, behind a local endpoint that counts what it was asked.

use retro_events::github::AuthorAssociation::{Member, None as Unknown};
use retro_testkit::{ModelEndpoint, ModelReply};
use serde_json::{Value, json};

use super::{REPO, build_comment, wait_for_rule, wait_until_decided};
use crate::world::{World, build_correcting_runs, json_items, json_text};

/// A rule that the heuristics do not take, and how the model words it.
const MISSED: &str = "We want all handlers to return early.";
const WORDED: &str = "Return early in all handlers";

/// Replies as a model that reads the rule, and nothing else, in the first remark.
fn read_reviews(body: &Value) -> ModelReply {
    let reading = json!({"remark": 1, "kind": "rule", "quote": MISSED, "wording": WORDED});
    ModelReply::tool(
        "submit_readings",
        if body.to_string().contains("return early") {
            json!({"outcome": "readings", "readings": [reading]})
        } else {
            json!({"outcome": "no_rules"})
        },
    )
}

fn variables(endpoint: &ModelEndpoint) -> Vec<(&'static str, &str)> {
    vec![
        ("RETRO_MODEL_URL", endpoint.url()),
        ("RETRO_MODEL", "small"),
        ("RETRO_MODEL_PRICES", "small = 0.25 / 0.025 / 2.00"),
        ("RETRO_MODEL_WAIT_S", "1"),
        ("RETRO_REVIEW_DEBOUNCE_S", "1"),
        ("RETRO_LEASE_S", "2"),
    ]
}

/// Returns the newest report of a pull request, as data and as people read it.
async fn latest_report(world: &World, number: u64) -> (Value, String) {
    wait_until_decided(world, number).await;
    let review = format!("{REPO}#{number}");
    let reports = world.run_json(&["rules", "reports", "--limit", "1000"]).await;
    let of_it = json_items(&reports).iter().find(|report| report["review"]["pull_request"] == review);
    let report = of_it.expect("it is decided").clone();
    let shown = world.run_retro(&["rules", "reports", json_text(&report, "id")]).await;
    (report, shown.out)
}

async fn wait_for_rounds(world: &World, number: u64, rounds: usize) {
    let review = format!("{REPO}#{number}");
    world
        .wait_for(&format!("{review} is decided {rounds} times"), async || {
            let reports = world.run_json(&["rules", "reports", "--limit", "1000"]).await;
            let of_it =
                json_items(&reports).iter().filter(|report| report["review"]["pull_request"] == review);
            (of_it.count() >= rounds).then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_model_reads_a_rule_that_no_heuristics_see_and_is_paid_once_for_it() {
    let endpoint = ModelEndpoint::start(|_, body| read_reviews(body)).await;
    let mut world = World::empty();
    world.up_with_env(&variables(&endpoint)).await;
    world.publish_github_event("default", "one", &build_comment(7, 11, "ann", Member, MISSED)).await;
    let rule = wait_for_rule(&world, "active").await;
    assert_eq!(json_text(&rule["lesson"], "title"), WORDED);
    let (report, text) = latest_report(&world, 7).await;
    let reading = &report["reading"];
    assert_eq!(
        (&reading["reader"], &reading["costs"]["calls"]),
        (&json!("heuristics-3 and small"), &json!(1))
    );
    assert_eq!(reading["costs"]["micro_usd"], json!(215), "{reading}");
    for shown in ["1 model call, 1050 tokens (600 cached), $0.0002", "worded by small", " · pipeline "] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    let why = world.run_json(&["memories", "why", json_text(&rule, "id")]).await;
    let version = &report["pipeline"]["pipeline"];
    assert!(why.to_string().contains(version.as_str().expect("a hash")), "{why}");
    let versions = world.run_json(&["pipeline", "versions"]).await;
    assert_eq!(versions["versions"][0]["hash"], *version, "{versions}");
    assert_eq!(versions["versions"][0]["quality"]["active"], json!(1), "{versions}");

    // The same words again, by another event: the answer is found again.
    let mut thumbed = build_comment(7, 11, "ann", Member, MISSED);
    if let retro_events::github::RepositoryEvent::PullRequestReviewComment { comment, .. } = &mut thumbed.what
    {
        comment.thumbs_up = 3;
        comment.changed_at = Some("2026-11-20T11:00:00Z".parse().expect("a timestamp"));
    }
    world.publish_github_event("default", "two", &thumbed).await;
    wait_for_rounds(&world, 7, 2).await;
    let (report, text) = latest_report(&world, 7).await;
    assert_eq!(report["reading"]["costs"]["found_again"], json!(1), "{text}");
    assert_eq!(endpoint.request_count(), 1, "the same words are paid for once");

    // Another remark is another prompt. An outsider's rule is held, whatever the model reads.
    world.publish_github_event("default", "three", &build_comment(8, 21, "eve", Unknown, MISSED)).await;
    let (report, _) = latest_report(&world, 8).await;
    assert_eq!((&report["remarks"][0]["kind"], endpoint.request_count()), (&json!("rule"), 1 + 1));
    let context = world.run_json(&["context", "--workflow", "fix", "--repo", REPO]).await;
    assert_eq!(json_items(&context["rules"]["rules"]).len(), 1, "{context}");
    assert!(json_text(&context["rules"], "text").contains(WORDED), "{context}");
    world.emit_and_wait("default", "runs", &build_correcting_runs("fix", "deploy_service", 0..1)).await;
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_version_of_the_review_pipeline_is_taken_back_and_the_other_pipeline_stays() {
    let endpoint = ModelEndpoint::start(|_, body| read_reviews(body)).await;
    let mut world = World::empty();
    let policy = world.write_policy("[trigger]\nthreshold_runs = 7\n");
    let settings = world.write_review_settings("[review]\nremarks_per_call = 1\n");
    world.up_with_env(&variables(&endpoint)).await;
    world.publish_github_event("default", "one", &build_comment(7, 11, "ann", Member, MISSED)).await;
    let (report, _) = latest_report(&world, 7).await;
    let first = json_text(&report["pipeline"], "pipeline").to_owned();
    world.write_review_settings("[review]\nremarks_per_call = 2\n[budget]\nreview_tokens_max = 9000\n");
    world.wait_for_log("review: remarks_per_call 1 -> 2, review: review_tokens_max 200000 -> 9000").await;
    world.publish_github_event("default", "two", &build_comment(8, 12, "ann", Member, MISSED)).await;
    let (report, _) = latest_report(&world, 8).await;
    let second = json_text(&report["pipeline"], "pipeline").to_owned();
    assert_ne!(first, second);
    let difference = world.run_retro(&["pipeline", "diff", &first[..8]]).await;
    for shown in ["remarks_per_call 1 -> 2", "review_tokens_max 200000 -> 9000", "1 review"] {
        assert!(difference.out.contains(shown), "{shown}: {difference:?}");
    }
    let reverted = world.run_retro(&["pipeline", "revert", &first[..8], "--reason", "it read better"]).await;
    assert_eq!(reverted.code, Some(0), "{reverted:?}");
    let text = |path: &str| std::fs::read_to_string(path).expect("written");
    assert_eq!(text(&settings), "[review]\nremarks_per_call = 1\n");
    assert_eq!(text(&policy), "[trigger]\nthreshold_runs = 7\n", "the other pipeline is left alone");
    world.wait_for_log("review: remarks_per_call 2 -> 1, review: review_tokens_max 9000 -> 200000").await;
    let versions = world.run_json(&["pipeline", "versions"]).await;
    assert_eq!(versions["current_review"], json!(first));
    assert_eq!(versions["reverts"][0]["hash"], json!(first), "{versions}");
    assert!(versions["reverts"][0]["recorded_at"].is_string(), "{versions}");
    world.emit_and_wait("default", "runs", &build_correcting_runs("fix", "deploy_service", 0..1)).await;
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn killed_after_every_call_about_a_review_nothing_is_paid_twice() {
    const CALLS: usize = 2;
    let mut exports = Vec::new();
    for killed in [false, true] {
        let endpoint = ModelEndpoint::start(|_, body| read_reviews(body)).await;
        let mut world = World::empty();
        world.write_policy("");
        world.write_review_settings("[review]\nremarks_per_call = 1\n");
        let environment = variables(&endpoint);
        let remarks = [
            build_comment(7, 11, "ann", Member, MISSED),
            build_comment(7, 12, "ann", Member, "Please rename this to `orders`."),
        ];
        let armed = [&environment[..], &[("FAULT_CRASH", "review_call.commit:after")]].concat();
        world.up_with_env(if killed { &armed } else { &environment }).await;
        for (number, remark) in remarks.iter().enumerate() {
            world.publish_github_event("default", &number.to_string(), remark).await;
        }
        if killed {
            for death in 1..=CALLS {
                world.wait_for_crash().await;
                assert_eq!(endpoint.request_count(), death, "each life pays for one call, and for no other");
                world.up_with_env(if death < CALLS { &armed } else { &environment }).await;
            }
        }
        wait_for_rule(&world, "active").await;
        let (report, text) = latest_report(&world, 7).await;
        assert_eq!(endpoint.request_count(), CALLS, "killed: {killed}");
        assert_eq!(report["reading"]["costs"]["calls"], json!(CALLS), "what was paid before counts: {text}");
        assert_eq!(report["reading"]["costs"]["found_again"], json!(0), "{text}");
        world.emit_and_wait("default", "runs", &build_correcting_runs("fix", "deploy_service", 0..1)).await;
        exports.push(world.export_canonical().await);
        world.verify_store().await;
        world.stop().await;
    }
    assert_eq!(exports[0], exports[1], "undisturbed, and killed");
}

#[tokio::test]
async fn a_model_that_is_away_or_too_dear_leaves_reviews_to_the_heuristics_and_the_report_says_so() {
    const RULE: &str = "Always return a `Result` instead of calling `unwrap()` in library code.";
    let endpoint = ModelEndpoint::start(|_, _| ModelReply::Status(503, None)).await;
    let small = "[budget]\nreview_tokens_max = 100\n";
    for (more, settings, note) in [
        (("RETRO_MODEL_WAIT_S", "0"), "", "was not available"),
        (("RETRO_MODEL_WAIT_S", "0"), small, "the token budget of the review"),
        (("RETRO_MODEL_BUDGET_DAY_TOKENS", "100"), "", "the token budget of the day"),
        (("RETRO_MODEL_USE", "retrospectives"), "", "read by heuristics-3"),
    ] {
        let mut world = World::empty();
        world.write_policy("");
        world.write_review_settings(settings);
        let environment = [&variables(&endpoint)[..], &[more]].concat();
        world.up_with_env(&environment).await;
        world.publish_github_event("default", "one", &build_comment(7, 11, "ann", Member, RULE)).await;
        wait_for_rule(&world, "active").await;
        let (report, text) = latest_report(&world, 7).await;
        assert!(text.contains(note), "{note}: {text}");
        assert_eq!(report["reading"]["reader"], json!("heuristics-3"), "{report}");
        world.stop().await;
    }
    assert_eq!(endpoint.request_count(), 1, "neither a budget nor another use asks it");
}
