use super::*;
use crate::world::{World, rich_world};

fn history(world: &World, id: MemoryId) -> MemoryHistory {
    let history: Vec<_> = world
        .changes
        .iter()
        .filter(|(_, change)| change.memory == id)
        .map(|(_, change)| change.clone())
        .collect();
    MemoryHistory::from_changes(id, &history).unwrap()
}

fn text(of: MemoryHistory, columns: u16) -> String {
    let effect = Some("not known yet: handed to 7 and by chance withheld from 0 runs".to_owned());
    MemoryHistory { effect, ..of }.render_text(columns)
}

#[test]
fn the_history_shows_the_weight_before_and_after_each_change() {
    let world = rich_world();
    insta::assert_snapshot!(text(history(&world, world.memory_about("syntax")), 130));
}

#[test]
fn the_history_ends_with_the_stored_memory() {
    let world = rich_world();
    for (_, memory) in &world.memories {
        let why = history(&world, memory.id);
        assert_eq!(why.memory.as_ref(), Some(memory));
        let last = why.history.last().unwrap().after.unwrap();
        assert_eq!((last.status, last.weight), (memory.status, memory.weight));
    }
}

#[test]
fn a_suppressed_lesson_has_a_history_without_a_memory_and_an_unknown_id_has_none() {
    let world = rich_world();
    let suppressed = world.changes.iter().find(|(_, change)| change.effect.kind() == "suppressed").unwrap();
    let why = history(&world, suppressed.1.memory);
    assert!(why.memory.is_none());
    let rendered = text(why, 120);
    assert!(rendered.contains("never became a memory"), "{rendered}");
    assert_eq!(MemoryHistory::from_changes(world.memory_about("syntax"), &[]), None);
}
