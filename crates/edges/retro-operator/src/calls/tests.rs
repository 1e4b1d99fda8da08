use jiff::SignedDuration;
use retro_core::calls::{MissedReason, SUMMARY_VERSION, StoredSummary, SummaryContent};
use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use serde_json::json;

use super::statistics::{STATISTICS_RUNS_MAX, WorkflowStatistics};
use super::*;
use crate::http::tests::{Answer, ask_of, two_tenants};
use crate::world::summaries::{HOSTILE_TOOL, run_summary, unreadable_summary};
use crate::world::{World, at_hour, investigation_result, rich_world, workflow_key};

fn shop() -> WorkflowKey {
    workflow_key("default", "shop")
}

fn statistics(newest_first: &[StoredSummary], runs: u32) -> WorkflowStatistics {
    WorkflowStatistics::from_summaries(shop().workflow, newest_first, runs, at_hour(0))
}

fn of_other_version(mut stored: StoredSummary) -> StoredSummary {
    if let SummaryContent::Summary(summary) = &mut stored.content {
        summary.version = SUMMARY_VERSION + 1;
    }
    stored
}

/// Returns summaries of everything that statistics can show, newest first.
fn mixed_summaries() -> Vec<StoredSummary> {
    let days_ago = |days: i64| Some(at_hour(-24 * days));
    vec![
        unreadable_summary(9, "the body is gone"),
        unreadable_summary(8, "the body is gone"),
        unreadable_summary(7, "no JSON\u{1b}[2J"),
        of_other_version(run_summary(6, days_ago(1), &[("query", Some("locked"))])),
        run_summary(5, None, &[("query", Some("locked"))]),
        run_summary(4, days_ago(1), &[("bash", Some("rejected")), ("bash", None), ("query", None)]),
        run_summary(3, days_ago(2), &[(HOSTILE_TOOL, None)]),
        run_summary(2, days_ago(8), &[("query", Some("locked")), ("query", None)]),
    ]
}

#[test]
fn statistics_of_a_workflow() {
    insta::assert_snapshot!(statistics(&mixed_summaries(), 200).render_text(120));
}

#[test]
fn runs_that_cannot_be_counted_are_told_apart() {
    let counted = statistics(&mixed_summaries(), 200);
    let newest = &counted.newest;
    assert_eq!((newest.coverage.runs, newest.coverage.counted, newest.coverage.unreadable), (8, 4, 3));
    assert_eq!(newest.other_version, 1);
    let reasons: Vec<_> = newest.unreadable_reasons.iter().map(|one| (&*one.reason, one.runs)).collect();
    assert_eq!(reasons, [("the body is gone", 2), ("no JSON\u{1b}[2J", 1)]);

    let many: Vec<_> = (0..4).map(|n| unreadable_summary(n, &format!("reason {n}"))).collect();
    let counted = statistics(&many, 200);
    assert_eq!((counted.newest.coverage.unreadable, counted.newest.unreadable_reasons.len()), (4, 3));
}

#[test]
fn only_the_given_number_of_newest_runs_is_counted() {
    let summaries = mixed_summaries();
    let of_query = |runs| {
        let counted = statistics(&summaries, runs);
        let found = counted.newest.operations.into_iter().find(|one| one.tool == "query");
        found.map_or(0, |one| one.calls)
    };
    assert_eq!((of_query(200), of_query(6), of_query(3)), (4, 2, 0));
    assert_eq!(statistics(&summaries, 3).last_7_days, statistics(&summaries, 200).last_7_days);
}

#[test]
fn a_run_is_recent_for_seven_days() {
    let recent = |ago: SignedDuration| {
        let run = run_summary(1, Some(at_hour(0) - ago), &[("query", None)]);
        statistics(&[run], 200).last_7_days.coverage.counted
    };
    let week = SignedDuration::from_hours(7 * 24);
    let second = SignedDuration::from_secs(1);
    assert_eq!((recent(week), recent(SignedDuration::ZERO)), (1, 1));
    assert_eq!((recent(week + second), recent(-second)), (0, 0), "before the period, and in the future");
    let untimed = statistics(&[run_summary(1, None, &[("query", None)])], 200).last_7_days;
    assert_eq!((untimed.coverage.counted, untimed.without_time), (0, 1));
}

