use retro_core::run::Outcome;

use super::*;
use crate::world::{World, key, rich};

/// The world in which the memory about "unknown column" stood before every other run from the second retrospective on; a
/// task is tried by two runs in a row.
fn tried(with: Outcome, without: Outcome) -> (World, MemoryId) {
    let mut world = rich();
    let id = world.about("unknown column");
    for nth in 0..3 {
        world.season(&key("default", "shop"), &|_, _| crate::world::looked(vec![], vec![]));
        assert_eq!(world.reports.len(), 4 + nth);
    }
    for row in &mut world.runs {
        let ordinal = row.ordinal.unwrap();
        let met = ordinal > 10 && ordinal.is_multiple_of(2);
        row.facts.task = Some(format!("task {}", ordinal.div_ceil(2)));
        row.facts.outcome = if met { with } else { without };
        row.facts.memories.presented = if met { vec![id] } else { vec![] };
    }
    (world, id)
}

async fn told(world: &World, id: MemoryId) -> Effect {
    memory_effect(world, &Tenant::default_tenant(), id).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_person_is_told_what_a_memory_does_and_how_sure_that_is() {
    let (world, id) = tried(Outcome::Success, Outcome::Failure);
    insta::assert_snapshot!(told(&world, id).await.text());
    let (world, id) = tried(Outcome::Timeout, Outcome::Success);
    insta::assert_snapshot!(told(&world, id).await.told);
    let (world, id) = tried(Outcome::Success, Outcome::Success);
    insta::assert_snapshot!(told(&world, id).await.told);
}

#[tokio::test]
async fn too_few_runs_make_no_claim() {
    let world = rich();
    let told = told(&world, world.about("unknown column")).await;
    assert_eq!(told.effect.unwrap().estimate, None);
    assert!(told.told.starts_with("no claim"), "{}", told.told);
}

#[tokio::test]
async fn what_was_never_active_met_nobody() {
    let mut world = World::default();
    let shop = key("default", "shop");
    world.season(&shop, &|_, number| {
        let seen = if number == 1 { vec![crate::world::finding("once")] } else { vec![] };
        crate::world::looked(seen, vec![])
    });
    let told = told(&world, world.about("once")).await;
    assert_eq!(told.told, "it was never active, so no run was handed it");
    assert_eq!(told.effect.unwrap().without.runs, 0);
}

/// However many looks it takes, and never more than a bound.
#[tokio::test]
async fn runs_are_read_a_look_at_a_time_and_the_newest_count() {
    let (mut world, id) = tried(Outcome::Success, Outcome::Failure);
    let newest = world.runs.last().unwrap().clone();
    let many = u64::try_from(RUNS_MAX).unwrap() + 10;
    world.runs.extend((100..100 + many).map(|ordinal| {
        let mut run = newest.clone();
        run.ordinal = Some(ordinal);
        run.facts.memories.presented.clear();
        run
    }));
    let effect = told(&world, id).await.effect.unwrap();
    assert_eq!((effect.with.runs, effect.without.runs as usize), (0, RUNS_MAX));
}

/// Whoever looks at a memory need not know that there is a comparison.
#[tokio::test]
async fn a_memory_and_its_life_are_shown_with_the_same_line_of_its_effect() {
    let (world, id) = tried(Outcome::Success, Outcome::Failure);
    let tenant = Tenant::default_tenant();
    let line = "runs end well more often with it: +100.0 points of success, 90 % interval +81.9 to +100.0";
    let memory = memory_with_effect(&world, &tenant, world.memory(id).clone()).await.unwrap();
    let why = why_with_effect(&world, &tenant, id).await.unwrap().unwrap();
    assert_eq!((memory.effect.as_deref(), why.effect.as_deref()), (Some(line), Some(line)));
    assert!(crate::memory(&memory).contains(&format!("\neffect: {line}\n")), "{}", crate::memory(&memory));
    assert!(why.text(120).contains(&format!("\neffect: {line}\n")), "{}", why.text(120));
    assert_eq!(serde_json::to_value(&memory).unwrap()["effect"], line);
    let none = why_with_effect(&world, &Tenant::new("nobody").unwrap(), id).await.unwrap();
    assert_eq!(none, None, "another tenant's memory");
}
