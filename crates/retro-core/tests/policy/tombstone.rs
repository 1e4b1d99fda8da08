//! A tombstone keeps away what is similar, in its scope and for its time; never the opposite.

use retro_core::finding::{Finding, LessonCue};
use retro_core::learn::delete_by_operator;
use retro_core::time::add_seconds;

use crate::world::{DAY_S, World, finding, in_step, key, look, remark};

/// A world in which a person has deleted the memory that this finding makes.
fn deleted(finding: Finding) -> World {
    let mut world = World::new();
    let title = finding.title.clone();
    world.retro(&[look("r1").finds(finding)]);
    let memory = world.named(&title).clone();
    let (change, memory, stone) =
        delete_by_operator(&key(), &memory, "request", "it is wrong", world.now, &world.policy).unwrap();
    world.log.push(change);
    world.tombstones.insert(memory.id, stone);
    world.memories.insert(memory.id, memory);
    world
}

/// What becomes of `again` when what `first` made was deleted.
#[track_caller]
fn check(first: Finding, again: Finding, kind: &str) {
    let told = format!("{} after {}", again.title, first.title);
    let lines = deleted(first).retro(&[look("r2").finds(again)]);
    assert!(lines[0].starts_with(&format!("r2 {kind}")), "{told}: {lines:?}");
}

fn swap(avoid: &str, prefer: &str) -> Finding {
    let part = |text: &str| Some(text.to_owned());
    Finding {
        cue: LessonCue {
            tool: part("sh"),
            error: part("not found"),
            avoid: part(avoid),
            prefer: part(prefer),
        },
        ..remark("The same words for both")
    }
}

#[test]
fn an_equal_signature_is_stopped_and_another_one_is_not() {
    check(finding("A"), finding("A"), "suppressed (A, 1000)");
    check(finding("A"), Finding { title: "Other words".into(), ..finding("A") }, "suppressed");
    check(finding("A"), Finding { title: "A".into(), ..finding("B") }, "created");
}

#[test]
fn without_a_signature_similar_words_are_stopped_from_a_cosine_of_six_tenths() {
    check(remark("List the tables first"), remark("First list all the tables"), "suppressed");
    check(
        remark("List the tables first"),
        Finding { title: "List the tables".into(), ..finding("A") },
        "suppressed",
    );
    check(remark("List the tables first"), remark("Ask for the payment method"), "created");
    check(remark("Wait 5 seconds after a deploy"), remark("Wait 50 seconds after a deploy"), "suppressed");
}

#[test]
fn the_opposite_of_what_was_deleted_is_not_stopped() {
    check(swap("a", "b"), swap("b", "a"), "created");
    check(remark("Retry the failing call"), remark("Never retry the failing call"), "created");
    check(remark("Use rg instead of grep"), remark("Use grep instead of rg"), "created");
    check(remark("Use rg instead of grep"), remark("Instead of grep, use rg"), "suppressed");
}

#[test]
fn another_step_is_not_stopped() {
    check(finding("A"), in_step("review", finding("A")), "created");
}

#[test]
fn a_tombstone_names_what_it_kept_away_and_why() {
    let mut world = deleted(finding("A"));
    let (_, applied) = world.retrospective(&[look("r2").finds(finding("A"))]);
    assert_eq!(applied.outcomes[0].why, "a tombstone forbids it until 2026-02-01T00:00:00Z: it is wrong");
    assert!(
        applied.memories.is_empty() && !applied.changes.is_empty(),
        "it is recorded, and nothing is made"
    );
}

#[test]
fn it_expires_after_its_time_and_is_purged_and_the_lesson_may_come_again() {
    let mut world = deleted(finding("A"));
    let until = add_seconds(world.now, world.policy.tombstone_s);
    world.now =
        add_seconds(until, 0).checked_sub(jiff::SignedDuration::from_secs((DAY_S + 1) as i64)).unwrap();
    let (lines, applied) = world.retrospective(&[look("r2").finds(finding("A"))]);
    assert!(
        lines[0].starts_with("r2 suppressed") && applied.expired.is_empty(),
        "a second before: {lines:?}"
    );
    world.now = add_seconds(world.now, 1).checked_sub(jiff::SignedDuration::from_secs(DAY_S as i64)).unwrap();
    let (lines, applied) = world.retrospective(&[look("r3").finds(finding("A"))]);
    assert_eq!(lines, ["r3 created A: tentative 0.000"]);
    assert_eq!(applied.expired.len(), 1);
    assert!(world.tombstones.is_empty());
    assert_eq!(
        world.log.iter().filter(|change| change.effect.kind() == "deleted").count(),
        1,
        "the row stays"
    );
}

#[test]
fn a_tentative_memory_similar_to_what_was_deleted_is_not_confirmed_and_an_active_one_is_untouched() {
    let (one, two) = ("List the tables first", "List the tables and the views first");
    let mut world = World::new();
    world.policy.merge_similarity = 1000;
    world.retro(&[look("r1").finds(remark(one)).finds(remark(two))]);
    let memory = world.named(one).clone();
    let (_, _, stone) =
        delete_by_operator(&key(), &memory, "request", "no", world.now, &world.policy).unwrap();
    world.memories.remove(&memory.id);
    world.tombstones.insert(memory.id, stone);
    let lines = world.retro(&[look("r2").finds(remark(two))]);
    assert!(lines[0].starts_with("r2 suppressed"), "{lines:?}");
    assert_eq!(world.stands(two), "tentative 0.000");
    let mut world = deleted(finding("A"));
    world.active("A2", 300);
    world.memories.values_mut().for_each(|memory| memory.lesson.cue = finding("A").cue);
    assert_eq!(world.retro(&[look("r2").finds(finding("A"))]), ["r2 observed A2: active 0.300"]);
}

#[test]
fn a_deletion_by_a_person_happens_once_a_request_and_only_to_what_lives() {
    let mut world = World::new();
    let id = world.active("A", 300);
    let delete = |memory| delete_by_operator(&key(), memory, "request", "wrong", world.now, &world.policy);
    let (change, gone, _) = delete(&world.memories[&id]).unwrap();
    assert_eq!(change.id, delete(&world.memories[&id]).unwrap().0.id);
    assert_eq!(
        delete(&gone).unwrap_err().problem,
        "it is deleted; legal then: ",
        "deleting twice is told, not done"
    );
}
