use retro_core::effect::AssignedRun;
use retro_core::run::RunOutcome;

use super::*;
use crate::world::{World, rich_world, workflow_key};

/// Builds a store in which the memory about "unknown column" was handed to every other run and withheld from the
/// others, starting with the second retrospective. Each pair of consecutive runs tries the same task.
fn tried(with: RunOutcome, without: RunOutcome) -> (World, MemoryId) {
    let mut world = rich_world();
    let id = world.memory_about("unknown column");
    for nth in 0..3 {
        world.run_retrospective(&workflow_key("default", "shop"), &|_, _| {
            crate::world::investigation_result(vec![], vec![])
        });
        assert_eq!(world.reports.len(), 4 + nth);
    }
    for row in &mut world.runs {
        let ordinal = row.ordinal.unwrap();
        let met = ordinal > 10 && ordinal.is_multiple_of(2);
        row.facts.task = Some(format!("task {}", ordinal.div_ceil(2)));
        row.facts.outcome = if met { with } else { without };
        row.facts.memories.presented = if met { vec![id] } else { vec![] };
        if ordinal > 10 {
            let succeeded = row.facts.outcome.succeeded();
            let run = AssignedRun { ordinal, withheld: !met, permille: 500, succeeded };
            world.assigned.push((row.key.clone(), id, run));
        }
    }
    (world, id)
}

async fn view_effect(world: &World, id: MemoryId) -> MemoryEffectView {
    find_memory_effect(world, &Tenant::default_tenant(), id).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_effect_of_a_memory_is_shown_with_its_certainty() {
    let (world, id) = tried(RunOutcome::Success, RunOutcome::Failure);
    insta::assert_snapshot!(view_effect(&world, id).await.render_text());
    let (world, id) = tried(RunOutcome::Timeout, RunOutcome::Success);
    insta::assert_snapshot!(view_effect(&world, id).await.conclusion);
    let (world, id) = tried(RunOutcome::Success, RunOutcome::Success);
    insta::assert_snapshot!(view_effect(&world, id).await.conclusion);
}

#[tokio::test]
async fn too_few_runs_make_no_claim() {
    let world = rich_world();
    let view = view_effect(&world, world.memory_about("unknown column")).await;
    assert_eq!(view.effect.unwrap().interval, None);
    assert_eq!(view.comparison.unwrap().difference_milli, None);
    assert!(view.conclusion.starts_with("not known yet"), "{}", view.conclusion);
}

#[tokio::test]
async fn a_memory_that_was_never_active_was_presented_to_no_run() {
    let mut world = World::default();
    let shop = workflow_key("default", "shop");
    world.run_retrospective(&shop, &|_, number| {
        let seen = if number == 1 { vec![crate::world::repair_finding("once")] } else { vec![] };
        crate::world::investigation_result(seen, vec![])
    });
    let view = view_effect(&world, world.memory_about("once")).await;
    assert_eq!(view.conclusion, "it was never active, so no run was handed it");
    assert_eq!(view.comparison.unwrap().without.runs, 0);
}

/// Pages are read until `RUNS_MAX` runs are loaded, however many pages there are.
#[tokio::test]
async fn runs_are_read_page_by_page_newest_first() {
    let (mut world, id) = tried(RunOutcome::Success, RunOutcome::Failure);
    let newest = world.runs.last().unwrap().clone();
    let many = u64::try_from(RUNS_MAX).unwrap() + 10;
    world.runs.extend((100..100 + many).map(|ordinal| {
        let mut run = newest.clone();
        run.ordinal = Some(ordinal);
        run.facts.memories.presented.clear();
        run
    }));
    let comparison = view_effect(&world, id).await.comparison.unwrap();
    assert_eq!((comparison.with.runs, comparison.without.runs as usize), (0, RUNS_MAX));
}

/// A memory is shown with its effect even if the comparison was not requested.
#[tokio::test]
async fn a_memory_and_its_history_show_the_same_effect() {
    let (world, id) = tried(RunOutcome::Success, RunOutcome::Failure);
    let tenant = Tenant::default_tenant();
    let line = &*view_effect(&world, id).await.conclusion;
    assert!(line.starts_with("runs end well more often with it: 95 % interval +"), "{line}");
    let memory = memory_with_effect(&world, &tenant, world.memory(id).clone()).await.unwrap();
    let why = find_history_with_effect(&world, &tenant, id).await.unwrap().unwrap();
    assert_eq!((memory.effect.as_deref(), why.effect.as_deref()), (Some(line), Some(line)));
    assert!(
        crate::render_memory(&memory).contains(&format!("\neffect: {line}\n")),
        "{}",
        crate::render_memory(&memory)
    );
    assert!(why.render_text(120).contains(&format!("\neffect: {line}\n")), "{}", why.render_text(120));
    assert_eq!(serde_json::to_value(&memory).unwrap()["effect"], line);
    let none = find_history_with_effect(&world, &Tenant::new("nobody").unwrap(), id).await.unwrap();
    assert_eq!(none, None, "another tenant's memory");
}
