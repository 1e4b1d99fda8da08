use retro_core::id::{MemoryId, WorkflowKey, derive_uuid};
use retro_core::memory::{ChangeEffect, MemoryScope};
use retro_core::retrospective::RetrospectiveState;
use retro_core::weight::{Weight, WeightDelta};

use super::*;
use crate::world::{World, at_hour, investigation_result, rich_world, workflow_key};

async fn check(world: &World) -> Verification {
    verify_store(world).await.unwrap()
}

#[tokio::test]
async fn a_sound_store_is_reported_with_the_number_of_checked_rows() {
    let mut world = rich_world();
    world.run_retrospective(&workflow_key("acme", "shop"), &|_, _| investigation_result(vec![], vec![]));
    let verification = check(&world).await;
    assert_eq!(verification.violations, []);
    assert!(verification.is_sound());
    let CheckedCounts {
        tenants,
        workflows,
        runs,
        retrospectives,
        reports,
        memories,
        changes,
        tombstones,
        ..
    } = verification.checked;
    assert_eq!((tenants, workflows, runs, retrospectives, reports, tombstones), (2, 2, 40, 4, 4, 2));
    assert_eq!(memories, world.memories.len() as u64);
    assert_eq!(changes, world.changes.len() as u64);
    insta::assert_snapshot!(verification.render_text());
}

#[tokio::test]
async fn an_empty_store_proves_nothing_and_says_so() {
    let verification = check(&World::default()).await;
    assert!(verification.violations.is_empty() && !verification.is_sound());
    assert!(verification.render_text().starts_with("NOTHING PROVED"), "{}", verification.render_text());
}

#[tokio::test]
async fn a_failed_retrospective_releases_its_window_and_the_next_one_takes_it_up() {
    let mut world = World::default();
    let shop = workflow_key("default", "shop");
    let failed =
        |_: &World, _| retro_core::retrospective::InvestigationResult::Failed { reason: "gone".to_owned() };
    world.run_retrospective(&shop, &failed);
    assert_eq!(world.retrospectives[0].state, RetrospectiveState::Failed);
    // The pause has ended by then, so the first new run opens the next retrospective, which covers the
    // released runs and this run.
    world.workflows[0].state.paused_until = Some(at_hour(0));
    world.run_retrospective(&shop, &|_, _| investigation_result(vec![], vec![]));
    assert_eq!((world.retrospectives[1].first, world.retrospectives[1].last), (1, 11));
    assert_eq!(check(&world).await.violations, []);
}

/// Damages a sound store and expects exactly these checks to fail, each at a place that contains the given text.
async fn check_damaged(damage: impl FnOnce(&mut World), expected: &[(Check, &str)]) {
    let mut world = rich_world();
    damage(&mut world);
    let verification = check(&world).await;
    let found: Vec<_> =
        verification.violations.iter().map(|one| (one.check, one.location.as_str())).collect();
    let fits = found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(found, expected)| found.0 == expected.0 && found.1.contains(expected.1));
    assert!(fits, "expected {expected:?}, found {:#?}", verification.violations);
    assert!(!verification.is_sound() && verification.render_text().starts_with("NOT SOUND"));
}

#[tokio::test]
async fn an_ordinal_that_is_missing_or_doubled_is_found() {
    check_damaged(
        |world| world.runs[4].ordinal = None,
        &[(Check::Ordinals, "default/shop"), (Check::Ordinals, "counted")],
    )
    .await;
    check_damaged(|world| world.runs[4].ordinal = Some(4), &[(Check::Ordinals, "default/shop")]).await;
    check_damaged(
        |world| world.workflows[0].state.counted = 31,
        &[(Check::Ordinals, "default/shop, counted")],
    )
    .await;
}

#[tokio::test]
async fn windows_that_overlap_or_leave_runs_out_are_found() {
    check_damaged(
        |world| world.retrospectives[1].first = 10,
        &[(Check::Windows, "epoch 2"), (Check::Reports, "epoch 2")],
    )
    .await;
    check_damaged(
        |world| world.retrospectives[1].last = 19,
        &[(Check::Windows, "epoch 3"), (Check::Reports, "epoch 2")],
    )
    .await;
    check_damaged(|world| world.workflows[0].state.claimed = 29, &[(Check::Windows, "default/shop")]).await;
}

