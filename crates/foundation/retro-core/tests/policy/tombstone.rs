//! A tombstone blocks similar lessons in its scope until it expires, but never the opposite lesson.

use retro_core::finding::{Finding, LessonCue};
use retro_core::learn::delete_by_operator;
use retro_core::time::add_seconds;

use crate::world::{DAY_S, World, finding, in_step, investigate, key, remark};

/// Builds a world in which an operator deleted the memory of this finding.
fn world_after_deletion(finding: Finding) -> World {
    let mut world = World::new();
    let title = finding.title.clone();
    world.retro(&[investigate("r1").with_finding(finding)]);
    let memory = world.named(&title).clone();
    let (change, memory, stone) =
        delete_by_operator(&key(), &memory, "request", "it is wrong", world.now, &world.policy).unwrap();
    world.log.push(change);
    world.tombstones.insert(memory.id, stone);
    world.memories.insert(memory.id, memory);
    world
}

/// Checks the kind of change that `again` causes after the memory of `first` is deleted.
#[track_caller]
fn check_after_deletion(first: Finding, again: Finding, kind: &str) {
    let description = format!("{} after {}", again.title, first.title);
    let lines = world_after_deletion(first).retro(&[investigate("r2").with_finding(again)]);
    assert!(lines[0].starts_with(&format!("r2 {kind}")), "{description}: {lines:?}");
}

fn swap_finding(avoid: &str, prefer: &str) -> Finding {
    let part = |text: &str| Some(text.to_owned());
    Finding {
        cue: LessonCue {
            tool: part("sh"),
            error: part("not found"),
            avoid: part(avoid),
            prefer: part(prefer),
            worked: None,
        },
        ..remark("The same words for both")
    }
}

#[test]
fn a_tombstone_blocks_an_equal_signature_and_no_other() {
    check_after_deletion(finding("A"), finding("A"), "suppressed (A, 1000)");
    check_after_deletion(finding("A"), Finding { title: "Other words".into(), ..finding("A") }, "suppressed");
    check_after_deletion(finding("A"), Finding { title: "A".into(), ..finding("B") }, "created");
}

#[test]
fn without_a_signature_similar_words_are_blocked_from_a_cosine_of_six_tenths() {
    check_after_deletion(remark("List the tables first"), remark("First list all the tables"), "suppressed");
    check_after_deletion(
        remark("List the tables first"),
        Finding { title: "List the tables".into(), ..finding("A") },
        "suppressed",
    );
    check_after_deletion(remark("List the tables first"), remark("Ask for the payment method"), "created");
    check_after_deletion(
        remark("Wait 5 seconds after a deploy"),
        remark("Wait 50 seconds after a deploy"),
        "suppressed",
    );
}

#[test]
fn the_opposite_of_a_deleted_lesson_is_not_blocked() {
    check_after_deletion(swap_finding("a", "b"), swap_finding("b", "a"), "created");
    check_after_deletion(remark("Retry the failing call"), remark("Never retry the failing call"), "created");
    check_after_deletion(remark("Use rg instead of grep"), remark("Use grep instead of rg"), "created");
    check_after_deletion(remark("Use rg instead of grep"), remark("Instead of grep, use rg"), "suppressed");
}

#[test]
fn a_tombstone_does_not_block_other_steps() {
    check_after_deletion(finding("A"), in_step("review", finding("A")), "created");
}

#[test]
fn a_suppressed_finding_is_recorded_with_the_reason_of_the_tombstone() {
    let mut world = world_after_deletion(finding("A"));
    let (_, applied) = world.retrospective(&[investigate("r2").with_finding(finding("A"))]);
    assert_eq!(applied.outcomes[0].reason, "a tombstone forbids it until 2026-02-01T00:00:00Z: it is wrong");
    assert!(
        applied.memories.is_empty() && !applied.changes.is_empty(),
        "the suppression is recorded and no memory is created"
    );
}

#[test]
fn a_tombstone_expires_and_is_purged_and_the_lesson_can_return() {
    let mut world = world_after_deletion(finding("A"));
    let until = add_seconds(world.now, world.policy.tombstone_s);
    world.now =
        add_seconds(until, 0).checked_sub(jiff::SignedDuration::from_secs((DAY_S + 1) as i64)).unwrap();
    let (lines, applied) = world.retrospective(&[investigate("r2").with_finding(finding("A"))]);
    assert!(
        lines[0].starts_with("r2 suppressed") && applied.expired.is_empty(),
        "a second before: {lines:?}"
    );
    world.now = add_seconds(world.now, 1).checked_sub(jiff::SignedDuration::from_secs(DAY_S as i64)).unwrap();
    let (lines, applied) = world.retrospective(&[investigate("r3").with_finding(finding("A"))]);
    assert_eq!(lines, ["r3 created A: tentative 0.000"]);
    assert_eq!(applied.expired.len(), 1);
    assert!(world.tombstones.is_empty());
    assert_eq!(
        world.log.iter().filter(|change| change.effect.kind() == "deleted").count(),
        1,
        "the deletion stays in the log"
    );
}

#[test]
fn a_tombstone_blocks_confirming_a_tentative_memory_but_not_observing_an_active_one() {
    let (one, two) = ("List the tables first", "List the tables and the views first");
    let mut world = World::new();
    world.policy.merge_similarity = 1000;
    world.retro(&[investigate("r1").with_finding(remark(one)).with_finding(remark(two))]);
    let memory = world.named(one).clone();
    let (_, _, stone) =
        delete_by_operator(&key(), &memory, "request", "no", world.now, &world.policy).unwrap();
    world.memories.remove(&memory.id);
    world.tombstones.insert(memory.id, stone);
    let lines = world.retro(&[investigate("r2").with_finding(remark(two))]);
    assert!(lines[0].starts_with("r2 suppressed"), "{lines:?}");
    assert_eq!(world.status_and_weight(two), "tentative 0.000");
    let mut world = world_after_deletion(finding("A"));
    world.add_active("A2", 300);
    world.memories.values_mut().for_each(|memory| memory.lesson.cue = finding("A").cue);
    assert_eq!(
        world.retro(&[investigate("r2").with_finding(finding("A"))]),
        ["r2 observed A2: active 0.300"]
    );
}

#[test]
fn an_operator_deletion_happens_once_per_request_and_only_to_living_memories() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let delete = |memory| delete_by_operator(&key(), memory, "request", "wrong", world.now, &world.policy);
    let (change, gone, _) = delete(&world.memories[&id]).unwrap();
    assert_eq!(change.id, delete(&world.memories[&id]).unwrap().0.id);
    assert_eq!(
        delete(&gone).unwrap_err().problem,
        "it is deleted; legal then: restored",
        "a second deletion is refused"
    );
}
