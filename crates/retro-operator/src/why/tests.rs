use super::*;
use crate::world::{World, rich};

fn life(world: &World, id: MemoryId) -> Why {
    let history: Vec<_> = world
        .changes
        .iter()
        .filter(|(_, change)| change.memory == id)
        .map(|(_, change)| change.clone())
        .collect();
    Why::of(id, &history).unwrap()
}

fn text(of: Why, columns: u16) -> String {
    WithEffect { of, effect: Some("no claim: 7 of 10 observations".to_owned()) }.text(columns)
}

#[test]
fn a_life_is_told_with_the_weight_before_and_after_each_change() {
    let world = rich();
    insta::assert_snapshot!(text(life(&world, world.about("syntax")), 130));
}

#[test]
fn the_memory_at_the_end_of_its_life_is_the_stored_one() {
    let world = rich();
    for (_, memory) in &world.memories {
        let why = life(&world, memory.id);
        assert_eq!(why.memory.as_ref(), Some(memory));
        let last = why.life.last().unwrap().after.unwrap();
        assert_eq!((last.status, last.weight), (memory.status, memory.weight));
    }
}

#[test]
fn a_lesson_that_was_kept_away_never_became_a_memory_and_an_unknown_one_has_no_life() {
    let world = rich();
    let suppressed = world.changes.iter().find(|(_, change)| change.effect.kind() == "suppressed").unwrap();
    let why = life(&world, suppressed.1.memory);
    assert!(why.memory.is_none());
    let told = text(why, 120);
    assert!(told.contains("never became a memory"), "{told}");
    assert_eq!(Why::of(world.about("syntax"), &[]), None);
}