#[tokio::test]
async fn a_missing_epoch_and_a_second_open_retrospective_are_found() {
    check_damaged(|world| world.workflows[0].state.epoch = 4, &[(Check::Epochs, "default/shop")]).await;
    check_damaged(|world| world.workflows[0].state.open = true, &[(Check::Open, "open")]).await;
    check_damaged(
        |world| {
            world.workflows[0].state.open = true;
            world.retrospectives[1].state = RetrospectiveState::Investigating;
            world.retrospectives[2].state = RetrospectiveState::Settling;
        },
        &[(Check::Open, "default/shop")],
    )
    .await;
}

#[tokio::test]
async fn a_missing_or_contradicting_report_is_found() {
    check_damaged(|world| drop(world.reports.remove(1)), &[(Check::Reports, "epoch 2")]).await;
    let short = &[(Check::Reports, "epoch 3"), (Check::Samples, "epoch 3")];
    check_damaged(|world| world.reports[2].last = 29, short).await;
    check_damaged(|world| drop(world.reports[2].changes.pop()), &[(Check::Reports, "epoch 3")]).await;
}

#[tokio::test]
async fn a_sample_that_cannot_be_drawn_again_is_found() {
    check_damaged(|world| world.reports[1].sample.order.swap(0, 9), &[(Check::Samples, "epoch 2")]).await;
    check_damaged(|world| world.reports[1].policy_hash.push('0'), &[(Check::Samples, "policy")]).await;
}

#[tokio::test]
async fn a_memory_that_is_not_the_fold_of_its_changes_is_found() {
    check_damaged(
        |world| world.memories[0].1.weight = Weight::from_thousandths(999),
        &[(Check::Fold, "memory")],
    )
    .await;
    check_damaged(|world| drop(world.memories.remove(0)), &[(Check::Fold, "memory")]).await;
    let stray = |world: &mut World| {
        let mut stray = world.memories[0].clone();
        stray.1.id = MemoryId(derive_uuid("memory", &["stray"]));
        world.memories.push(stray);
    };
    check_damaged(stray, &[(Check::Fold, "memory")]).await;
    let homeless = |world: &mut World| {
        let mut stray = world.memories[0].clone();
        (stray.1.id, stray.1.scope) = (MemoryId(derive_uuid("memory", &["homeless"])), MemoryScope::Platform);
        world.memories.push(stray);
    };
    check_damaged(homeless, &[(Check::Fold, "default/platform, memory")]).await;
}

#[tokio::test]
async fn a_change_that_happened_twice_or_was_altered_is_found() {
    // The reweighting that took the memory about `syntax` from 0.300 to 0.150, repeated with another cause.
    let twice = |world: &mut World| {
        let reweighted = |(_, change): &&(WorkflowKey, _)| {
            matches!(change_effect(change), ChangeEffect::Reweighted { .. })
        };
        let mut again = world.changes.iter().find(reweighted).unwrap().clone();
        again.1.retrospective = None;
        if let ChangeEffect::Reweighted { delta, .. } = &mut again.1.effect {
            *delta = WeightDelta(0);
        }
        world.changes.push(again);
    };
    check_damaged(twice, &[(Check::Fold, "change"), (Check::EffectKeys, "twice")]).await;
    let altered = |world: &mut World| {
        world.changes[0].1.cause = retro_core::memory::ChangeCause::Operator { request: "forged".to_owned() };
        world.reports[0].changes[0].cause = world.changes[0].1.cause.clone();
    };
    check_damaged(altered, &[(Check::EffectKeys, "change")]).await;
}

const fn change_effect(change: &retro_core::memory::Change) -> &ChangeEffect {
    &change.effect
}

#[tokio::test]
async fn a_tombstone_of_a_living_memory_or_with_another_end_is_found() {
    check_damaged(
        |world| {
            let living = world.memory_about("unknown column");
            world.tombstones[0].1.memory = living;
        },
        &[(Check::Tombstones, "tombstone")],
    )
    .await;
    check_damaged(|world| world.tombstones[0].1.until = at_hour(0), &[(Check::Tombstones, "tombstone")])
        .await;
}

