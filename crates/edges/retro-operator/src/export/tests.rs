use retro_core::pull_request::{PullRequestFacts, PullRequestOutcome, PullRequestRef};

use super::*;
use crate::world::{World, rich_world, workflow_key};

async fn export(world: &World) -> String {
    export_canonical(world, &Tenant::default_tenant()).await.unwrap()
}

/// Returns the result of the same input at a later time with slower workers. Only omitted fields differ.
fn later_and_slower(mut world: World) -> World {
    let hour = jiff::SignedDuration::from_hours(77);
    for (_, memory) in &mut world.memories {
        memory.created_at += hour;
        memory.changed_at += hour;
    }
    for (_, change) in &mut world.changes {
        change.at += hour;
        change.reason = change.reason.replace("2026-12-20T01:00:00Z", "2026-12-23T06:00:00.250Z");
    }
    for report in &mut world.reports {
        report.as_of += hour;
        report.closed_at += hour;
        let known = PullRequestFacts { merged_at: Some(report.closed_at), ..Default::default() };
        report.sampled[0].pull_requests =
            vec![PullRequestOutcome::from_facts(PullRequestRef::new("acme/shop", 7), &known)];
        report.total.duration_ms += 1000;
        report.investigations[0].timing.cost_usd = 0.5;
        report.investigations[0].timing.attempts = 2;
        for change in &mut report.changes {
            change.at += hour;
            change.reason = change.reason.replace("2026-12-20T01:00:00Z", "2026-12-23T06:00:00.250Z");
        }
        for outcome in &mut report.mutations {
            outcome.reason = outcome.reason.replace("2026-12-20T01:00:00Z", "2026-12-23T06:00:00.250Z");
        }
    }
    world
}

#[tokio::test]
async fn the_same_input_exports_the_same_bytes_at_any_time_and_speed() {
    let first = export(&rich_world()).await;
    assert_eq!(first, export(&rich_world()).await, "the same state twice");
    assert_eq!(first, export(&later_and_slower(rich_world())).await);
    let mut reversed = rich_world();
    reversed.memories.reverse();
    reversed.reports.reverse();
    assert_eq!(first, export(&reversed).await, "the order of rows does not matter");
}

#[tokio::test]
async fn a_relevant_difference_changes_the_export() {
    let first = export(&rich_world()).await;
    let mut world = rich_world();
    world.memories[0].1.observed_runs += 1;
    assert_ne!(first, export(&world).await, "a memory");
    let mut world = rich_world();
    world.changes.swap(0, 1);
    assert_ne!(first, export(&world).await, "the order of the changes");
    let mut world = rich_world();
    world.reports[0].sample.order.swap(0, 1);
    assert_ne!(first, export(&world).await, "a report");
}

#[tokio::test]
async fn every_line_is_canonical_json_without_timestamps_of_one_tenant() {
    let mut world = rich_world();
    world.run_retrospective(&workflow_key("acme", "secret-plan"), &|_, _| {
        crate::world::investigation_result(vec![], vec![])
    });
    let exported = export(&world).await;
    let lines: Vec<_> = exported.lines().collect();
    assert_eq!(lines.len(), world.memories.len() + world.changes.len() + 3);
    for line in lines {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(canonical_json(&value), line);
        assert!(!line.contains("2026-") && !line.contains("acme") && !line.contains("secret-plan"), "{line}");
        assert!(!line.contains("duration_ms") && !line.contains("closed_at"), "{line}");
    }
}
