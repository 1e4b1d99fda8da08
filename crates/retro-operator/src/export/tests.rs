use retro_core::outcome::{PullRequestFacts, PullRequestRef, RunOutcome};

use super::*;
use crate::world::{World, key, rich};

async fn export(world: &World) -> String {
    export_canonical(world, &Tenant::default_tenant()).await.unwrap()
}

/// The same story at another time, told by slower workers: only what the export leaves out differs.
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
        report.sampled[0].pull_requests = vec![RunOutcome::of(PullRequestRef::new("acme/shop", 7), &known)];
        report.total.duration_ms += 1000;
        report.investigations[0].timing.cost_usd = 0.5;
        report.investigations[0].timing.attempts = 2;
        for change in &mut report.changes {
            change.at += hour;
            change.reason = change.reason.replace("2026-12-20T01:00:00Z", "2026-12-23T06:00:00.250Z");
        }
        for outcome in &mut report.mutations {
            outcome.why = outcome.why.replace("2026-12-20T01:00:00Z", "2026-12-23T06:00:00.250Z");
        }
    }
    world
}

#[tokio::test]
async fn the_same_story_gives_the_same_bytes_whenever_and_however_fast_it_happened() {
    let first = export(&rich()).await;
    assert_eq!(first, export(&rich()).await, "the same state twice");
    assert_eq!(first, export(&later_and_slower(rich())).await);
    let mut reversed = rich();
    reversed.memories.reverse();
    reversed.reports.reverse();
    assert_eq!(first, export(&reversed).await, "however the rows come");
}

#[tokio::test]
async fn a_difference_that_matters_shows() {
    let first = export(&rich()).await;
    let mut world = rich();
    world.memories[0].1.observed_runs += 1;
    assert_ne!(first, export(&world).await, "a memory");
    let mut world = rich();
    world.changes.swap(0, 1);
    assert_ne!(first, export(&world).await, "the order of the changes");
    let mut world = rich();
    world.reports[0].sample.order.swap(0, 1);
    assert_ne!(first, export(&world).await, "a report");
}

#[tokio::test]
async fn every_line_is_canonical_json_without_a_moment_and_of_the_tenant_alone() {
    let mut world = rich();
    world.season(&key("acme", "secret-plan"), &|_, _| crate::world::looked(vec![], vec![]));
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
