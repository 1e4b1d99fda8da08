//! The same runs in the same order, windows, seed, policy moment, policy and answers give the same bytes, in whichever
//! batches they arrive and in whichever order a database returns its rows.

use proptest::prelude::*;
use retro_core::id::RetrospectiveId;
use retro_core::learn::{ClosingFacts, close_retrospective};
use retro_core::report::WindowRun;
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};
use retro_core::run::RunOutcome;
use retro_core::sample::draw_sample;
use retro_core::similarity::NgramEmbedder;

use crate::ledger::{Ledger, events, workflows};
use crate::story::stories;
use crate::world::{Asked, Look, World, dawn, decide, finding, key, look, run};
use crate::{CASES, cases};

/// The same question with every list and set in another order.
fn stirred(asked: &Asked, turn: usize) -> Asked {
    let mut asked = asked.clone();
    let facts = &mut asked.facts;
    facts.memories.reverse();
    facts.tombstones.reverse();
    let (memories, tombstones) = (facts.memories.len().max(1), facts.tombstones.len().max(1));
    facts.memories.rotate_left(turn % memories);
    facts.tombstones.rotate_left(turn % tombstones);
    // A set made anew is seeded anew, and so iterated in another order.
    facts.applied = facts.applied.iter().copied().collect();
    asked
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap()
}

/// A window of ten runs whose sampled ones show the same two things.
fn facts(world: &World) -> ClosingFacts {
    let id = RetrospectiveId::of_epoch(&key(), 1);
    let sample = draw_sample(id, (1..=10).collect(), &world.policy);
    let looks = sample.order[..4].iter().map(|ordinal| -> Look {
        look(&format!("r{ordinal}")).finds(finding("A")).finds(finding(&format!("B{}", ordinal % 2)))
    });
    let investigations: Vec<_> = (1u32..).zip(looks).map(|(number, look)| look.ended(number)).collect();
    let batch = retro_core::learn::settle_investigations(id, &investigations);
    ClosingFacts {
        history: Default::default(),
        retrospective: Retrospective {
            id,
            key: key(),
            epoch: 1,
            first: 1,
            last: 10,
            as_of: dawn(),
            policy: world.policy.clone(),
            state: RetrospectiveState::Settling,
            asked: None,
        },
        sample,
        window: (1..=10)
            .map(|ordinal| WindowRun {
                ordinal,
                run: run(&format!("r{ordinal}")),
                outcome: RunOutcome::Failure,
                pull_requests: Vec::new(),
            })
            .collect(),
        timings: Vec::new(),
        writer: world.facts(id, &batch),
        batch,
        investigations,
        state: WorkflowState { counted: 10, claimed: 10, epoch: 1, open: true, ..WorkflowState::default() },
    }
}

proptest! {
    #![proptest_config(cases(CASES))]

    #[test]
    fn the_order_of_rows_does_not_matter_to_the_writer(story in stories(), turn in 0..10usize) {
        story.tell(|_, asked, applied, _| {
            let again = decide(&stirred(asked, turn));
            assert_eq!(json(&again.changes), json(&applied.changes));
            assert_eq!(json(&again.outcomes), json(&applied.outcomes));
            assert_eq!(json(&again.memories), json(&applied.memories));
            assert_eq!(again.tombstones, applied.tombstones);
        });
    }

    #[test]
    fn the_same_story_told_twice_gives_the_same_bytes(story in stories()) {
        let (one, two) = (story.tell(|_, _, _, _| {}), story.tell(|_, _, _, _| {}));
        prop_assert_eq!(json(&one.log), json(&two.log));
        prop_assert_eq!(json(&one.memories.values().collect::<Vec<_>>()), json(&two.memories.values().collect::<Vec<_>>()));
    }

    #[test]
    fn batches_do_not_matter_as_long_as_the_windows_are_the_same(
        events in events(),
        splits in prop::collection::vec(1..12usize, 1..40),
    ) {
        let mut whole = Ledger::default();
        let at_once = whole.count(&events, dawn());
        let mut parts = Ledger::default();
        let (mut rest, mut opened, mut counted) = (events.as_slice(), Vec::new(), Vec::new());
        for size in splits.iter().cycle() {
            let (batch, later) = rest.split_at((*size).min(rest.len()));
            let effects = parts.count(batch, dawn());
            opened.extend(effects.opened);
            counted.extend(effects.decisions);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(&parts, &whole);
        prop_assert_eq!(opened, at_once.opened);
        prop_assert_eq!(counted, at_once.decisions);
    }

    #[test]
    fn what_another_workflow_does_in_between_does_not_matter(events in events()) {
        let mut together = Ledger::default();
        together.count(&events, dawn());
        for key in workflows() {
            let own: Vec<_> = events.iter().filter(|one| one.key == key).cloned().collect();
            let mut alone = Ledger::default();
            alone.count(&own, dawn());
            prop_assert_eq!(alone.workflows.get(&key), together.workflows.get(&key));
            prop_assert_eq!(alone.ordinals(&key), together.ordinals(&key));
        }
    }
}

#[test]
fn a_report_is_the_same_bytes_however_the_rows_are_ordered() {
    let mut world = World::new();
    for nth in 0..20 {
        world.active(&format!("given {nth}"), 60);
    }
    let closed = |facts| json(&close_retrospective(facts, &NgramEmbedder, &world.policy, dawn()).report);
    let mut other = facts(&world);
    other.writer.memories.reverse();
    assert_eq!(closed(facts(&world)), closed(other));
}