#[test]
fn statistics_of_too_many_recent_runs_say_so() {
    let summaries = |count: u32, oldest_hours| {
        let mut all: Vec<_> =
            (1..count).map(|n| run_summary(n.into(), Some(at_hour(-1)), &[("query", None)])).collect();
        all.push(run_summary(0, Some(at_hour(oldest_hours)), &[("query", None)]));
        statistics(&all, 200).last_7_days.truncated
    };
    assert!(summaries(STATISTICS_RUNS_MAX, -2), "older runs of the week may follow");
    assert!(!summaries(STATISTICS_RUNS_MAX, -24 * 8), "the week is over before the limit");
    assert!(!summaries(STATISTICS_RUNS_MAX - 1, -2), "there are no older runs");
}

#[tokio::test]
async fn missed_failures_of_a_rich_world() {
    let found = find_missed_failures(&rich_world(), &shop()).await.unwrap().unwrap();
    insta::assert_snapshot!(found.render_text());
    let named = |error: &str| found.failures.iter().any(|one| one.missed.failure.error == error);
    assert!(named("no upstream") && !named("unknown column"), "agents are told about the column");
}

#[test]
fn every_reason_is_explained_with_what_a_person_can_do() {
    let memory = MemoryId(retro_core::id::derive_uuid("memory", &[]));
    let reasons = [
        MissedReason::NotSampled,
        MissedReason::NotRecovered,
        MissedReason::Transient,
        MissedReason::Refuted { repeated: 9, changed: 1 },
        MissedReason::NoRemedyFound,
        MissedReason::Unconfirmed { memory },
        MissedReason::Held { memory },
        MissedReason::Disabled { memory },
        MissedReason::Suppressed { memory },
        MissedReason::Archived { memory },
    ];
    let explain = |tenant: &Tenant| -> Vec<_> {
        reasons.iter().map(|reason| describe::explain_reason(reason, tenant)).collect()
    };
    let id = memory.short_id();
    insta::assert_snapshot!(explain(&Tenant::default_tenant()).join("\n").replace(&id, "1a2b3c4d"));
    let of_acme = explain(&Tenant::new("acme").unwrap()).join("\n");
    assert_eq!(of_acme.matches("`retro --tenant acme ").count(), of_acme.matches("`retro ").count());
}

#[tokio::test]
async fn a_workflow_that_has_not_been_counted_says_so() {
    let mut world = World::default();
    world.run_retrospective(&shop(), &|_, _| investigation_result(vec![], vec![]));
    let missed = find_missed_failures(&world, &shop()).await.unwrap().unwrap();
    assert_eq!((missed.counted.is_none(), missed.failures.len()), (true, 0));
    assert_eq!(missed.render_text(), "no retrospective of shop has counted calls yet\n");
    let counted = find_workflow_statistics(&world, &shop(), 200, at_hour(0)).await.unwrap().unwrap();
    assert!(counted.render_text(80).starts_with("no run of shop has a summary yet"));

    world.summaries.extend((11..=20).map(|n| (shop(), run_summary(n, None, &[("query", None)]))));
    world.run_retrospective(&shop(), &|_, _| investigation_result(vec![], vec![]));
    let missed = find_missed_failures(&world, &shop()).await.unwrap().unwrap();
    assert!(missed.render_text().ends_with("no recurring failure is without a memory\n"));
}

#[tokio::test]
async fn the_newest_closed_automatic_retrospective_counts() {
    let epoch = |world: World| async move {
        let found = find_missed_failures(&world, &shop()).await.unwrap().unwrap();
        found.counted.map(|counted| counted.epoch)
    };
    assert_eq!(epoch(rich_world()).await, Some(3));
    for spoil in [
        |world: &mut World| {
            world.retrospectives[2].state = retro_core::retrospective::RetrospectiveState::Failed;
        },
        |world: &mut World| {
            world.retrospectives[2].manual_request = Some(retro_core::retrospective::ManualRequest {
                request: "request-1".to_owned(),
                by: "anna".to_owned(),
                with_token: None,
                focus: None,
                runs: Vec::new(),
                reason: None,
            });
        },
    ] {
        let mut world = rich_world();
        spoil(&mut world);
        world.reports[1].calls = world.reports[2].calls.clone();
        assert_eq!(epoch(world).await, Some(2));
    }
}