#[tokio::test]
async fn a_half_written_state_is_checked_again_and_passes() {
    let world = rich_world();
    let mut half_way = world.memories[0].1.clone();
    half_way.weight = Weight::from_thousandths(999);
    *world.partial_read.lock().unwrap() = Some(half_way);
    assert_eq!(check(&world).await.violations, []);
    assert!(world.partial_read.lock().unwrap().is_none(), "the half-written memory was read");
}

/// Returns a store with more workflows than one page holds, each with a retrospective.
fn many_workflows() -> World {
    let mut world = World::default();
    for number in 0..WORKFLOWS_PER_PAGE + 3 {
        world.run_retrospective(&workflow_key("default", &format!("w{number:03}")), &|_, _| {
            investigation_result(vec![], vec![])
        });
    }
    world
}

#[tokio::test]
async fn later_pages_are_checked_too() {
    let mut world = many_workflows();
    let workflows = u64::from(WORKFLOWS_PER_PAGE) + 3;
    let verification = check(&world).await;
    assert_eq!(verification.violations, []);
    let CheckedCounts { tenants, workflows: seen, runs, reports, .. } = verification.checked;
    assert_eq!((tenants, seen, runs, reports), (1, workflows, 10 * workflows, workflows));
    let last = world.workflows.len() - 1;
    world.workflows[last].state.claimed = 9;
    world.reports[last].policy_hash.push('0');
    let found = check(&world).await.violations;
    assert_eq!(found.iter().map(|one| one.check).collect::<Vec<_>>(), [Check::Windows, Check::Samples]);
    assert!(found.iter().all(|one| one.location.contains(&format!("w{last:03}"))), "{found:#?}");
}

#[tokio::test]
async fn the_number_of_queries_does_not_depend_on_workflows() {
    let count_queries = async |world: &World| {
        world.pages.store(0, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(check(world).await.violations, []);
        world.pages.load(std::sync::atomic::Ordering::Relaxed)
    };
    let (few, many) = (count_queries(&rich_world()).await, count_queries(&many_workflows()).await);
    let retrospectives = u64::from(WORKFLOWS_PER_PAGE) + 3;
    let pages = 2 + retrospectives.div_ceil(u64::from(RETROSPECTIVES_PER_PAGE)) + 1;
    assert_eq!((few, many), (3, pages), "no query depends on the number of workflows");
}

#[tokio::test]
async fn a_change_of_a_memory_under_another_workflow_is_found() {
    let moved = |world: &mut World| {
        let (key, change) = world.changes.last_mut().unwrap();
        *key = WorkflowKey { workflow: "elsewhere".parse().unwrap(), ..key.clone() };
        change.id = retro_core::memory::change_id(key, change.memory, &change.cause, change.effect.kind());
        let moved = change.clone();
        let reported = world.reports.last_mut().unwrap().changes.iter_mut();
        reported
            .filter(|change| change.memory == moved.memory && change.effect == moved.effect)
            .for_each(|change| change.id = moved.id);
    };
    check_damaged(moved, &[(Check::Fold, "workflow")]).await;
}

#[tokio::test]
async fn a_store_that_is_wrong_throughout_reports_a_bounded_number_of_violations() {
    let mut world = World::default();
    let keys: Vec<_> =
        (0..VIOLATIONS_MAX + 5).map(|number| workflow_key("default", &format!("w{number}"))).collect();
    for key in keys {
        let state = retro_core::retrospective::WorkflowState { counted: 1, ..Default::default() };
        world.workflows.push(retro_store::WorkflowRow { key, state, recorded: 1 });
    }
    let verification = check(&world).await;
    assert_eq!((verification.violations.len(), verification.omitted), (VIOLATIONS_MAX, 5));
    assert!(!verification.is_sound() && verification.render_text().contains("and 5 more"));
    assert!(
        verification.render_text().starts_with("NOT SOUND: 1005 violations"),
        "{}",
        verification.render_text()
    );
}

#[test]
fn every_check_has_a_name_for_people() {
    use Check::*;
    let all = [Ordinals, Windows, Epochs, Open, Reports, Samples, Fold, EffectKeys, Manual, Tombstones];
    assert_eq!(
        all.map(Check::as_str).join(", "),
        "ordinals, windows, epochs, open retrospective, report, sample, memory, change, manual retrospective, \
         tombstone"
    );
}