async fn ask(tenant: &str, path: &str, accept: &str) -> Answer {
    ask_of(two_tenants(), tenant, path, accept).await
}

#[tokio::test]
async fn statistics_and_missed_failures_are_json_or_text_by_accept() {
    let stats = ask("default", "/v1/workflows/shop/stats", "application/json").await;
    assert_eq!(stats.status, 200, "{}", stats.body);
    let stats = stats.json();
    assert_eq!(stats["newest"]["runs"], json!(10));
    let operations = stats["newest"]["operations"].as_array().unwrap();
    let push = operations.iter().find(|one| one["program"] == json!(["git", "push"])).expect("the command");
    assert_eq!((&push["calls"], &push["failed"], &push["median_ms"]), (&json!(5), &json!(3), &json!(30)));
    assert_eq!(stats["last_7_days"]["without_time"], json!(10));
    let few = ask("default", "/v1/workflows/shop/stats?runs=2", "*/*").await.json();
    assert_eq!(few["newest"]["runs"], json!(2));
    let missed = ask("default", "/v1/workflows/shop/missed", "*/*").await.json();
    assert_eq!(missed["counted"]["epoch"], json!(3));
    assert!(missed["failures"][0]["runs"].is_u64() && missed["failures"][0]["reason"]["why"].is_string());
    for path in ["/v1/workflows/shop/stats", "/v1/workflows/shop/missed"] {
        let text = ask("default", path, "text/plain").await;
        assert!(text.body.contains("Counted the calls of 9 of 10 runs"), "{}", text.body);
        assert!(!text.body.contains('\u{1b}'), "{}", text.body);
    }
}

#[tokio::test]
async fn another_tenant_s_workflow_answers_like_an_unknown_one() {
    for kind in ["stats", "missed"] {
        let mut world = two_tenants();
        let only = workflow_key("acme", "acme-only");
        world.run_retrospective(&only, &|_, _| investigation_result(vec![], vec![]));
        let path = format!("/v1/workflows/acme-only/{kind}");
        let foreign = ask_of(world, "default", &path, "*/*").await;
        let unknown = ask("default", &format!("/v1/workflows/unknown/{kind}"), "*/*").await;
        assert_eq!((foreign.status, unknown.status), (404, 404), "{}", foreign.body);
        assert_eq!(foreign.body.replace("acme-only", "unknown"), unknown.body);
        assert!(unknown.body.contains("there is no workflow unknown in this tenant"), "{}", unknown.body);
        let own = ask("acme", &format!("/v1/workflows/shop/{kind}"), "*/*").await;
        assert_eq!(own.status, 200, "positive control: {}", own.body);
        assert!(!own.body.contains("mysql"), "the same name in another tenant: {}", own.body);
    }
}

#[tokio::test]
async fn a_bad_number_of_runs_or_name_is_refused() {
    for (path, field) in [
        ("/v1/workflows/shop/stats?runs=0", "runs"),
        ("/v1/workflows/shop/stats?runs=2001", "runs"),
        ("/v1/workflows/shop/stats?runs=many", "runs"),
        ("/v1/workflows/a%0Ab/stats", "workflow"),
        ("/v1/workflows/a%0Ab/missed", "workflow"),
    ] {
        let answer = ask("default", path, "*/*").await;
        assert_eq!((answer.status, &answer.json()["path"]), (400, &json!(field)), "{path}: {}", answer.body);
    }
    assert_eq!(ask("default", "/v1/workflows/shop/stats?runs=2000", "*/*").await.status, 200);
}

#[tokio::test]
async fn a_name_with_a_slash_is_one_workflow() {
    let mut world = World::default();
    let key = workflow_key("default", "acme/shop");
    world.summaries.push((key, run_summary(1, None, &[("query", None)])));
    let answer = ask_of(world, "default", "/v1/workflows/acme%2Fshop/stats", "*/*").await;
    assert_eq!((answer.status, &answer.json()["workflow"]), (200, &json!("acme/shop")), "{}", answer.body);
}
